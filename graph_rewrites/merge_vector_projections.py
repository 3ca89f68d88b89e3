"""The projections of one vector, such as a timestep's embedding, become one convolution."""

from collections import defaultdict

from graph_rewrites.merge_projections import LARGEST
from msd.rewrite import Build, ConvSize, Graph, Op, Target, Weights, graph_pass


@graph_pass("cleanup", spells=("vector_projections", "merged"))
def merge_vector_projections(graph: Graph, target: Target) -> int:
    """CONV_2D(x, a), CONV_2D(x, b) of one place, with as many outputs  =>  SPLIT of CONV_2D(x, [a b])

    A convolution of one place has too few outputs to fill a GPU. Merges as many into one as the target's
    textures and `LARGEST` allow.
    """
    groups: dict[tuple[object, ...], list[Op]] = defaultdict(list)
    for o in graph.ops:
        if _is_projection(o) and o.outputs[0] not in graph.outputs:
            activation = o.attrs["fused_activation_function"]
            groups[id(o.operands[0]), o.outputs[0].shape, activation].append(o)
    chunks = [chunk for convs in groups.values() for chunk in _chunks(convs, target)]
    for chunk in chunks:
        _merge(graph, chunk)
    return len(chunks)


def _is_projection(o: Op) -> bool:
    """Whether it is a 1x1 convolution with constant weights of one place."""
    if o.kind != "CONV_2D" or len(o.operands) != 3 or o.operands[0].shape[1:3] != (1, 1):
        return False
    constant = all(t.data is not None and not t.quant for t in o.operands[1:])
    return constant and o.operands[1].shape[1:] == (1, 1, o.operands[0].shape[3])


def _chunks(convs: list[Op], target: Target) -> list[list[Op]]:
    """Return groups of two or more that one convolution can hold."""
    outputs, _, _, inputs = convs[0].operands[1].shape
    most = max((n for n in range(2, len(convs) + 1) if _fits(n * outputs, inputs, target)), default=1)
    chunks = [convs[start : start + most] for start in range(0, len(convs), most)]
    return [chunk for chunk in chunks if len(chunk) > 1]


def _fits(outputs: int, inputs: int, target: Target) -> bool:
    size = ConvSize(inputs=inputs, outputs=outputs, height=1, width=1, kernel=(1, 1))
    return outputs * inputs <= LARGEST and target.device.fits(size)


def _merge(graph: Graph, convs: list[Op]) -> None:
    """Put one convolution, then SPLIT, in the place of several."""
    new = Build(f"{convs[0].outputs[0].name}~merged.")
    x, *names = convs[0].operands
    joined = [Weights.joined([conv.operands[i].weights for conv in convs]) for i in (1, 2)]
    filters = [new.const(w, t.name) for w, t in zip(joined, names, strict=True)]
    parts = new.SPLIT(3, new.again(convs[0], x, *filters), len(convs))
    graph.insert_before(min(convs, key=graph.ops.index), new.ops)
    for conv, part in zip(convs, parts, strict=True):
        graph.replace_tensor(conv.outputs[0], part)
    graph.erase(convs)
