"""Which operators a delegate joins in one dispatch: each rule of its source, and properties."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from msd.graph.ir import Build, Graph, Tensor
from msd.graph.prediction.delegate import Delegate
from msd.graph.prediction.fusion import fused
from msd.graph.prediction.gpu_nodes import parsed, unfused
from msd.graph.prediction.registry import delegates, find_delegate
from msd.graph.prediction.storage import bhwc
from tests.harness import build

LITERT = find_delegate("litert-gpu")
Net = Callable[..., Tensor]


def kinds(graph: Graph, delegate: str = "litert-gpu") -> list[str]:
    return ["+".join(op.kind for op in node.ops) for node in fused(graph, find_delegate(delegate))]


def conv(new: Build, x: Tensor, channels: int = 8) -> Tensor:
    filters = new.const([[[[0.5] * x.shape[3]]]] * channels)
    return new.CONV_2D(x, filters, new.const([0.0] * channels), stride_w=1, stride_h=1)


def silu(new: Build, x: Tensor) -> Tensor:
    return new.MUL(x, new.LOGISTIC(x))


def layer_norm(new: Build, x: Tensor, scale: float | None = None) -> Tensor:
    centred = new.SUB(x, new.MEAN(x, [3], keep_dims=True))
    centred = centred if scale is None else new.MUL(centred, scale)
    variance = new.MEAN(new.MUL(centred, centred), [3], keep_dims=True)
    return new.MUL(centred, new.RSQRT(new.ADD(variance, 1e-5)))


X = (1, 5, 3, 8)
NETS: dict[str, tuple[Net, list[str]]] = {
    "a residual, first": (lambda new, x: new.ADD(conv(new, x), x), ["CONV_2D+ADD"]),
    "a residual, last": (lambda new, x: new.ADD(x, conv(new, x)), ["CONV_2D+ADD"]),
    "a difference that reads the result last": (lambda new, x: new.SUB(x, conv(new, x)), ["CONV_2D", "SUB"]),
    "a function and a chain of one": (
        lambda new, x: new.ADD(new.TANH(y := conv(new, x)), new.ABS(new.EXP(y))),
        ["CONV_2D+EXP+ABS+TANH+ADD"],
    ),
    "SiLU of a convolution": (lambda new, x: silu(new, conv(new, x)), ["CONV_2D+LOGISTIC+MUL"]),
    "SiLU of a sum of two": (
        lambda new, x: silu(new, new.ADD(conv(new, x), x)),
        ["CONV_2D+ADD", "LOGISTIC+MUL"],
    ),
    "two functions of one": (
        lambda new, x: new.MUL(new.TANH(y := conv(new, x)), new.EXP(y)),
        ["CONV_2D+EXP+TANH+MUL"],
    ),
    "a chain": (lambda new, x: new.NEG(new.ABS(new.EXP(x))), ["EXP+ABS+NEG"]),
    "what grows": (
        lambda new, x: new.SUB(new.MEAN(conv(new, x), [1, 2], keep_dims=True), x),
        ["CONV_2D", "MEAN", "SUB"],
    ),
    "what is broadcast": (
        lambda new, x: new.MUL(conv(new, x), new.MEAN(x, [1, 2], keep_dims=True)),
        ["CONV_2D", "MEAN", "MUL"],
    ),
    "a layer norm": (layer_norm, ["MEAN+SUB+MUL+MEAN+ADD+RSQRT+MUL"]),
    "a layer norm with a scale": (
        lambda new, x: layer_norm(new, x, 0.125),
        ["MEAN", "SUB+MUL", "MUL", "MEAN+ADD+RSQRT", "MUL"],
    ),
    "padding": (
        lambda new, x: conv(new, new.PAD(x, [[0, 0], [1, 2], [0, 1], [0, 0]])),
        ["CONV_2D+PAD"],
    ),
    "padding of channels": (
        lambda new, x: conv(new, new.PAD(x, [[0, 0], [1, 2], [0, 1], [0, 4]])),
        ["PAD", "CONV_2D"],
    ),
    "an activation": (
        lambda new, x: new.MUL(conv(new, x), 2.0, fused_activation_function="RELU6"),
        ["CONV_2D+MUL"],
    ),
}


@pytest.mark.parametrize("name", NETS)
def test_what_is_joined(name: str) -> None:
    net, expected = NETS[name]
    assert kinds(build(net, x=X)) == expected


def merge_heads(new: Build, x: Tensor) -> Tensor:
    return new.TRANSPOSE(new.RESHAPE(x, [1, 15, 2, 4]), [0, 2, 1, 3])


@pytest.mark.parametrize(("delegate", "expected"), [("litert-gpu", 1), ("tflite-gpu", 2)])
def test_litert_joins_what_moves_pixels(delegate: str, expected: int) -> None:
    assert len(kinds(build(merge_heads, x=X), delegate)) == expected


def test_what_moves_parts_of_pixels_is_not_joined() -> None:
    six = build(lambda new, x: new.TRANSPOSE(new.RESHAPE(x, [1, 15, 2, 6]), [0, 2, 1, 3]), x=(1, 5, 3, 12))
    last = build(lambda new, x: new.TRANSPOSE(new.RESHAPE(x, [1, 15, 2, 4]), [0, 2, 3, 1]), x=X)
    assert [kinds(graph) for graph in (six, last)] == [["RESHAPE", "TRANSPOSE"]] * 2


@pytest.mark.parametrize("delegate", delegates().values(), ids=lambda delegate: delegate.name)
def test_a_reshape_to_the_same_pixels_is_no_dispatch(delegate: Delegate) -> None:
    graph = build(lambda new, x: new.EXP(new.RESHAPE(x, [1, 1, 15, 8])), x=(1, 15, 8))
    (node,) = fused(graph, delegate)
    assert ([op.kind for op in node.ops], node.reads) == (["EXP"], (graph.inputs[0],))
    output = build(lambda new, x: new.RESHAPE(x, [1, 1, 15, 8]), x=(1, 15, 8))
    assert len(fused(output, delegate)) == 1


def test_litert_reduces_a_sum_that_nothing_else_reads() -> None:
    def net(new: Build, x: Tensor) -> Tensor:
        return new.MEAN(new.ADD(new.SOFTMAX(x), x), [3], keep_dims=True)

    assert kinds(build(net, x=X)) == ["SOFTMAX", "ADD+MEAN"]
    assert kinds(build(net, x=X), "tflite-gpu") == ["SOFTMAX+ADD", "MEAN"]


def test_two_functions_of_one_row_are_joined_by_litert_alone() -> None:
    """An axis of one is a broadcast to TensorFlow Lite's delegate, which then reads the operand elsewhere."""

    def net(new: Build, x: Tensor) -> Tensor:
        return new.MUL(new.TANH(y := new.SOFTMAX(x)), new.EXP(y))

    row = (1, 1, 7, 8)
    assert kinds(build(net, x=row)) == ["SOFTMAX+EXP+TANH+MUL"]
    assert kinds(build(net, x=row), "tflite-gpu") == ["SOFTMAX", "TANH", "EXP+MUL"]
    assert kinds(build(net, x=X), "tflite-gpu") == ["SOFTMAX+EXP+TANH+MUL"]


