"""Which operations of a file the delegate rejects, as far as its log lets one know."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from msd.ir import Op


@dataclass(frozen=True)
class Rejection:
    """A kind of operation that the delegate rejects, with its own reason.

    `operations` are places in the file, from 0, and `of` is how many of that kind there are. Some reasons
    name a tensor: `operations` are the ones that read or write it, `tensors` the names in the order of these.
    Others say neither which nor how many are meant: `operations` are then all of that kind, and `exact` is
    false unless there is only one.
    """

    kind: str
    reason: str
    operations: tuple[int, ...]
    of: int
    tensors: tuple[str, ...] = ()

    @property
    def exact(self) -> bool:
        """Whether it is known which operations are meant."""
        return bool(self.tensors) or len(self.operations) == 1


def rejections(pairs: Iterable[tuple[str, str]], ops: Sequence[Op]) -> tuple[Rejection, ...]:
    """Return what the (kind, reason) pairs of a log say of the file's operations, alike reasons together."""
    named: dict[tuple[str, str], list[str]] = {}
    for kind, words in pairs:
        reason, tensor = _split(words, kind, ops)
        named.setdefault((kind, reason), []).extend([tensor] * bool(tensor))
    return tuple(_rejection(kind, reason, tensors, ops) for (kind, reason), tensors in named.items())


def _split(words: str, kind: str, ops: Sequence[Op]) -> tuple[str, str]:
    """Return (reason, tensor) of "Tensor dimensions must be less than 5. encoder/add"; "" is no tensor."""
    reason, stop, tensor = words.partition(". ")
    if stop and _places(kind, [tensor], ops):
        return f"{reason}.", tensor
    return words, ""


def _rejection(kind: str, reason: str, tensors: list[str], ops: Sequence[Op]) -> Rejection:
    every = _places(kind, None, ops)
    places = _places(kind, tensors, ops) if tensors else every
    ordered = sorted(tensors, key=lambda tensor: _places(kind, [tensor], ops))
    return Rejection(kind, reason, places, len(every), tensors=tuple(ordered))


def _places(kind: str, tensors: Sequence[str] | None, ops: Sequence[Op]) -> tuple[int, ...]:
    """Return where the operations of `kind` are that touch one of `tensors`, or that there are.

    The log says `CUSTOM FlexErf` where the graph says `CUSTOM:FlexErf`.
    """
    wanted = None if tensors is None else set(tensors)
    return tuple(
        i
        for i, op in enumerate(ops)
        if op.kind.replace(":", " ") == kind
        and (wanted is None or any(t.name in wanted for t in (*op.operands, *op.outputs)))
    )
