"""Views: what rearranges a tensor is read by strides, and NumPy agrees."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from msd.gpu.views import StridedView, contiguous_strides, view
from msd.graph.ir import Build, Graph, Tensor
from msd.graph.ir.weights import Array
from tests.harness import build, evaluate


def read(seen: StridedView, base: Array) -> Array:
    """Return the elements that a view describes."""
    flat = np.ascontiguousarray(base).reshape(-1)
    size = flat.itemsize
    strides = [stride * size for stride in seen.strides]
    return np.lib.stride_tricks.as_strided(flat[seen.offset :], seen.shape, strides)


def check(graph: Graph, x: Array) -> StridedView:
    (result,) = evaluate(graph, {"x": x})
    seen = view(graph.outputs[0])
    np.testing.assert_array_equal(read(seen, x.reshape(seen.base.shape)), result)
    return seen


def test_heads_of_a_projection_are_read_in_place() -> None:
    def spell(new: Build, x: Tensor) -> Tensor:
        rows = new.TRANSPOSE(new.RESHAPE(x, [1, 15, 6, 4]), [0, 2, 1, 3])
        return new.TRANSPOSE(new.SPLIT(1, rows, 3)[1], [0, 1, 3, 2])

    graph = build(spell, x=(1, 3, 5, 24))
    seen = check(graph, np.arange(360, dtype=np.float32).reshape(1, 3, 5, 24))
    assert seen.base is graph.inputs[0]
    assert (seen.offset, seen.strides) == (8, (360, 4, 1, 24))


def test_a_slice_begins_inside_its_source() -> None:
    graph = build(lambda new, x: new.SLICE(x, [0, 1, 0, 2], [1, 2, 5, 3]), x=(1, 3, 5, 7))
    seen = check(graph, np.arange(105, dtype=np.float32).reshape(1, 3, 5, 7))
    assert seen.offset == 37


def test_a_reshape_that_no_strides_describe_is_a_base_of_its_own() -> None:
    def spell(new: Build, x: Tensor) -> Tensor:
        return new.RESHAPE(new.TRANSPOSE(x, [0, 2, 1]), [2, 20])

    graph = build(spell, x=(2, 4, 5))
    seen = view(graph.outputs[0])
    assert seen.base is graph.outputs[0]
    assert seen.contiguous


@given(st.permutations([0, 1, 2, 3]), st.permutations([0, 1, 2, 3]), st.integers(0, 2))
def test_transposes_compose(first: list[int], second: list[int], start: int) -> None:
    shape = (3, 4, 5, 6)
    base = np.arange(360, dtype=np.float32).reshape(shape)
    whole = StridedView(Tensor("x", shape), 0, shape, contiguous_strides(shape))
    seen = whole.sliced(1, start, 2).transposed(tuple(first)).transposed(tuple(second))
    wanted = base[:, start : start + 2].transpose(first).transpose(second)
    np.testing.assert_array_equal(read(seen, base), wanted)
