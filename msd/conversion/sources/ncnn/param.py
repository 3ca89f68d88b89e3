"""The layers of a network in ncnn's .param file (ncnn's wiki, "param and model file structure").

The first line is a magic number, the second counts layers and blobs, and each further one is a layer:
its kind, its name, how many blobs it takes and gives, their names, and its parameters, `id=value`. The id of
an array is -23300 less its own, and its value begins with its length.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from msd.errors import BadCheckpoint
from msd.files import bounded

MAGIC = "7767517"
ARRAYS = -23300
MOST_BYTES = 1 << 20
"""Of a .param file; that of the largest Real-ESRGAN has 117 kB."""

MOST_LAYERS = 4096
LARGEST = 1 << 31


@dataclass(frozen=True)
class NcnnLayer:
    """A layer: its kind and name, the blobs that it takes and gives, and its parameters by their ids.

    `where` names the file in messages.
    """

    where: str
    kind: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    numbers: Mapping[int, float]
    arrays: Mapping[int, tuple[float, ...]]

    def whole(self, key: int, default: int = 0) -> int:
        """Return a parameter that is a whole number."""
        value = self.numbers.get(key, default)
        if value != int(value):
            raise self.wrong(f"has {key}={value:g}, where a whole number was expected")
        return int(value)

    def wrong(self, what: str) -> BadCheckpoint:
        """Return the error that reports `what` is wrong with the layer."""
        return BadCheckpoint(f"{self.where}: the layer {self.name} ({self.kind}) {what}")


def is_param(start: bytes) -> bool:
    """Whether a file begins as a .param file."""
    return start.lstrip().startswith(MAGIC.encode())


def read_layers(path: Path) -> list[NcnnLayer]:
    """Return the layers of a .param file, in order; raises BadCheckpoint, naming the file and the line."""
    try:
        lines = bounded.read_text(path, MOST_BYTES).splitlines()
    except (OSError, ValueError) as problem:
        raise BadCheckpoint(f"{path} cannot be read: {problem}") from problem
    words = [(number, line.split()) for number, line in enumerate(lines, 1) if line.strip()]
    if not words or words[0][1] != [MAGIC]:
        raise BadCheckpoint(f"{path} does not begin with {MAGIC}, as ncnn's .param files do")
    if len(words) - 2 > MOST_LAYERS:
        raise BadCheckpoint(f"{path} has {len(words) - 2} layers, and at most {MOST_LAYERS} are read")
    return [_layer(path, number, line) for number, line in words[2:]]


def _layer(path: Path, number: int, words: list[str]) -> NcnnLayer:
    try:
        kind, name, taken, given, *rest = words
        inputs, outputs = rest[: int(taken)], rest[int(taken) : int(taken) + int(given)]
        if min(int(taken), int(given)) < 0 or len(inputs) + len(outputs) != int(taken) + int(given):
            raise ValueError("it names too few blobs")
        parameters = [word.split("=") for word in rest[len(inputs) + len(outputs) :]]
        values = {int(key): [_number(each) for each in value.split(",")] for key, value in parameters}
    except ValueError as problem:
        raise BadCheckpoint(f"{path} is not a .param file of ncnn: line {number}, {problem}") from problem
    return NcnnLayer(
        where=str(path),
        kind=kind,
        name=name,
        inputs=tuple(inputs),
        outputs=tuple(outputs),
        numbers={key: value[0] for key, value in values.items() if key > ARRAYS},
        arrays={ARRAYS - key: tuple(value[1:]) for key, value in values.items() if key <= ARRAYS},
    )


def _number(text: str) -> float:
    value = float(text)
    if not abs(value) < LARGEST:
        raise ValueError(f"it has the number {text}")
    return value
