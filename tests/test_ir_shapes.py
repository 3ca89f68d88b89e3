"""Every shape that is inferred is the one that LiteRT's interpreter makes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from ai_edge_litert.schema_py_generated import BuiltinOperator
from hypothesis import given, settings
from hypothesis import strategies as st

from msd.graph.ir import NUMPY, Build, Graph, Tensor, opset, shapes
from tests.on_cpu import graph, run_graph

FEW = settings(max_examples=25)

Call = Callable[..., Any]
"""Builds one operator, given `Build` and its inputs; returns its result or results."""

X = ((2, 3, 5, 7), "FLOAT32")


def check(call: Call, *specs: tuple[tuple[int, ...], str], dtype: str = "FLOAT32") -> None:
    """Assert that the built operator's results have the shapes that the interpreter makes, and this dtype."""
    new = Build()
    inputs = [Tensor(f"x{i}", shape, dtype) for i, (shape, dtype) in enumerate(specs)]
    made = call(new, *inputs)
    results = made if isinstance(made, tuple) else (made,)
    feeds = [np.ones(t.shape, NUMPY[t.dtype]) for t in inputs]
    got = run_graph(graph(new, inputs, results), *feeds)
    assert [t.shape for t in results] == [a.shape for a in got]
    assert {t.dtype for t in results} == {dtype}


def floats(*shapes: tuple[int, ...]) -> list[tuple[tuple[int, ...], str]]:
    return [(shape, "FLOAT32") for shape in shapes]


def conv(height: int, width: int, channels: int, outputs: int, kernel: tuple[int, int], **attrs: Any) -> None:
    filters = np.ones((outputs, *kernel, channels), np.float32)
    check(
        lambda new, x: new.CONV_2D(x, filters, np.zeros(outputs, np.float32), **attrs),
        ((2, height, width, channels), "FLOAT32"),
    )


def inferred_by(function: opset.Infer, *but: str) -> list[str]:
    """Return the operators whose shapes `function` infers, without those in `but`."""
    kinds = opset.enum_names(BuiltinOperator).values()
    return sorted(k for k in kinds if opset.spec(k).infer is function and k not in but)


@pytest.mark.parametrize("kind", inferred_by(shapes.same, "CAST", "DEQUANTIZE", "PRELU"))
def test_elementwise_operators_keep_the_shape(kind: str) -> None:
    check(lambda new, x: getattr(new, kind)(x), X)


def test_prelu_keeps_the_shape_of_what_it_slopes() -> None:
    check(lambda new, x: new.PRELU(x, np.full((1, 1, 7), 0.25, np.float32)), X)


@pytest.mark.parametrize("dtype", ["INT32", "INT64", "BOOL", "FLOAT16"])
def test_cast_keeps_the_shape(dtype: str) -> None:
    check(lambda new, x: new.CAST(x, in_data_type="FLOAT32", out_data_type=dtype), X, dtype=dtype)


def test_dequantize_keeps_the_shape() -> None:
    check(lambda new, x: new.DEQUANTIZE(x, version=3), ((2, 3, 5), "FLOAT16"))


