"""Attention as LiteRT's composite `odml.scaled_dot_product_attention`, for which ML Drift has kernels.

The composite reads queries (B, T, heads, width), keys and values (B, S, heads, width), and has the shape of
the queries. Its attribute `scale` is always written: without it ML Drift does not scale, and XNNPACK by
1/sqrt(width). A graph of its own says what it computes, for runtimes that do not know it.

Sources, in google-ai-edge/LiteRT: ml_drift_delegate/tflite/convert/convert_sdpa.cc and its test, which is how
the GPU delegate reads it; tflite/delegates/xnnpack/xnnpack_delegate.cc for the layout.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from flatbuffers import flexbuffers

from msd.graph.ir import Build, Graph, Model, Op, Tensor
from msd.graph.ir.executed_graphs import COMPOSITE
from msd.graph.prediction.arithmetic import ATTENTION

HEADS_SECOND = (0, 2, 1, 3)
"""From (B, tokens, heads, width) to (B, heads, tokens, width), and back."""

KEYS_BACK = (0, 3, 1, 2)
"""From (B, heads, width, tokens) to (B, tokens, heads, width)."""

Order = tuple[int, ...]


@dataclass(frozen=True)
class _Attention:
    """BATCH_MATMUL(SOFTMAX(BATCH_MATMUL(q, k)), v); `keys_back` brings k to (B, S, heads, width)."""

    first: Op
    second: Op
    keys_back: Order

    @property
    def operands(self) -> tuple[tuple[Tensor, Order], ...]:
        """Queries, keys and values, each with the order that brings it to (B, tokens, heads, width)."""
        queries, keys = self.first.operands
        return (queries, HEADS_SECOND), (keys, self.keys_back), (self.second.operands[1], HEADS_SECOND)


def compose_attention(model: Model) -> int:
    """Put a composite in the place of each attention without a mask in the main graph; return how many.

    BATCH_MATMUL(SOFTMAX(BATCH_MATMUL(q, k)), v)  =>  STABLEHLO_COMPOSITE(q, k, v), whose decomposition is
    another graph of the model, one for each combination of shapes. Transposes around it go.
    """
    composer = _Composer(model)
    found = [each for op in model.main.ops if (each := _attention(model.main, op))]
    for attention in found:
        composer.compose(attention)
    model.main.remove_dead()
    return len(found)


def _attention(graph: Graph, second: Op) -> _Attention | None:
    """Return the attention that ends in `second`; None where the composite cannot say what it computes."""
    first = _scores(graph, second)
    if first is None or first.attrs["adj_x"] or second.attrs["adj_x"] or second.attrs["adj_y"]:
        return None
    attention = _Attention(first, second, HEADS_SECOND if first.attrs["adj_y"] else KEYS_BACK)
    shapes = [tuple(tensor.shape[axis] for axis in order) for tensor, order in attention.operands]
    queries, keys, values = shapes
    fits = keys == values and (queries[0], *queries[2:]) == (keys[0], *keys[2:])
    # Measured with ai-edge-litert 2.3.0: its CPU computes one head of several images wrong.
    fits = fits and (keys[2] > 1 or keys[0] == 1)
    return attention if fits and all(t.data is None for t, _ in attention.operands) else None


def _scores(graph: Graph, second: Op) -> Op | None:
    """Return the product whose softmax `second` multiplies, if nothing else reads them."""
    if second.kind != "BATCH_MATMUL" or len(second.outputs[0].shape) != 4:
        return None
    softmax = second.operands[0].producer
    if softmax is None or softmax.kind != "SOFTMAX" or softmax.attrs["beta"] != 1:
        return None
    first = softmax.operands[0].producer
    read_once = all(
        len(t.uses) == 1 and t not in graph.outputs for t in (second.operands[0], *softmax.operands)
    )
    return first if first is not None and first.kind == "BATCH_MATMUL" and read_once else None


class _Composer:
    """Writes composites into a model; attentions of equal shapes share a decomposition."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.decompositions: dict[tuple[tuple[int, ...], ...], int] = {}
        self.parts: dict[tuple[Op, Order], Sequence[Tensor]] = {}

    def compose(self, attention: _Attention) -> None:
        """Put a composite in the place of an attention."""
        graph, result = self.model.main, attention.second.outputs[0]
        new = Build(f"{result.name}~composite.")
        operands = [self._transposed(new, tensor, order) for tensor, order in attention.operands]
        composite = Tensor(f"{result.name}~composite", operands[0].shape, result.dtype)
        attributes = {
            "name": ATTENTION,
            "version": 1,
            "decomposition_subgraph_index": self._decomposition(operands),
            "composite_attributes": tuple(flexbuffers.Dumps({"scale": 1.0})),
        }
        new.ops.append(Op(COMPOSITE, operands, [composite], attributes))
        back = _only_transpose(graph, result)
        ordered = composite if back else _reordered(new, composite, HEADS_SECOND)
        graph.insert_before(attention.second, new.ops)
        graph.replace_tensor(back.outputs[0] if back else result, ordered)

    def _transposed(self, new: Build, tensor: Tensor, order: Order) -> Tensor:
        """Return TRANSPOSE(tensor, order), looking through transposes and splits before it."""
        maker = tensor.producer
        if maker is not None and maker.kind == "TRANSPOSE" and maker.operands[1].data is not None:
            before = maker.operands[1].values().tolist()
            return self._transposed(new, maker.operands[0], tuple(before[axis] for axis in order))
        if maker is not None and maker.kind == "SPLIT" and maker.operands[1].producer is not None:
            return self._parts(new, maker, order)[maker.outputs.index(tensor)]
        return tensor if order == tuple(range(len(order))) else _reordered(new, tensor, order)

    def _parts(self, new: Build, split: Op, order: Order) -> Sequence[Tensor]:
        """Return the parts of a SPLIT in another order of axes, which attentions of one source share."""
        if (split, order) not in self.parts:
            axis, whole = split.operands
            at = int(axis.values().reshape(-1)[0]) % len(order)
            self.parts[split, order] = new.SPLIT(
                order.index(at), self._transposed(new, whole, order), split.attrs["num_splits"]
            )
        return self.parts[split, order]

    def _decomposition(self, operands: list[Tensor]) -> int:
        """Return the number of the graph that computes attention for these shapes."""
        shapes = tuple(tensor.shape for tensor in operands)
        if shapes not in self.decompositions:
            self.decompositions[shapes] = len(self.model.graphs)
            self.model.graphs.append(_decomposition(shapes, f"{ATTENTION}.{len(self.decompositions)}"))
        return self.decompositions[shapes]


