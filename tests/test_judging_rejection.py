"""From what the log says to the operations it means."""

from __future__ import annotations

import pytest

from msd.graph.ir import Op, Tensor
from msd.measure.judging.rejection import Rejection, rejections


@pytest.fixture
def ops() -> list[Op]:
    """TANH(x) -> a; ADD(a, a) -> b; TANH(b) -> c; CUSTOM FlexErf(c) -> d."""
    x, a, b, c, d = (Tensor(name, (2, 3)) for name in ("x", "net/a", "b", "c. 1", "d"))
    kinds = ("TANH", [x], a), ("ADD", [a, a], b), ("TANH", [b], c), ("CUSTOM:FlexErf", [c], d)
    return [Op(kind, inputs, [output]) for kind, inputs, output in kinds]


def test_a_named_tensor_names_the_operations(ops: list[Op]) -> None:
    assert rejections([("TANH", "Too long. b"), ("TANH", "Too long. net/a")], ops) == (
        Rejection("TANH", "Too long.", (0, 2), 2, ("net/a", "b")),
    )


def test_without_a_name_all_of_the_kind_may_be_meant(ops: list[Op]) -> None:
    some, only = rejections([("TANH", "Unknown layout."), ("ADD", "No.")], ops)
    assert (some.operations, some.of, some.exact) == ((0, 2), 2, False)
    assert (only.operations, only.of, only.exact) == ((1,), 1, True)


@pytest.mark.parametrize("words", ["Odd. Very odd", "Tensor x. y", "Odd. d", ". ", "x"])
def test_words_that_name_no_tensor_of_that_kind_stay(words: str, ops: list[Op]) -> None:
    assert rejections([("TANH", words)], ops) == (Rejection("TANH", words, (0, 2), 2),)


def test_a_tensor_name_may_hold_anything(ops: list[Op]) -> None:
    (found,) = rejections([("TANH", "Odd. c. 1")], ops)
    assert (found.reason, found.operations, found.tensors) == ("Odd.", (2,), ("c. 1",))


def test_custom_operations_and_those_made_at_run_time(ops: list[Op]) -> None:
    custom, made = rejections([("CUSTOM FlexErf", "No."), ("DELEGATE", "No.")], ops)
    assert (custom.operations, custom.of) == ((3,), 1)
    assert (made.operations, made.of, made.exact) == ((), 0, False)
