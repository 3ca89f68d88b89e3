"""Described weights: what is described is what NumPy computes, when it is wanted and not before."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from msd.graph.ir.weights import SMALL, Weights
from tests.on_cpu import normal

Array = np.ndarray[Any, Any]


def unloaded(*shape: int) -> Weights:
    """Weights whose bytes nobody may ask for."""

    def load() -> Array:
        raise AssertionError("loaded too early")

    return Weights(shape, np.dtype("float32"), load, "checkpoint")


def in_file(array: Array, read: Callable[[], Array] | None = None) -> Weights:
    """Weights of a file that can be read a few rows at a time."""
    read = read or (lambda: array)
    return Weights.stored(array.shape, array.dtype, read, "file", lambda first, stop: array[first:stop])


@settings(max_examples=80)
@given(st.data())
def test_a_chain_of_descriptions_is_what_numpy_does(data: st.DataObject) -> None:
    """Transformations in any order, on three axes, read as a whole and in blocks."""
    array = normal(4, 6, 2, seed=5)
    weights = data.draw(st.sampled_from([Weights.of(array), in_file(array)]))
    for _ in range(data.draw(st.integers(1, 5))):
        changes = ["transpose", "slice", "reshape", "astype", "combine", "map_each", "joined"]
        what = data.draw(st.sampled_from(changes))
        if what == "transpose":
            perm = tuple(data.draw(st.permutations(range(array.ndim))))
            weights, array = weights.transpose(perm), array.transpose(perm)
        elif what == "slice":
            axis = data.draw(st.integers(0, array.ndim - 1))
            start = data.draw(st.integers(0, array.shape[axis] - 1))
            stop = data.draw(st.integers(start + 1, array.shape[axis]))
            weights = weights.slice(axis, start, stop)
            array = np.take(array, range(start, stop), axis)
        elif what == "reshape":
            shape = data.draw(st.sampled_from([(array.size,), (1, array.size, 1), array.shape[::-1]]))
            weights, array = weights.reshape(shape), array.reshape(shape)
        elif what == "astype":
            weights, array = weights.astype("float16"), array.astype("float16")
        elif what == "map_each":
            weights, array = weights.map_each("negative", np.negative), -array
        elif what == "joined":
            weights, array = Weights.joined([weights, weights]), np.concatenate([array, array])
        else:
            factor = (np.arange(array.shape[-1]) + 1).astype(array.dtype)
            weights = weights.combine("* factor", np.multiply, Weights.of(factor))
            array = array * factor
        assert (weights.shape, weights.dtype) == (array.shape, array.dtype)
    assert np.array_equal(weights.load(), array)
    block = data.draw(st.integers(1, 60))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("msd.graph.ir.weights.BLOCK", block)
        blocks = list(weights.blocks())
    firsts = np.cumsum([0, *(len(rows) for _, rows in blocks)])
    assert [start for start, _ in blocks] == firsts[:-1].tolist()
    assert all(rows.size <= block or len(rows) == 1 for _, rows in blocks)
    assert np.array_equal(np.concatenate([rows for _, rows in blocks]), array)


@pytest.mark.parametrize(("block", "most"), [(5, 48), (6, 48), (20, 160), (1000, 240)])
@pytest.mark.parametrize(
    "derive",
    [lambda w: w, lambda w: w.astype("float16"), lambda w: Weights.joined([w, w.slice(0, 0, 9)])],
    ids=["as it is", "cast", "joined"],
)
def test_rows_that_are_read_at_a_time(derive: Callable[[Weights], Weights], block: int, most: int) -> None:
    array, sizes = normal(40, 3, 2), list[int]()

    def read_rows(first: int, stop: int) -> Array:
        sizes.append(array[first:stop].size)
        return array[first:stop]

    whole = Weights.stored(array.shape, array.dtype, lambda: array, "file", read_rows)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("msd.graph.ir.weights.BLOCK", block)
        assert sum(rows.size for _, rows in derive(whole).blocks()) == derive(whole).size
        assert max(sizes) <= derive(whole).most_read == most
        assert whole.transpose((1, 0, 2)).most_read == array.size


def test_a_number_is_one_block() -> None:
    weights = Weights.of(np.float16(3)).astype("float32")
    assert (weights.load().shape, weights.load().tolist()) == ((), 3)
    assert [(start, rows.tolist()) for start, rows in weights.blocks()] == [(0, [3])]


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0)])
def test_empty_weights_stay_empty(shape: tuple[int, ...]) -> None:
    assert Weights.of(np.ones(shape, np.float16)).astype("float32").load().shape == shape


def test_rearranging_after_a_change_reads_what_was_stored() -> None:
    """The change waits: a view of the stored array is all that a transposition makes."""
    stored = normal(4, 3).astype(np.float16)
    weights = Weights(stored.shape, stored.dtype, lambda: stored, "w").astype("float32").transpose((1, 0))
    assert np.shares_memory(weights.read(), stored)
    assert np.array_equal(weights.load(), stored.T.astype(np.float32))


def whole() -> Array:
    raise AssertionError("read as a whole")


def test_what_keeps_its_rows_is_read_a_few_rows_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("msd.graph.ir.weights.BLOCK", 64 * 6)
    monkeypatch.setattr("msd.graph.ir.weights.BLOCKS", 1)
    array = normal(200, 2, 3).astype(np.float16)
    there = in_file(array, whole).transpose((1, 2, 0)).map_each("negative", np.negative)
    weights = there.transpose((2, 1, 0)).slice(0, 10, 190).slice(1, 1, 3).reshape((180, 1, 4))
    wanted = -array.transpose(0, 2, 1)[10:190, 1:3].reshape(180, 1, 4).astype(np.float32)
    assert [start for start, _ in weights.blocks()] == [0, 64, 128]
    assert np.array_equal(weights.load(), wanted)


@pytest.mark.parametrize("change", ["transpose", "reshape"])
def test_what_has_other_rows_is_read_as_a_whole(change: str) -> None:
    array = normal(4, 6)
    weights = in_file(array, lambda: array + 1)
    shape = (1, 0) if change == "transpose" else (3, 8)
    other = weights.transpose(shape) if change == "transpose" else weights.reshape(shape)
    assert np.array_equal(other.load(), getattr(array + 1, change)(shape))


def test_a_change_that_is_not_of_single_elements_is_found() -> None:
    weights = Weights.of(np.ones((2, 3), np.float32)).map_each("sum", lambda a: a.sum(axis=1))
    with pytest.raises(AssertionError, match=r"sum returned float32\(2,\), not float32\(2, 3\)"):
        weights.load()


def test_nothing_is_loaded_before_it_is_wanted() -> None:
    first = unloaded(64, 64).transpose((1, 0)).slice(0, 3, 5).reshape((128,)).astype("float16")
    both = first.combine("+", np.add, Weights.of(np.ones(128, np.float16)))
    assert (both.shape, both.dtype, both.size) == ((128,), np.float16, 128)
    assert both.history == "checkpoint | transpose[1, 0] | [3:5] on axis 0 | reshape[128] | float16 | +"
    with pytest.raises(AssertionError, match="loaded too early"):
        both.load()


def test_each_load_starts_anew() -> None:
    loads = []

    def load() -> Array:
        loads.append(1)
        return np.ones(3, np.float32)

    weights = Weights((3,), np.dtype("float32"), load, "w").map("double", lambda a: a * 2)
    assert weights.load().tolist() == weights.load().tolist() == [2, 2, 2]
    assert len(loads) == 2


def test_what_is_held_cannot_be_changed_through_a_load() -> None:
    array = np.ones(3, np.float32)
    with pytest.raises(ValueError, match="read-only"):
        Weights.of(array).load()[0] = 2
    array[0] = 5  # the caller's own array stays the caller's


def test_the_same_type_costs_nothing() -> None:
    weights = unloaded(2, 3)
    assert weights.astype("float32") is weights


def test_exactness_stays_with_exact_numbers() -> None:
    exact, learnt = Weights.of(np.ones((2, 3), np.float32)), unloaded(2, 3)
    assert exact.transpose((1, 0)).slice(0, 1, 2).exact
    assert not learnt.transpose((1, 0)).exact
    assert exact.combine("*", np.multiply, exact).exact
    assert not exact.combine("*", np.multiply, learnt).exact
    assert not learnt.combine("*", np.multiply, exact).exact
    assert learnt.as_exact().exact


@pytest.mark.parametrize("axis", [0, 1])
def test_combining_takes_the_larger_shape(axis: int) -> None:
    row, column = Weights.of(normal(1, 3)), Weights.of(normal(2, 1))
    pair = (row, column) if axis else (column, row)
    made = pair[0].combine("-", np.subtract, pair[1])
    assert made.shape == (2, 3)
    assert np.array_equal(made.load(), pair[0].load() - pair[1].load())


def test_a_description_that_lies_is_found_when_loaded() -> None:
    with pytest.raises(AssertionError, match=r"cut returned float32\(2,\), not float32\(3,\)"):
        Weights.of(np.ones(3, np.float32)).map("cut", lambda a: a[:2]).load()
    with pytest.raises(AssertionError, match=r"widen returned float64\(3,\), not float32\(3,\)"):
        Weights.of(np.ones(3, np.float32)).map("widen", lambda a: a.astype("float64")).load()


def test_large_weights_cannot_be_looked_at() -> None:
    assert Weights.of(np.zeros(SMALL, np.int8)).load_small().size == SMALL
    with pytest.raises(ValueError, match=r"checkpoint has 65537 elements: too many to read"):
        unloaded(SMALL + 1).load_small()


def test_what_cannot_be_described_is_refused() -> None:
    weights = unloaded(2, 3)
    with pytest.raises(ValueError, match=r"cannot reshape \(2, 3\) to \(4,\)"):
        weights.reshape((4,))
    with pytest.raises(ValueError, match=r"\(0, 0\) does not order the axes of \(2, 3\)"):
        weights.transpose((0, 0))
    for axis, start, stop in ((1, 0, 4), (0, 2, 2), (0, -1, 1), (-1, 0, 1)):
        with pytest.raises(ValueError, match=f"cannot take {start}:{stop}"):
            weights.slice(axis, start, stop)


def test_sources_follow_every_change_and_join_when_weights_do() -> None:
    first, second = (replace(unloaded(2, 3), sources=(name,)) for name in ("a.weight", "b.weight"))
    assert first.transpose((1, 0)).slice(0, 0, 2).astype("float16").sources == ("a.weight",)
    assert first.combine("+ b", np.add, second).combine("+ a", np.add, first).sources == (
        "a.weight",
        "b.weight",
    )
    assert first.combine("* 2", np.multiply, Weights.of(np.float32(2))).sources == ("a.weight",)
