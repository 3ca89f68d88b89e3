"""What patterns match."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from msd.graph.ir import Build, Op, Quant, Tensor
from msd.graph.rewrite.pattern import ANY, Pat, any_op, const, match, op, var
from tests.harness import conv, strided_slice

X, Y = var("x"), var("y")


def tensor(name: str = "x", *shape: int) -> Tensor:
    return Tensor(name, shape or (2, 3))


def found(pat: Pat, result: Tensor | None) -> list[dict[str, str]]:
    """Return what each match binds, by name."""
    return [{k: t.name for k, t in m.tensors.items()} for m in match(pat, result)]


def test_a_variable_is_any_tensor_and_a_constant_is_constant() -> None:
    new, x = Build(), tensor()
    two = new.const(2.0, "two")
    assert found(X, x) == [{"x": "x"}]
    assert found(X, two) == [{"x": "two"}]
    assert found(const("c"), two) == [{"c": "two"}]
    assert found(const("c"), x) == []
    assert found(X, None) == []


def test_operators_by_kind_operands_and_name() -> None:
    new, x = Build(), tensor()
    y = new.TANH(x)
    assert found(op.TANH(X).named("y"), y) == [{"x": "x", "y": y.name}]
    assert found(op.LOGISTIC(X), y) == []
    assert found(op.TANH(X), x) == []
    assert found(op.TANH(op.TANH(X)), y) == []
    assert found(op.TANH(X, Y), y) == []


def test_a_name_used_twice_is_one_tensor() -> None:
    new, x, z = Build(), tensor(), tensor("z")
    assert found(X * op.LOGISTIC(X), new.MUL(x, new.LOGISTIC(x))) == [{"x": "x"}]
    assert found(X * op.LOGISTIC(X), new.MUL(x, new.LOGISTIC(z))) == []


def test_a_name_used_twice_decides_between_orders() -> None:
    """y * (y + x): only one way round makes both x the same."""
    new, x, y = Build(), tensor(), tensor("y")
    pattern = X * (X + Y)
    assert found(pattern, new.MUL(new.ADD(x, y), y)) == [{"x": "y", "y": "x"}]
    assert found(pattern, new.MUL(y, new.ADD(x, y))) == [{"x": "y", "y": "x"}]


@pytest.mark.parametrize("kind", ["ADD", "MUL", "MAXIMUM", "MINIMUM", "SQUARED_DIFFERENCE"])
def test_operators_that_commute_match_both_ways(kind: str) -> None:
    new, x = Build(), tensor()
    spell, pattern = getattr(new, kind), getattr(op, kind)(op.TANH(X), const("c"))
    assert len(found(pattern, spell(new.TANH(x), 2.0))) == 1
    assert len(found(pattern, spell(2.0, new.TANH(x)))) == 1
    assert len(found(getattr(op, kind)(X, Y), spell(x, new.TANH(x)))) == 2


@pytest.mark.parametrize("kind", ["SUB", "DIV"])
def test_operators_that_do_not_commute_match_one_way(kind: str) -> None:
    new, x = Build(), tensor()
    spell, pattern = getattr(new, kind), getattr(op, kind)(op.TANH(X), const("c"))
    assert len(found(pattern, spell(new.TANH(x), 2.0))) == 1
    assert found(pattern, spell(2.0, new.TANH(x))) == []


def test_attributes_not_mentioned_have_their_defaults() -> None:
    new, x = Build(), tensor()
    plain, fused = new.ADD(x, 1.0), new.ADD(x, 1.0, fused_activation_function="RELU")
    assert found(op.ADD(X, 1), plain)
    assert not found(op.ADD(X, 1), fused)
    assert found(op.ADD(X, 1, fused_activation_function="RELU"), fused)
    assert not found(op.ADD(X, 1, fused_activation_function="RELU"), plain)
    for y in (plain, fused):
        assert found(op.ADD(X, 1, fused_activation_function=ANY), y)


def test_an_attribute_that_must_not_have_its_default() -> None:
    new, x = Build(), tensor()
    assert found(op.GELU(X, approximate=True), new.GELU(x, approximate=True))
    assert not found(op.GELU(X, approximate=True), new.GELU(x))


@pytest.mark.parametrize("value", [0.5, [0.5], [[[0.5]]], 0.5 * (1 + 5e-7)])
def test_a_number_is_a_constant_of_one_element(value: Any) -> None:
    new, x = Build(), tensor("x", 1, 1, 3)
    assert found(0.5 * X, new.MUL(x, new.const(np.float32(value))))


@pytest.mark.parametrize("value", [0.50001, [0.5, 0.5, 0.5], -0.5, float("nan")])
def test_other_constants_are_not_that_number(value: Any) -> None:
    new, x = Build(), tensor("x", 1, 1, 3)
    assert not found(0.5 * X, new.MUL(x, new.const(np.float32(value))))


def test_a_number_is_no_runtime_tensor_and_nothing_quantised() -> None:
    new, x, y = Build(), tensor("x", 1), tensor("y", 1)
    assert not found(op.MUL(X, 1), new.MUL(x, y))
    one = new.const(np.int8([1]))
    one.quant = Quant(np.float32([0.5]), np.int64([0]))
    assert not found(op.MUL(X, 1), new.MUL(x, one))
    ones = new.const(np.int8([1, 2]))
    ones.quant = Quant(np.float32([0.5]), np.int64([0]))
    assert not found(op.MUL(X, [1, 2]), new.MUL(x, ones))


def test_numbers_in_formulas() -> None:
    new, x = Build(), tensor()
    y = new.SUB(new.ADD(1.0, new.MUL(x, 2.0)), 3.0)
    assert found((1 + 2 * X) - 3, y) == [{"x": "x"}]
    assert found((X * 2 + 1) - 3, y) == [{"x": "x"}]
    assert found((1 + 2 * X) - 4, y) == []


def test_integer_lists_match_by_their_numbers() -> None:
    new, x = Build(), tensor("x", 2, 3, 5)
    y = new.TRANSPOSE(x, [0, 2, 1])
    assert found(op.TRANSPOSE(X, [0, 2, 1]), y)
    assert not found(op.TRANSPOSE(X, [0, 1, 2]), y)
    assert not found(op.TRANSPOSE(X, [0, 2]), y)
    assert not found(op.TRANSPOSE(X, (0, 2, 1, 3)), y)


def test_results_of_an_operator_with_several() -> None:
    new, x = Build(), tensor("x", 2, 6)
    a, b = new.SPLIT(1, x, 2)
    halves = op.SPLIT(1, X, num_splits=2)
    assert found(halves, a)
    assert not found(halves, b)
    assert found(halves.out(1), b)
    assert not found(halves.out(1), a)
    assert found(halves.out(0) * halves.out(1), new.MUL(a, b))
    assert not found(halves.out(0) * halves.out(0), new.MUL(a, b))


def test_any_operator_of_some_kinds() -> None:
    new, x = Build(), tensor()
    pattern = any_op("TANH", "ADD", "SPLIT", name="y")
    assert found(pattern, new.TANH(x)) == [{"y": "t0"}]
    assert found(pattern, new.ADD(x, 1.0, fused_activation_function="RELU"))
    assert found(pattern, new.SPLIT(0, x, 2)[1]) == [{"y": "t2:1"}]
    assert not found(pattern, new.MUL(x, x))
    assert found(op.LOGISTIC(pattern), new.LOGISTIC(new.TANH(x)))


def test_the_operators_of_a_match_each_once_the_root_first() -> None:
    new, x = Build(), tensor()
    inner = new.TANH(x)
    outer = new.MUL(inner, new.LOGISTIC(inner))
    (only,) = match(op.TANH(X) * op.LOGISTIC(op.TANH(X)), outer)
    assert [o.kind for o in only.ops] == ["MUL", "TANH", "LOGISTIC"]


def test_what_is_needed_outside_a_match() -> None:
    new, x = Build(), tensor()
    inner = new.TANH(x)
    (only,) = match(op.LOGISTIC(op.TANH(X)), new.LOGISTIC(inner))
    assert only.shared([]) is None
    assert only.shared([only.ops[0].outputs[0]]) is None
    assert only.shared([inner]) is inner.maker
    new.NEG(inner)
    assert only.shared([]) is inner.maker


def test_an_operand_left_out_matches_nothing() -> None:
    new, x = Build(), tensor("x", 2, 3)
    y = new.FULLY_CONNECTED(x, new.const(np.ones((4, 3), np.float32)), None)
    assert not found(op.FULLY_CONNECTED(X, const("w"), const("b")), y)
    assert not found(op.FULLY_CONNECTED(X, const("w")), y)


def test_convolutions_and_slices_with_all_their_attributes() -> None:
    new, x = Build(), tensor("x", 1, 4, 5, 3)
    y = conv(new, x, 7, (3, 3), stride_h=2)
    attrs = {"padding": "SAME", "stride_h": 2, "stride_w": 1}
    assert found(op.CONV_2D(X, const("w"), const("b"), **attrs), y)
    assert not found(op.CONV_2D(X, const("w"), const("b"), **{**attrs, "stride_h": 1}), y)
    part = strided_slice(new, x, [0] * 4, [1] * 4, [1] * 4, (1, 1, 1, 1), end_mask=3)
    assert not found(op.STRIDED_SLICE(X, const("a"), const("b"), const("c")), part)


def test_mistakes_surface_where_they_are_made() -> None:
    with pytest.raises(TypeError, match="no TFLite op named 'FULLY_CONECTED'; did you mean FULLY_CONNECTED"):
        op.FULLY_CONECTED(X)
    with pytest.raises(
        TypeError, match=r"ADD has no attribute \['fused'\]; it has \['fused_activation_function'"
    ):
        op.ADD(X, Y, fused="RELU")
    with pytest.raises(TypeError, match="no TFLite op named 'TANNH'; did you mean TANH"):
        any_op("TANNH", name="y")


def test_custom_operators_are_matched_by_no_builtin() -> None:
    x, y = tensor(), tensor("y")
    Op("CUSTOM:Tanh", [x], [y])
    assert not found(op.TANH(X), y)
