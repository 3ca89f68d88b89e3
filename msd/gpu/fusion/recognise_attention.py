"""Attention: two batched products with a softmax between them, and the rearrangements around them."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite

from msd.gpu.fusion.constants import reals
from msd.gpu.views import StridedView, contiguous_strides, view
from msd.graph.rewrite import Graph, Op, Tensor, graph_pass

BACK = [0, 2, 1, 3]
"""The transpose that brings heads behind rows again."""


@dataclass(frozen=True)
class _Scores:
    """softmax(scale * q k^T + mask): the product's operator, the scale and the mask."""

    product: Op
    scale: float
    mask: Tensor | None


@graph_pass("canonicalize")
def recognise_attention(graph: Graph) -> int:
    """BATCH_MATMUL(SOFTMAX(BATCH_MATMUL(q, k^T) + mask), v)  =>  ATTENTION(q, k, v, mask)"""
    return sum(_recognise(graph, op) for op in list(graph.ops) if op.kind == "BATCH_MATMUL")


def _recognise(graph: Graph, second: Op) -> bool:
    weights, values = second.operands
    softmax = weights.producer
    if softmax is None or softmax.kind != "SOFTMAX" or not _read_once(graph, weights):
        return False
    if second.attrs["adj_x"] or softmax.attrs["beta"] != 1 or len(second.outputs[0].shape) not in (3, 4):
        return False
    scores = _scores(graph, softmax.operands[0])
    if scores is None or scores.product.attrs["adj_x"]:
        return False
    views = _views(scores.product, second, values)
    if views is None:
        return False
    result = _result(graph, second.outputs[0])
    _replace(graph, scores, views, result)
    return True


def _read_once(graph: Graph, tensor: Tensor) -> bool:
    return len(tensor.uses) == 1 and not any(t is tensor for t in graph.outputs)


def _scores(graph: Graph, tensor: Tensor, scale: float = 1.0, mask: Tensor | None = None) -> _Scores | None:
    """Look through a sum with a constant mask and a product with a constant for the first product."""
    maker = tensor.producer
    if maker is None or not _read_once(graph, tensor):
        return None
    if maker.kind == "BATCH_MATMUL":
        return _Scores(maker, scale, mask)
    if maker.kind not in ("ADD", "MUL") or maker.attrs["fused_activation_function"] != "NONE":
        return None
    known = next((t for t in maker.operands if t.data is not None), None)
    other = next((t for t in maker.operands if t.data is None), None)
    if known is None or other is None:
        return None
    if maker.kind == "MUL" and known.size == 1:
        scale *= float(reals(known).reshape(-1)[0])
        return _scores(graph, other, scale, mask) if isfinite(scale) else None
    square = known.size == tensor.shape[-1] * tensor.shape[-2] and known.shape[-2:] == tensor.shape[-2:]
    if maker.kind == "ADD" and mask is None and scale == 1 and square:
        return _scores(graph, other, scale, known)
    return None


def _views(first: Op, second: Op, values: Tensor) -> tuple[StridedView, StridedView, StridedView] | None:
    """Return q, k and v by (batch, head, row, element); None where elements are not consecutive."""
    q, k, v = (view(t) for t in (*first.operands, values))
    rank = len(q.shape)
    swapped = (*range(rank - 2), rank - 1, rank - 2)
    k = k if first.attrs["adj_y"] else k.transposed(swapped)
    v = v.transposed(swapped) if second.attrs["adj_y"] else v
    if len({len(each.shape) for each in (q, k, v)}) > 1 or q.shape[:-2] != k.shape[:-2] != v.shape[:-2]:
        return None
    ranked = [_with_batch(each) for each in (q, k, v)]
    if any(each.strides[3] != 1 and each.shape[3] != 1 for each in ranked):
        return None
    return ranked[0], ranked[1], ranked[2]


def _with_batch(each: StridedView) -> StridedView:
    if len(each.shape) == 4:
        return each
    return StridedView(each.base, each.offset, (1, *each.shape), (0, *each.strides))


def _result(graph: Graph, tensor: Tensor) -> tuple[Tensor, tuple[int, int, int]]:
    """Return the tensor to write, behind a transpose if there is one, and its strides but the last."""
    uses = list(tensor.uses)
    if _read_once(graph, tensor) and uses[0][0].kind == "TRANSPOSE" and len(tensor.shape) == 4:
        back = uses[0][0]
        order = back.operands[1]
        if order.data is not None and order.values().reshape(-1).tolist() == BACK:
            batch, row, head, _ = contiguous_strides(back.outputs[0].shape)
            return back.outputs[0], (batch, head, row)
    *outer, head, row, _ = contiguous_strides(tensor.shape)
    return tensor, (outer[0] if outer else 0, head, row)


def _replace(
    graph: Graph, scores: _Scores, views: tuple[StridedView, ...], result: tuple[Tensor, tuple[int, int, int]]
) -> None:
    old, strides = result
    q, k, v = views
    attrs = {
        "shape": old.shape,
        "batch": q.shape[0],
        "heads": q.shape[1],
        "queries": q.shape[2],
        "keys": k.shape[2],
        "size": q.shape[3],
        "value_size": v.shape[3],
        "scale": scores.scale,
    }
    placed = zip("qkvy", [*(each.strides for each in views), strides], strict=True)
    for name, (batch, head, row, *_) in placed:
        attrs |= {f"{name}_batch": batch, f"{name}_head": head, f"{name}_row": row}
    attrs |= {f"{name}_offset": each.offset for name, each in zip("qkv", views, strict=True)}
    new = Tensor(old.name, old.shape, old.dtype)
    op = Op("ATTENTION", (q.base, k.base, v.base, scores.mask), [new], attrs)
    graph.insert_before(old.maker, [op])
    graph.replace_tensor(old, new)
