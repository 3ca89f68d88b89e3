"""Choose a storage format for each block: the least error for a size, or the least size for an error.

The errors of blocks are assumed to add up in the network's result, as those of independent small changes do.
Each block has one of several storage formats, so this is a multiple-choice knapsack, solved greedily by error
saved for a byte along each block's lower convex hull (Sinha and Zoltners 1979, Operations Research 27).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from msd.compress.pruning.settings import UnitShare


@dataclass(frozen=True)
class Form:
    """A storage format of a block: the candidate's name, its bytes in the file, and its cost.

    `snr_db` is of the block alone, None where there is no error. `noise` is the error of the network's result
    when only this block has this format: squared differences over squares of the reference's result. `pruned`
    are the units of the block that lose something, and what share of each stays.
    """

    candidate: str
    bytes: int
    snr_db: float | None
    noise: float
    pruned: tuple[UnitShare, ...] = ()


@dataclass(frozen=True)
class Forms:
    """All storage formats of a block of a network."""

    component: str
    block: str
    forms: tuple[Form, ...]

    @property
    def hull(self) -> list[Form]:
        """The formats worth considering, smallest first; each saves less error per byte than the last."""
        hull: list[Form] = []
        for form in sorted(self.forms, key=lambda f: (f.bytes, f.noise)):
            if hull and form.noise >= hull[-1].noise:
                continue
            while len(hull) > 1 and _saving(hull[-2], hull[-1]) <= _saving(hull[-1], form):
                hull.pop()
            hull.append(form)
        return hull


Choice = dict[Forms, Form]


def _saving(small: Form, large: Form) -> float:
    """Return the error saved for a byte."""
    return (small.noise - large.noise) / max(1, large.bytes - small.bytes)


def smallest(blocks: Sequence[Forms]) -> Choice:
    """Return every block in its smallest format."""
    return {block: block.hull[0] for block in blocks}


def within_size(blocks: Sequence[Forms], budget: int) -> Choice:
    """Return the choice of at most `budget` bytes with about the least error; the smallest if none fits."""
    choice, stuck = smallest(blocks), set[Forms]()
    left = budget - total_bytes(choice)
    for block, small, large in _steps(blocks):
        if block not in stuck and large.bytes - small.bytes <= left:
            choice[block] = large
            left -= large.bytes - small.bytes
        else:
            stuck.add(block)
    return choice


def within_noise(blocks: Sequence[Forms], most: float) -> Choice:
    """Return about the smallest choice with at most `most` noise, or that with the least there is."""
    choice, taken = smallest(blocks), list[tuple[Forms, Form, Form]]()
    for step in _steps(blocks):
        if total_noise(choice) <= most:
            break
        choice[step[0]] = step[2]
        taken.append(step)
    for block, small, large in sorted(taken, key=lambda s: s[1].bytes - s[2].bytes):
        # What came before the last step may not be needed any more.
        if choice[block] is large and total_noise({**choice, block: small}) <= most:
            choice[block] = small
    return choice


def total_bytes(choice: Choice) -> int:
    """Return the bytes of all blocks."""
    return sum(form.bytes for form in choice.values())


def total_noise(choice: Choice) -> float:
    """Return the noise of all blocks together."""
    return sum(form.noise for form in choice.values())


def _steps(blocks: Sequence[Forms]) -> list[tuple[Forms, Form, Form]]:
    """Return all steps to a larger form, those that save most for a byte first."""
    steps = [(block, small, large) for block in blocks for small, large in pairwise(block.hull)]
    return sorted(steps, key=lambda step: -_saving(step[1], step[2]))