def _reordered(new: Build, tensor: Tensor, order: Order) -> Tensor:
    """Return TRANSPOSE(tensor, order), or RESHAPE where only axes of length 1 move."""
    moved = [axis for axis in order if tensor.shape[axis] > 1]
    if moved == sorted(moved):
        return new.RESHAPE(tensor, [tensor.shape[axis] for axis in order])
    return new.TRANSPOSE(tensor, [*order])


def _only_transpose(graph: Graph, result: Tensor) -> Op | None:
    """Return the transpose behind an attention that brings its heads back, if nothing else reads it."""
    users = [op for op, _ in result.uses]
    if len(users) != 1 or result in graph.outputs or users[0].kind != "TRANSPOSE":
        return None
    order = users[0].operands[1]
    return users[0] if order.data is not None and order.values().tolist() == [*HEADS_SECOND] else None


def _decomposition(shapes: tuple[tuple[int, ...], ...], name: str) -> Graph:
    new = Build(f"{name}.")
    inputs = [Tensor(f"{name}.{what}", shape) for what, shape in zip("qkv", shapes, strict=True)]
    queries, keys, values = inputs
    scores = new.BATCH_MATMUL(new.TRANSPOSE(queries, [0, 2, 1, 3]), new.TRANSPOSE(keys, [0, 2, 3, 1]))
    result = new.BATCH_MATMUL(new.SOFTMAX(scores, beta=1.0), new.TRANSPOSE(values, [0, 2, 1, 3]))
    return Graph(inputs, [new.TRANSPOSE(result, [0, 2, 1, 3])], new.ops, name)