def test_constants_are_not_dequantised_in_a_dispatch() -> None:
    new = Build()
    x, half = Tensor("x", X), new.const([1.0] * 8)
    graph = Graph([x], [new.MUL(x, new.DEQUANTIZE(half))], new.ops)
    assert [node.kind for node in unfused(graph)] == ["MUL"]
    assert [node.reads for node in fused(graph, LITERT)] == [(x,)]


def test_each_result_of_a_split_is_a_slice_of_its_own() -> None:
    graph = build(lambda new, x: new.MUL(*new.SPLIT(3, x, 2)), x=X)
    assert [node.kind for node in parsed(graph, LITERT)] == ["SPLIT", "SPLIT", "MUL"]
    assert kinds(graph) == ["SPLIT", "SPLIT+MUL"]


STEPS = st.lists(st.tuples(st.integers(0, 7), st.integers(0, 30), st.integers(0, 30)), max_size=25)


def step(new: Build, kind: int, one: Tensor, other: Tensor) -> Tensor:
    """An elementwise operator, a mean, a softmax or a move."""
    if kind < 3:
        return (new.ADD, new.MUL, new.SUB)[kind](one, other)
    if kind < 5:
        return (new.LOGISTIC, new.SOFTMAX)[kind - 3](one)
    if kind == 5:
        return new.MUL(one, 0.5)
    if kind == 6:
        return new.ADD(one, new.MEAN(other, [3], keep_dims=True))
    return new.RESHAPE(new.TRANSPOSE(one, [0, 2, 1, 3]), [1, 4, 6, 8])


def random_graph(steps: list[tuple[int, int, int]]) -> Graph:
    """A graph with every unread result as an output, and one that is read."""
    new, x, y = Build(), Tensor("x", (1, 4, 6, 8)), Tensor("y", (1, 4, 6, 8))
    made = [x, y]
    for kind, left, right in steps:
        made.append(step(new, kind, made[left % len(made)], made[right % len(made)]))
    return Graph([x, y], [t for t in made if not t.uses] + made[len(made) // 2 :][:1], new.ops)


@given(STEPS)
def test_what_holds_of_every_graph(steps: list[tuple[int, int, int]]) -> None:
    """Each operator is computed once, from what is there by then, and each output of the graph is written."""
    graph = random_graph(steps)
    for delegate in delegates().values():
        nodes = fused(graph, delegate)
        computed = Counter(op for node in nodes for op in node.ops)
        assert set(computed.values()) <= {1}
        missing = [op for op in graph.ops if op not in computed]
        same = [op for op in missing if bhwc(op.operands[0].shape) == bhwc(op.outputs[0].shape)]
        assert missing == same
        ready = set(graph.inputs)
        for node in nodes:
            assert ready.issuperset(node.reads)
            ready.update(node.writes)
        assert ready.issuperset(graph.outputs)
        assert len(nodes) <= len(unfused(graph))
