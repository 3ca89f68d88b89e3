"""The tensors of one network in a file with several."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

from msd.errors import BadCheckpoint
from msd.files.wording import counted
from msd.graph.ir.weights import Weights

T = TypeVar("T")
DEEPEST_PREFIX = 5
"""The number of words in the longest prefix that callers look up."""


@dataclass(frozen=True)
class NetworkTensors:
    """The tensors of the file `where` whose names start with `prefix`, by the rest of their names."""

    where: str
    prefix: str
    tensors: Mapping[str, Weights]

    @staticmethod
    def of(where: str, tensors: Mapping[str, Weights], prefix: str) -> NetworkTensors:
        """Return the part of `tensors` under `prefix`, which ends in a dot."""
        inside = {name.removeprefix(prefix): t for name, t in tensors.items() if name.startswith(prefix)}
        return NetworkTensors(where, prefix, inside)

    def inside(self, prefix: str) -> NetworkTensors:
        """Return the part of these tensors under a further prefix, which ends in a dot."""
        tensors = NetworkTensors.of(self.where, self.tensors, prefix).tensors
        return NetworkTensors(self.where, f"{self.prefix}{prefix}", tensors)

    def wrong(self, what: str) -> BadCheckpoint:
        """Return the error that reports `what` is wrong with the file."""
        return BadCheckpoint(f"{self.where} {what}")

    def unknown(self, name: str) -> BadCheckpoint:
        """Return the error that reports an unknown tensor."""
        return self.wrong(f"holds {self.prefix}{name}, which no Stable Diffusion 1.x or 2.x has")

    def has(self, prefix: str) -> bool:
        """Whether a name starts with the words of `prefix`."""
        return prefix in self._prefixes

    def count(self, prefix: str) -> int:
        """Return the number of consecutive prefixes `prefix`.0, `prefix`.1, … that exist."""
        return next(n for n in range(len(self.tensors) + 1) if not self.has(f"{prefix}.{n}"))

    def shape(self, name: str, rank: int) -> tuple[int, ...]:
        """Return a tensor's shape; raises BadCheckpoint if the tensor is missing or has another rank."""
        if name not in self.tensors:
            raise self.wrong(f"lacks {self.prefix}{name}, which every Stable Diffusion 1.x and 2.x has")
        shape = self.tensors[name].shape
        if len(shape) != rank:
            raise self.wrong(
                f"holds {self.prefix}{name} of the shape {list(shape)};"
                f" {counted(rank, 'axis was', 'axes were')} expected"
            )
        return shape

    def same(self, what: str, values: Iterable[T]) -> T:
        """Return the value that all `values` share; raises BadCheckpoint, naming `what`, if they differ."""
        distinct = set(values)
        if len(distinct) != 1:
            raise self.wrong(f"has {what} that differ, but in every Stable Diffusion they are equal")
        return distinct.pop()

    @cached_property
    def _prefixes(self) -> frozenset[str]:
        return frozenset(prefix for name in self.tensors for prefix in _prefixes(name))


def _prefixes(name: str) -> Iterator[str]:
    words = name.split(".", DEEPEST_PREFIX)
    for count in range(1, min(len(words), DEEPEST_PREFIX + 1)):
        yield ".".join(words[:count])
