"""The tanh form of GELU, written out."""

from __future__ import annotations

from itertools import product
from math import pi, sqrt

import pytest

from graph_rewrites.recognise_gelu import recognise_factored_gelu, recognise_gated_gelu, recognise_gelu
from msd.graph.ir import Build, Tensor
from tests.harness import check_no_rewrite, check_rewrite, check_untouched

SLOPE, CUBIC = sqrt(2 / pi), 0.044715
ORDERS = list(product([False, True], repeat=3))


class Spelling:
    """Sums and products in one operand order or the other; numbers are multiplied by `off`."""

    def __init__(self, new: Build, sums: bool, products: bool, squares: bool = False) -> None:
        self.new, self.sums, self.products, self.squares = new, sums, products, squares

    def add(self, a: object, b: object) -> Tensor:
        return self.new.ADD(*((b, a) if self.sums else (a, b)))

    def mul(self, a: object, b: object) -> Tensor:
        return self.new.MUL(*((b, a) if self.products else (a, b)))

    def expanded(self, x: Tensor, slope: float = SLOPE, cubic: float = CUBIC, one: float = 1.0) -> Tensor:
        square = self.mul(x, x)
        cube = self.mul(square, x) if self.squares else self.mul(x, square)
        return self.add(one, self.new.TANH(self.mul(slope, self.add(x, self.mul(cubic, cube)))))

    def factored(self, x: Tensor, slope: float = SLOPE, cubic: float = CUBIC, one: float = 1.0) -> Tensor:
        inner = self.add(1.0, self.mul(cubic, self.mul(x, x)))
        return self.add(one, self.new.TANH(self.mul(self.mul(slope, x), inner)))


@pytest.mark.parametrize("orders", ORDERS)
def test_expanded(orders: tuple[bool, ...]) -> None:
    def before(new: Build, x: Tensor) -> Tensor:
        s = Spelling(new, *orders)
        return s.mul(s.mul(0.5, x), s.expanded(x))

    check_rewrite([recognise_gelu], before, lambda new, x: new.GELU(x, approximate=True), x=(2, 3, 50))


@pytest.mark.parametrize("orders", ORDERS[::2])
def test_factored(orders: tuple[bool, ...]) -> None:
    def before(new: Build, x: Tensor) -> Tensor:
        s = Spelling(new, *orders)
        return s.mul(s.mul(0.5, x), s.factored(x))

    check_rewrite(
        [recognise_factored_gelu], before, lambda new, x: new.GELU(x, approximate=True), x=(2, 3, 50)
    )


@pytest.mark.parametrize("orders", ORDERS[::2])
@pytest.mark.parametrize("wide", [False, True])
def test_gated(orders: tuple[bool, ...], wide: bool) -> None:
    def before(new: Build, x: Tensor, gated: Tensor) -> Tensor:
        s = Spelling(new, *orders)
        return s.mul(s.mul(s.mul(0.5, gated), x), s.factored(x))

    def after(new: Build, x: Tensor, gated: Tensor) -> Tensor:
        return new.MUL(gated, new.GELU(x, approximate=True))

    check_rewrite([recognise_gated_gelu], before, after, x=(2, 3, 50), gated=(2, 3, 50) if wide else (3, 1))


@pytest.mark.parametrize("wrong", [{"slope": 0.84}, {"cubic": 0.0425}, {"one": 1.05}])
def test_not_with_other_numbers(wrong: dict[str, float]) -> None:
    def expanded(new: Build, x: Tensor) -> Tensor:
        s = Spelling(new, False, False)
        return s.mul(s.mul(0.5, x), s.expanded(x, **wrong))

    def factored(new: Build, x: Tensor) -> Tensor:
        s = Spelling(new, False, False)
        return s.mul(s.mul(0.5, x), s.factored(x, **wrong))

    check_untouched([recognise_gelu], expanded, x=(2, 3))
    check_untouched([recognise_factored_gelu, recognise_gated_gelu], factored, x=(2, 3))


def test_not_of_two_values() -> None:
    def before(new: Build, x: Tensor, y: Tensor) -> Tensor:
        s = Spelling(new, False, False)
        return s.mul(s.mul(0.5, y), s.expanded(x))

    check_untouched(
        [recognise_gelu, recognise_factored_gelu, recognise_gated_gelu], before, x=(2, 3), y=(2, 3)
    )


def test_not_when_a_part_is_also_an_output() -> None:
    def before(new: Build, x: Tensor) -> tuple[Tensor, ...]:
        s = Spelling(new, False, False)
        slope = s.expanded(x)
        return s.mul(s.mul(0.5, x), slope), slope

    check_no_rewrite([recognise_gelu], before, because="the inner ADD is also used elsewhere", x=(2, 3))
