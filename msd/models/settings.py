"""Reads an untrusted configuration: checks each value and names the key of an invalid one."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from msd.errors import BadCheckpoint

WIDEST = 1 << 16
"""The most channels: far more than any known model has."""

LARGEST = 1_000_000
"""The largest number that is no count: an epsilon, a factor."""

MOST_LAYERS = 16
"""The most layers of a level; Stable Diffusion has 2, and SDXL 10 transformers in each."""

DEEPEST = 8
"""The most levels: more than any known U-Net or autoencoder has."""


@dataclass(frozen=True)
class Reader:
    """Reads values of `config`, the config.json of `component`; raises BadCheckpoint naming the key."""

    component: str
    config: Mapping[str, Any]

    def wrong(self, key: str, value: Any, right: str) -> NoReturn:
        """Raise BadCheckpoint for `value` of `key`; `right` is the rest of the sentence."""
        raise BadCheckpoint(f"{self.component}/config.json says {key} = {value!r}, but {right}")

    def refuse_other(self, only: Mapping[str, Sequence[Any]]) -> None:
        """Refuse a value of a key in `only` that is not one of those listed; the first is the default."""
        for key, values in only.items():
            value = self.config.get(key, values[0])
            if value is None and False in values:
                continue  # Python takes null for false
            # Not `in`, for which 1 is True and 0 is False.
            if not any(value == v and isinstance(value, bool) == isinstance(v, bool) for v in values):
                self.wrong(key, value, f"only {' or '.join(map(repr, values))} is supported")

    def refuse_unknown(self, known: Collection[str]) -> None:
        """Refuse a key that is not `known`, unless it is private or its value is null or false."""
        for key, value in self.config.items():
            if not key.startswith("_") and key not in known and value is not None and value is not False:
                self.wrong(key, value, "its meaning is unknown; only null is supported")

    def count(self, key: str, default: int, most: int = WIDEST) -> int:
        """Return an integer from 1 to `most`."""
        return self._count(key, self.config.get(key, default), most)

    def optional_count(self, key: str) -> int | None:
        """Return an integer from 1, or None if the key is absent or null."""
        return None if self.config.get(key) is None else self.count(key, 1)

    def counts(self, key: str, default: Sequence[int], most: int = WIDEST) -> tuple[int, ...]:
        """Return a list with one integer from 1 to `most` for each level."""
        values = self._listed(key, default)
        if not 1 <= len(values) <= DEEPEST:
            self.wrong(key, values, f"1 to {DEEPEST} levels are supported")
        return tuple(self._count(key, value, most) for value in values)

    def per_level(self, key: str, default: int, levels: int, most: int, least: int = 1) -> tuple[int, ...]:
        """Return an integer from `least` to `most` for each level; a single one applies to all."""
        return tuple(self._count(key, value, most, least) for value in self._spread(key, default, levels))

    def refuse_true(self, key: str, levels: int) -> None:
        """Refuse a value that is not false; the file may repeat false for every level."""
        if any(value is not False for value in self._spread(key, False, levels)):
            self.wrong(key, self.config[key], "only False is supported")

    def per_block(self, key: str, counts: Sequence[int], most: int) -> tuple[tuple[int, ...], ...]:
        """Return integers from 0 to `most`, `counts` of them for each level: a single one applies to all."""
        value = self.config.get(key, 1)
        levels = list(value) if isinstance(value, list | tuple) else [value] * len(counts)
        if len(levels) != len(counts):
            self.wrong(key, levels, f"there are {len(counts)} levels")
        made = []
        for level, count in zip(levels, counts, strict=True):
            values = level if isinstance(level, list | tuple) else [level] * count
            if len(values) != count:
                self.wrong(key, levels, f"a level has {count} blocks")
            made.append(tuple(self._count(key, value, most, least=0) for value in values))
        return tuple(made)

    def same_on_all(self, key: str, default: int, levels: int) -> int:
        """Return an integer from 1; the file may repeat it for every level."""
        first, *others = self.per_level(key, default, levels, WIDEST)
        if any(value != first for value in others):
            self.wrong(key, self.config[key], "one number for all levels is supported")
        return first

    def size(self, key: str, default: int) -> tuple[int, int]:
        """Return a height and a width; a single number means both."""
        value = self.config.get(key) or default
        values = value if isinstance(value, list | tuple) else [value, value]
        if len(values) != 2:
            self.wrong(key, value, "a height and a width were expected")
        height, width = (self._count(key, v, WIDEST) for v in values)
        return height, width

    def blocks(self, key: str, default: Sequence[str], levels: int, special: str) -> tuple[bool, ...]:
        """Return for each level whether its block is of the kind `special`, one of those in `default`."""
        values = self._listed(key, default)
        for value in values:
            if value not in default:
                self.wrong(key, value, f"only {' and '.join(sorted(set(default)))} are supported")
        if len(values) != levels:
            self.wrong(key, values, f"block_out_channels has {levels} levels")
        return tuple(value == special for value in values)

    def choice(self, key: str, default: str, among: Sequence[str]) -> str:
        """Return one of the words in `among`."""
        value = self.config.get(key, default)
        if value not in among:
            self.wrong(key, value, f"only {', '.join(among)} are supported")
        return str(value)

    def one_of(self, key: str, among: Sequence[str | None]) -> str | None:
        """Return one of the words in `among`, which has null; null by default."""
        value = self.config.get(key)
        if value not in among:
            self.wrong(key, value, f"only {', '.join(map(str, among))} are supported")
        return None if value is None else str(value)

    def flag(self, key: str, default: bool) -> bool:
        """Return true or false, which null stands for too."""
        value = self.config.get(key, default)
        if value is None:
            return False
        if not isinstance(value, bool):
            self.wrong(key, value, "true or false was expected")
        return value

    def number(self, key: str, default: float) -> float:
        """Return a number from -`LARGEST` to `LARGEST`."""
        value = self.config.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= LARGEST:
            self.wrong(key, value, f"a number was expected, from -{LARGEST} to {LARGEST}")
        return float(value)

    def positive(self, key: str, default: float) -> float:
        """Return a number above zero and up to `LARGEST`."""
        value = self.number(key, default)
        if value <= 0:
            self.wrong(key, value, "a number above 0 was expected")
        return value

    def require_multiple(self, key: str, value: int, divisor_key: str, divisor: int) -> None:
        """Refuse a value that is not a multiple of `divisor`, the value of another key."""
        if value % divisor:
            self.wrong(key, value, f"it must be a multiple of {divisor_key} = {divisor}")

    def _count(self, key: str, value: Any, most: int, least: int = 1) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            self.wrong(key, value, f"an integer from {least} to {most} was expected")
        return value

    def _spread(self, key: str, default: Any, levels: int) -> list[Any]:
        """Return a value for each level; a single one applies to all."""
        value = self.config.get(key, default)
        values = list(value) if isinstance(value, list | tuple) else [value] * levels
        if len(values) != levels:
            self.wrong(key, value, f"there are {levels} levels")
        return values

    def _listed(self, key: str, default: Sequence[Any]) -> list[Any]:
        value = self.config.get(key, default)
        if not isinstance(value, list | tuple):
            self.wrong(key, value, "a list with one entry for each level was expected")
        return list(value)