@st.composite
def broadcastable(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Two shapes of up to four axes, each 1 where the other may be longer."""
    full = draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    pair = []
    for _ in range(2):
        kept = draw(st.integers(1, len(full)))
        pair.append(tuple(draw(st.sampled_from([n, 1])) for n in full[-kept:]))
    return pair[0], pair[1]


COMPARISONS = ["EQUAL", "GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL", "NOT_EQUAL"]


@pytest.mark.parametrize("kind", inferred_by(shapes.broadcast, "LOGICAL_AND", "LOGICAL_OR", "SELECT_V2"))
@settings(FEW, max_examples=6)
@given(pair=broadcastable())
def test_two_operands_are_broadcast(kind: str, pair: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    dtype = "BOOL" if kind in COMPARISONS else "FLOAT32"
    check(lambda new, a, b: getattr(new, kind)(a, b), *floats(*pair), dtype=dtype)


@pytest.mark.parametrize("kind", ["LOGICAL_AND", "LOGICAL_OR"])
def test_two_conditions_are_broadcast(kind: str) -> None:
    check(lambda new, a, b: getattr(new, kind)(a, b), ((2, 1, 5), "BOOL"), ((3, 1), "BOOL"), dtype="BOOL")


def test_select_broadcasts_all_three() -> None:
    check(lambda new, c, a, b: new.SELECT_V2(c, a, b), ((3, 1), "BOOL"), *floats((2, 1, 5), (5,)))


@pytest.mark.parametrize("kind", inferred_by(shapes.reduce))
@settings(FEW, max_examples=8)
@given(axes=st.sets(st.integers(0, 3)), negative=st.booleans(), keep=st.booleans())
def test_reductions_drop_or_keep_their_axes(kind: str, axes: set[int], negative: bool, keep: bool) -> None:
    given_axes = np.array([a - 4 * negative for a in axes], np.int32)
    check(lambda new, x: getattr(new, kind)(x, given_axes, keep_dims=keep), X)


@pytest.mark.parametrize("keep", [False, True])
def test_reduce_over_one_axis_given_as_a_scalar(keep: bool) -> None:
    check(lambda new, x: new.MEAN(x, -2, keep_dims=keep), X)


@pytest.mark.parametrize("wanted", [[6, 35], [-1, 5, 7], [7, -1], [210], [1, 210, -1], [-1]])
def test_reshape_infers_the_axis_left_open(wanted: list[int]) -> None:
    check(lambda new, x: new.RESHAPE(x, wanted), X)


def test_reshape_to_a_scalar() -> None:
    check(lambda new, x: new.RESHAPE(x, np.zeros(0, np.int32)), ((1, 1), "FLOAT32"))


def test_reshape_as_old_files_spell_it() -> None:
    check(lambda new, x: new.RESHAPE(x, new_shape=(-1, 5, 7)), X)


@pytest.mark.parametrize("wanted", [[2, 3, 5, 7], [4, 2, 3, 5]])
def test_broadcast_to_makes_the_shape_asked_for(wanted: list[int]) -> None:
    check(lambda new, x: new.BROADCAST_TO(x, wanted, version=2), ((*wanted[-3:-1], 1), "FLOAT32"))


@FEW
@given(
    batches=st.sampled_from([((), ()), ((2,), (2,)), ((2, 1), (1, 3)), ((3,), (2, 1)), ((), (4,))]),
    adj_x=st.booleans(),
    adj_y=st.booleans(),
)
def test_batch_matmul_multiplies_the_last_axes(
    batches: tuple[tuple[int, ...], tuple[int, ...]], adj_x: bool, adj_y: bool
) -> None:
    a = (5, 4) if adj_x else (4, 5)
    b = (7, 5) if adj_y else (5, 7)
    check(
        lambda new, x, y: new.BATCH_MATMUL(x, y, adj_x=adj_x, adj_y=adj_y),
        *floats((*batches[0], *a), (*batches[1], *b)),
    )


@pytest.mark.parametrize("axis", [0, 1, 3, -1, -3])
def test_concatenation_adds_up_one_axis(axis: int) -> None:
    shapes = [list(X[0]) for _ in range(3)]
    shapes[1][axis], shapes[2][axis] = 4, 1
    check(lambda new, *xs: new.CONCATENATION(*xs, axis=axis), *floats(*map(tuple, shapes)))


@FEW
@given(
    size=st.tuples(st.integers(7, 13), st.integers(7, 13)),
    kernel=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    stride=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    dilation=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    padding=st.sampled_from(["SAME", "VALID"]),
)
def test_a_convolution_counts_its_windows(
    size: tuple[int, int],
    kernel: tuple[int, int],
    stride: tuple[int, int],
    dilation: tuple[int, int],
    padding: str,
) -> None:
    conv(
        *size,
        3,
        5,
        kernel,
        stride_h=stride[0],
        stride_w=stride[1],
        dilation_h_factor=dilation[0],
        dilation_w_factor=dilation[1],
        padding=padding,
    )


@FEW
@given(
    kernel=st.tuples(st.integers(1, 4), st.integers(1, 4)),
    stride=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    padding=st.sampled_from(["SAME", "VALID"]),
    multiplier=st.integers(1, 2),
)
@pytest.mark.parametrize("kind", ["AVERAGE_POOL_2D", "DEPTHWISE_CONV_2D", "MAX_POOL_2D"])
def test_pools_and_depthwise_convolutions_count_their_windows(
    kind: str, kernel: tuple[int, int], stride: tuple[int, int], padding: str, multiplier: int
) -> None:
    steps = {"stride_h": stride[0], "stride_w": stride[1], "padding": padding}
    if kind == "DEPTHWISE_CONV_2D":
        filters, bias = (
            np.ones((1, *kernel, 3 * multiplier), np.float32),
            np.zeros(3 * multiplier, np.float32),
        )
        check(
            lambda new, x: new.DEPTHWISE_CONV_2D(x, filters, bias, depth_multiplier=multiplier, **steps),
            ((2, 7, 5, 3), "FLOAT32"),
        )
        return
    sides = {"filter_height": kernel[0], "filter_width": kernel[1]}
    check(lambda new, x: getattr(new, kind)(x, **sides, **steps), ((2, 7, 5, 3), "FLOAT32"))


def test_conv_whose_window_is_the_picture() -> None:
    conv(4, 6, 3, 5, (4, 6), padding="VALID", stride_h=1, stride_w=1)


def test_conv_in_groups() -> None:
    filters, bias = np.ones((6, 3, 1, 2), np.float32), np.zeros(6, np.float32)
    check(
        lambda new, x: new.CONV_2D(x, filters, bias, stride_h=1, stride_w=2, version=6),
        ((1, 8, 5, 4), "FLOAT32"),
    )


def test_an_embedding_lookup_gives_rows() -> None:
    table = np.zeros((23, 4, 6), np.float32)
    check(lambda new, ids: new.EMBEDDING_LOOKUP(ids, table), ((9,), "INT32"))


@pytest.mark.parametrize("axis", [0, 2, 4, -1, -5])
def test_expand_dims_inserts_an_axis(axis: int) -> None:
    check(lambda new, x: new.EXPAND_DIMS(x, axis), X)


@pytest.mark.parametrize("keep", [False, True])
def test_fully_connected_keeps_axes_if_asked(keep: bool) -> None:
    weights, bias = np.ones((11, 7), np.float32), np.zeros(11, np.float32)
    check(
        lambda new, x: new.FULLY_CONNECTED(x, weights, bias, keep_num_dims=keep, version=2),
        ((2, 3, 7), "FLOAT32"),
    )


@pytest.mark.parametrize(
    ("axis", "batch_dims", "indices"),
    [(0, 0, (6,)), (2, 0, (4, 2)), (-1, 0, ()), (1, 1, (2, 9)), (3, 2, (2, 3, 4)), (1, -1, (2, 9))],
)
def test_gather_puts_the_indices_in_the_place_of_an_axis(
    axis: int, batch_dims: int, indices: tuple[int, ...]
) -> None:
    check(
        lambda new, x, i: new.GATHER(x, i, axis=axis, batch_dims=batch_dims, version=2), X, (indices, "INT32")
    )


@FEW
@given(ends=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=4, max_size=4))
def test_padding_is_added_to_each_axis(ends: list[tuple[int, int]]) -> None:
    check(lambda new, x: new.PAD(x, np.array(ends, np.int32)), X)


@pytest.mark.parametrize("kind", inferred_by(shapes.resize))
def test_resizing_gives_the_size_asked_for(kind: str) -> None:
    check(lambda new, x: getattr(new, kind)(x, [6, 15]), X)


@FEW
@given(st.data())
def test_a_slice_has_the_size_asked_for(data: st.DataObject) -> None:
    begin = [data.draw(st.integers(0, n - 1)) for n in X[0]]
    size = [
        data.draw(st.one_of(st.just(-1), st.integers(1, n - b))) for n, b in zip(X[0], begin, strict=True)
    ]
    check(lambda new, x: new.SLICE(x, begin, size), X)


@pytest.mark.parametrize(("axis", "parts"), [(0, 2), (1, 3), (-1, 7), (-2, 1)])
def test_split_divides_an_axis(axis: int, parts: int) -> None:
    check(lambda new, x: new.SPLIT(axis, x, parts), X)


@FEW
@given(st.lists(st.integers(1, 3), min_size=4, max_size=4))
def test_tiling_multiplies_each_axis(times: list[int]) -> None:
    check(lambda new, x: new.TILE(x, times), X)


@FEW
@given(st.permutations(range(4)))
def test_transpose_permutes_the_axes(perm: list[int]) -> None:
    check(lambda new, x: new.TRANSPOSE(x, perm), X)


def test_transpose_counting_from_the_end() -> None:
    check(lambda new, x: new.TRANSPOSE(x, [-2, 0, 3, 1]), X)


REFUSED: dict[str, tuple[Call, list[tuple[int, ...]], str]] = {
    "shapes that do not broadcast": (lambda new, a, b: new.ADD(a, b), [(2, 3), (2, 4)], "broadcast"),
    "a reshape that loses elements": (lambda new, x: new.RESHAPE(x, [5]), [(2, 3)], r"RESHAPE of \(2, 3\)"),
    "a reshape that does not divide": (lambda new, x: new.RESHAPE(x, [4, -1]), [(2, 3)], "RESHAPE"),
    "a broadcast to less": (lambda new, x: new.BROADCAST_TO(x, [1, 3], version=2), [(2, 3)], "BROADCAST_TO"),
    "an axis that is not there": (lambda new, x: new.MEAN(x, [2]), [(2, 3)], "axis 2 of 2"),
    "matrices that do not meet": (
        lambda new, a, b: new.BATCH_MATMUL(a, b, adj_y=True),
        [(2, 4, 5), (2, 5, 7)],
        "5 is not 7",
    ),
    "parts of other shapes": (
        lambda new, a, b: new.CONCATENATION(a, b, axis=1),
        [(2, 3), (3, 3)],
        "CONCATENATION",
    ),
    "a filter over other channels": (
        lambda new, x: new.CONV_2D(x, np.ones((5, 1, 1, 3), np.float32), None, stride_h=1, stride_w=1),
        [(1, 4, 4, 4)],
        "CONV_2D of 4 channels",
    ),
    "a window past the picture": (
        lambda new, x: new.CONV_2D(
            x, np.ones((5, 3, 1, 4), np.float32), None, stride_h=1, stride_w=1, padding="VALID"
        ),
        [(1, 2, 4, 4)],
        "a window of 3 over 2",
    ),
    "a window that does not move": (
        lambda new, x: new.CONV_2D(x, np.ones((5, 1, 1, 4), np.float32), None),
        [(1, 4, 4, 4)],
        "over 4 in steps of 0",
    ),
    "a place past the end": (lambda new, x: new.EXPAND_DIMS(x, 3), [(2, 3)], "axis 3 of 3"),
    "a matrix of another width": (
        lambda new, x: new.FULLY_CONNECTED(x, np.ones((5, 4), np.float32), None, keep_num_dims=True),
        [(4, 3)],
        "FULLY_CONNECTED",
    ),
    "a padding of another rank": (lambda new, x: new.PAD(x, [[1, 1]]), [(2, 3)], "zip"),
    "a slice past the end": (lambda new, x: new.SLICE(x, [0, 2], [2, 2]), [(2, 3)], "SLICE"),
    "parts that are not equal": (lambda new, x: new.SPLIT(1, x, 2)[0], [(2, 3)], "SPLIT of 3 into 2"),
    "an axis twice": (lambda new, x: new.TRANSPOSE(x, [0, 0]), [(2, 3)], "TRANSPOSE"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_is_refused(case: str) -> None:
    call, given_shapes, message = REFUSED[case]
    with pytest.raises(ValueError, match=message):
        call(Build(), *[Tensor(f"x{i}", shape) for i, shape in enumerate(given_shapes)])


def test_indices_of_other_batches_are_refused() -> None:
    new = Build()
    with pytest.raises(ValueError, match="in 1 batches"):
        new.GATHER(Tensor("x", (2, 3, 5)), Tensor("i", (3, 4), "INT32"), axis=1, batch_dims=1)


def test_ids_that_are_no_list_are_refused() -> None:
    new = Build()
    with pytest.raises(ValueError, match=r"ids \(2, 3\), not of a list"):
        new.EMBEDDING_LOOKUP(Tensor("ids", (2, 3), "INT32"), np.zeros((5, 4), np.float32))


@pytest.mark.parametrize("case", sorted(set(REFUSED) - {"an axis twice"}))
def test_the_interpreter_refuses_it_too(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Written with a made-up result shape, none can be prepared; an axis twice is the one it overlooks."""
    call, given_shapes, _ = REFUSED[case]
    new = Build()
    inputs = [Tensor(f"x{i}", shape) for i, shape in enumerate(given_shapes)]
    with monkeypatch.context() as patch:
        patch.setattr(Build, "_results", lambda self, spec, there, attrs: [Tensor("y", (2, 3))])
        call(new, *inputs)
    with pytest.raises((RuntimeError, ValueError)):
        run_graph(
            Graph(inputs, new.ops[0].outputs, new.ops), *[np.zeros(s, np.float32) for s in given_shapes]
        )
