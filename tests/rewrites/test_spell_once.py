"""One spelling for each thing."""

from __future__ import annotations

import pytest

from graph_rewrites.spell_once import spell_squared_difference, spell_subtraction, trust_index, trust_index_v2
from msd.graph.ir import Build, Op, Tensor
from msd.graph.rewrite import Rewrite
from tests.harness import Ints, Spell, check_no_rewrite, check_rewrite, check_untouched, normal

ROWS = 9


def test_squared_difference() -> None:
    check_rewrite(
        [spell_squared_difference],
        lambda new, x, y: new.SQUARE(new.SUB(x, y)),
        lambda new, x, y: new.SQUARED_DIFFERENCE(x, y),
        x=(2, 3, 5),
        y=(3, 1),
    )


def test_subtraction() -> None:
    for flip in (False, True):
        check_rewrite(
            [spell_subtraction],
            lambda new, x, y, flip=flip: new.ADD(*((new.NEG(y), x) if flip else (x, new.NEG(y)))),
            lambda new, x, y: new.SUB(x, y),
            x=(2, 3, 5),
            y=(5,),
        )


def test_not_with_an_activation() -> None:
    fused = {"fused_activation_function": "RELU"}
    check_untouched([spell_subtraction], lambda new, x, y: new.ADD(x, new.NEG(y), **fused), x=(3,), y=(3,))
    check_untouched(
        [spell_squared_difference], lambda new, x, y: new.SQUARE(new.SUB(x, y, **fused)), x=(3,), y=(3,)
    )


def test_not_when_the_inner_result_is_used_too() -> None:
    def before(new: Build, x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        negative = new.NEG(y)
        return new.ADD(x, negative), negative

    check_no_rewrite(
        [spell_subtraction], before, because="the inner NEG is also used elsewhere", x=(3,), y=(3,)
    )


def select(new: Build, kind: str, condition: Tensor, x: Tensor, y: Tensor) -> Tensor:
    if kind == "SELECT_V2":
        return new.SELECT_V2(condition, x, y)
    result = Tensor(f"select{len(new.ops)}", x.shape, x.dtype)
    new.ops.append(Op("SELECT", [condition, x, y], [result]))
    return result


def wrapped(new: Build, kind: str, x: Tensor, rows: object = ROWS, zero: int = 0) -> Tensor:
    return select(new, kind, new.LESS(x, zero), new.ADD(x, rows), x)


KINDS = [(trust_index, "SELECT"), (trust_index_v2, "SELECT_V2")]


@pytest.mark.parametrize(("rule", "kind"), KINDS)
def test_indices_of_rows(rule: Rewrite, kind: str) -> None:
    check_rewrite(
        [rule],
        lambda new, ids: new.GATHER(new.const(normal(ROWS, 4)), wrapped(new, kind, ids)),
        lambda new, ids: new.GATHER(new.const(normal(ROWS, 4)), ids),
        ids=Ints((2, 3)),
    )


@pytest.mark.parametrize(("rule", "kind"), KINDS)
def test_other_readers_of_the_index_keep_it(rule: Rewrite, kind: str) -> None:
    def spell(new: Build, ids: Tensor, *, trusted: bool) -> tuple[Tensor, ...]:
        index = wrapped(new, kind, ids)
        return new.GATHER(new.const(normal(ROWS, 4)), ids if trusted else index), index

    check_rewrite(
        [rule],
        lambda new, ids: spell(new, ids, trusted=False),
        lambda new, ids: spell(new, ids, trusted=True),
        ids=Ints((2, 3)),
    )


@pytest.mark.parametrize(("rule", "kind"), KINDS)
@pytest.mark.parametrize("rows", [ROWS - 1, [ROWS] * 3])
def test_not_when_something_else_is_added(rule: Rewrite, kind: str, rows: object) -> None:
    because = "the offset of a negative index is not the number of rows"
    check_no_rewrite(
        [rule],
        lambda new, ids: new.GATHER(new.const(normal(ROWS, 4)), wrapped(new, kind, ids, rows)),
        because=because,
        ids=Ints((2, 3)),
    )


def test_not_when_the_rank_changes() -> None:
    check_no_rewrite(
        [trust_index_v2],
        lambda new, ids: new.GATHER(new.const(normal(ROWS, 4)), wrapped(new, "SELECT_V2", ids, [[ROWS]])),
        because="the offset of a negative index is not the number of rows",
        ids=Ints((3,)),
    )


@pytest.mark.parametrize(("rule", "kind"), KINDS)
@pytest.mark.parametrize(
    "spell",
    [
        lambda new, kind, ids: wrapped(new, kind, ids),
        lambda new, kind, ids: new.GATHER(new.const(normal(4, ROWS)), wrapped(new, kind, ids), axis=1),
        lambda new, kind, ids: new.GATHER(new.const(normal(ROWS, 4)), wrapped(new, kind, ids, zero=1)),
    ],
    ids=["numbers", "columns", "one"],
)
def test_not_what_is_no_index_of_rows(rule: Rewrite, kind: str, spell: Spell) -> None:
    """A plain selection of negative numbers means what it says."""
    check_untouched([rule], lambda new, ids: spell(new, kind, ids), ids=Ints((2, 3)))
