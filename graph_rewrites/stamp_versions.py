"""Each operator gets the lowest version that suffices.

Delegates refuse higher ones by number, and runtimes that know a lower one only may compute nonsense without a
word: some converters leave version 1 where weights have a scale for each channel.
"""

from msd.graph.rewrite import Graph, Op, Tensor, graph_pass

RANK5_VERSIONS = {"SUB": 2, "ADD": 1, "MUL": 1, "DIV": 1}

INT8_VERSIONS = {
    "CONV_2D": (2, 5),
    "DEPTHWISE_CONV_2D": (4, 6),
    "FULLY_CONNECTED": (3, 12),
    "EMBEDDING_LOOKUP": (1, 4),
}
"""The versions for float results of int8 weights with one scale and with several: op_version.cc of LiteRT."""


@graph_pass("cleanup")
def stamp_versions(graph: Graph) -> int:
    """ADD, SUB, MUL, DIV stamped for rank 5 or more  =>  the version for rank 4, if of rank 4

    A layer with int8 weights  =>  at least the version for them.
    """
    return sum(map(_lower, graph.ops)) + sum(map(_raise, graph.ops))


def _lower(o: Op) -> bool:
    lowest = RANK5_VERSIONS.get(o.kind)
    if lowest is None or o.version <= lowest or not _is_plain(o):
        return False
    o.version = lowest
    return True


def _is_plain(o: Op) -> bool:
    return all(len(t.shape) <= 4 and t.dtype == "FLOAT32" for t in (*o.operands, *o.outputs))


def _raise(o: Op) -> bool:
    weights = o.inputs[1] if o.kind in INT8_VERSIONS and len(o.inputs) > 1 else None
    if weights is None or o.outputs[0].dtype != "FLOAT32":
        return False
    needed = _needed(o, weights)
    if o.version >= needed:
        return False
    o.version = needed
    return True


def _needed(o: Op, weights: Tensor) -> int:
    several = weights.quant is not None and weights.quant.scale.size > 1
    if o.kind == "EMBEDDING_LOOKUP" and weights.dtype == "INT4":
        return 4
    if weights.dtype != "INT8":
        return 1
    if o.kind == "FULLY_CONNECTED" and not several and o.attrs["asymmetric_quantize_inputs"]:
        return 9
    return INT8_VERSIONS[o.kind][several]
