"""The operations of a file that the delegate rejects, as far as its log identifies them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from msd.graph.ir import Op


@dataclass(frozen=True)
class Rejection:
    """A kind of operation that the delegate rejects, with its own reason.

    `operations` are positions in the file, from 0, and `of` is the number of all operations of that kind.
    Where reasons name tensors, `operations` are those that read or write them, and `tensors` has the names in
    the same order. Otherwise the log does not identify the operations: `operations` are then all of that
    kind, and `exact` is false unless there is only one.
    """

    COMPUTED: ClassVar = ("exact",)

    kind: str
    reason: str
    operations: tuple[int, ...]
    of: int
    tensors: tuple[str, ...] = ()

    @property
    def exact(self) -> bool:
        """Whether the rejected operations are known."""
        return bool(self.tensors) or len(self.operations) == 1


def logged(kind: str) -> str:
    """Return a kind as the log prints it: `CUSTOM FlexErf` for `CUSTOM:FlexErf`."""
    return kind.replace(":", " ")


def rejections(pairs: Iterable[tuple[str, str]], ops: Sequence[Op]) -> tuple[Rejection, ...]:
    """Return the rejections in the (kind, reason) pairs of a log, one for each kind and reason."""
    by_reason: dict[tuple[str, str], list[str]] = {}
    for kind, words in pairs:
        reason, tensor = _split(words, kind, ops)
        by_reason.setdefault((kind, reason), []).extend([tensor] * bool(tensor))
    return tuple(_rejection(kind, reason, tensors, ops) for (kind, reason), tensors in by_reason.items())


def _split(words: str, kind: str, ops: Sequence[Op]) -> tuple[str, str]:
    """Return (reason, tensor) of "Tensor dimensions must be less than 5. encoder/add"; "" is no tensor."""
    reason, stop, tensor = words.partition(". ")
    if stop and _positions(kind, [tensor], ops):
        return f"{reason}.", tensor
    return words, ""


def _rejection(kind: str, reason: str, tensors: list[str], ops: Sequence[Op]) -> Rejection:
    of_kind = _positions(kind, None, ops)
    rejected = _positions(kind, tensors, ops) if tensors else of_kind
    ordered = sorted(tensors, key=lambda tensor: _positions(kind, [tensor], ops))
    return Rejection(kind, reason, rejected, len(of_kind), tensors=tuple(ordered))


def _positions(kind: str, tensors: Sequence[str] | None, ops: Sequence[Op]) -> tuple[int, ...]:
    """Return the positions of the operations of `kind` that read or write one of `tensors`, or of all."""
    names = None if tensors is None else set(tensors)
    return tuple(
        i
        for i, op in enumerate(ops)
        if logged(op.kind) == kind
        and (names is None or any(t.name in names for t in (*op.operands, *op.outputs)))
    )
