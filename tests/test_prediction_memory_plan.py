"""The planner: against an optimum found by trying everything, and what holds of every plan."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import combinations, permutations

from hypothesis import given
from hypothesis import strategies as st

from msd.graph.prediction.memory_plan import Lifetime, live_bytes, offsets, places

STEPS = 12


def total(lives: Sequence[Lifetime], places: Sequence[int]) -> int:
    return max((place + life.size for life, place in zip(lives, places, strict=True)), default=0)


def together(a: Lifetime, b: Lifetime) -> bool:
    return a.first <= b.last and b.first <= a.last


def optimum(lives: Sequence[Lifetime]) -> int:
    """The least total: of all orders, each tensor as low as it goes; one of them is an optimal plan."""
    return min(total([lives[i] for i in order], _lowest([lives[i] for i in order]))
               for order in permutations(range(len(lives))))  # fmt: skip


def _lowest(lives: Sequence[Lifetime]) -> list[int]:
    places: list[int] = []
    for i, life in enumerate(lives):
        taken = [(p, p + o.size) for o, p in zip(lives[:i], places, strict=True) if together(life, o)]
        ends = [0, *(end for _, end in taken)]
        free = [p for p in ends if all(p >= end or p + life.size <= begin for begin, end in taken)]
        places.append(min(free))
    return places


@st.composite
def a_life(draw: st.DrawFn) -> Lifetime:
    first, last = sorted((draw(st.integers(0, STEPS - 1)), draw(st.integers(0, STEPS - 1))))
    return Lifetime(draw(st.integers(0, 40)), first, last)


@given(st.lists(a_life(), max_size=25))
def test_what_holds_of_every_plan(lives: list[Lifetime]) -> None:
    places = offsets(lives)
    for (a, at), (b, bt) in combinations(zip(lives, places, strict=True), 2):
        if together(a, b) and a.size and b.size:
            assert at + a.size <= bt or bt + b.size <= at
    least = max(live_bytes(lives, STEPS), default=0)
    assert least <= total(lives, places) <= sum(life.size for life in lives)
    assert all(place >= 0 for place in places)
    assert offsets(lives) == places


@given(st.lists(a_life(), max_size=25))
def test_what_is_needed_at_each_step(lives: list[Lifetime]) -> None:
    by_hand = [sum(i.size for i in lives if i.first <= step <= i.last) for step in range(STEPS)]
    assert live_bytes(lives, STEPS) == by_hand


def test_an_example_by_hand() -> None:
    """A chain of three: the first and the third share a place."""
    lives = [Lifetime(6, 0, 1), Lifetime(4, 1, 2), Lifetime(5, 2, 3)]
    assert offsets(lives) == [0, 6, 0]
    assert live_bytes(lives, 4) == [6, 10, 9, 5]


def test_the_smallest_gap_that_is_wide_enough_is_taken() -> None:
    """Between three that stay, 4 and 2 bytes become free: a tensor of 2 goes into the 2."""
    lives = [
        Lifetime(9, 0, 9),
        Lifetime(4, 0, 4),
        Lifetime(3, 5, 9),
        Lifetime(8, 0, 9),
        Lifetime(7, 0, 9),
        Lifetime(2, 0, 4),
    ]
    assert offsets(lives) == [0, 24, 24, 9, 17, 28]
    gaps = [
        Lifetime(9, 0, 9),
        Lifetime(8, 0, 0),
        Lifetime(7, 0, 9),
        Lifetime(6, 0, 0),
        Lifetime(5, 0, 9),
        Lifetime(4, 1, 1),
    ]
    assert offsets(gaps) == [0, 9, 17, 24, 30, 24]


def test_close_to_the_optimum_on_small_cases() -> None:
    """Of 150 random cases of five and six tensors: never better than the optimum, together within 5 %."""
    chance = random.Random(7)
    greedy, best = [], []
    for _ in range(150):
        firsts = [chance.randrange(STEPS) for _ in range(chance.choice((5, 6)))]
        lives = [Lifetime(chance.randint(1, 9), f, min(STEPS - 1, f + chance.randrange(6))) for f in firsts]
        greedy.append(total(lives, offsets(lives)))
        best.append(optimum(lives))
        assert max(live_bytes(lives, STEPS)) <= best[-1] <= greedy[-1]
    assert sum(greedy) <= 1.05 * sum(best)
    assert sum(a == b for a, b in zip(greedy, best, strict=True)) >= 120


@given(st.lists(a_life(), max_size=25), st.integers(1, 120))
def test_what_holds_of_a_plan_in_blocks(lives: list[Lifetime], most: int) -> None:
    found = places(lives, most)
    for (a, (block, at)), (b, (other, bt)) in combinations(zip(lives, found, strict=True), 2):
        if block == other and together(a, b) and a.size and b.size:
            assert at + a.size <= bt or bt + b.size <= at
    for life, (_, at) in zip(lives, found, strict=True):
        assert at + life.size <= most or (at == 0 and life.size > most)
    blocks = {block for block, _ in found}
    assert blocks == set(range(len(blocks)))
    if total(lives, offsets(lives)) <= most:
        assert [at for _, at in found] == offsets(lives)


def test_a_second_block_is_for_what_the_first_has_no_room_for() -> None:
    """Four that live together, in blocks of 10: the smallest still fits beside the largest."""
    lives = [Lifetime(size, 0, 1) for size in (8, 7, 3, 2)]
    assert places(lives, 10) == [(0, 0), (1, 0), (1, 7), (0, 8)]


def test_no_tensors_need_no_memory() -> None:
    assert offsets([]) == []
    assert live_bytes([], 2) == [0, 0]
