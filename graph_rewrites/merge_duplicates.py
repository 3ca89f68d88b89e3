"""Identical operators are merged into one."""

from typing import Any

import numpy as np

from msd.graph.rewrite import SIDE_EFFECTS, Graph, Op, Tensor, graph_pass

LARGEST = 64
"""Constants up to this many elements are compared by value, others by identity."""


@graph_pass("cleanup")
def merge_duplicates(graph: Graph) -> int:
    """two operators of one kind with the same inputs and attributes  =>  one of them"""
    seen: dict[Any, Op] = {}
    merged = 0
    for o in [o for o in graph.ops if _is_pure(o)]:
        first = seen.setdefault(_key(o), o)
        if first is not o and not any(t is out for t in graph.outputs for out in o.outputs):
            for mine, theirs in zip(o.outputs, first.outputs, strict=True):
                graph.replace_tensor(mine, theirs)
            graph.erase([o])
            merged += 1
    return merged


def _is_pure(o: Op) -> bool:
    """Whether the result depends only on the properties that `_key` compares."""
    if o.kind in SIDE_EFFECTS or o.kind.startswith("CUSTOM") or o.rest:
        return False
    return not any(t.is_variable for t in o.operands) and not any(t.quant for t in o.outputs)


def _key(o: Op) -> Any:
    attrs = tuple(sorted((k, str(v)) for k, v in o.attrs.items()))
    results = tuple((t.dtype, t.shape) for t in o.outputs)
    return o.kind, o.version, attrs, results, tuple(map(_operand_key, o.inputs))


def _operand_key(tensor: Tensor | None) -> Any:
    if tensor is None or tensor.data is None or tensor.quant:
        return id(tensor)
    if tensor.size > LARGEST:
        return id(tensor.data)
    return tensor.dtype, tensor.shape, np.asarray(tensor.values()).tobytes()
