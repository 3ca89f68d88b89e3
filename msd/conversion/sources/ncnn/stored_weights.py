"""The weights in ncnn's .bin file, which follow each other as the layers do (ncnn's src/modelbin.cpp).

A convolution's filters, OIHW, begin with a tag of four bytes: 0 for float32, `HALF` for float16, which fill
up four bytes. Biases, and the slopes of a PReLU, are float32 without a tag.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from msd.conversion.sources.ncnn.param import NcnnLayer
from msd.conversion.sources.stored import StoredFile, stamp_of
from msd.errors import BadCheckpoint
from msd.files.wording import counted
from msd.graph.ir.weights import Array, Weights

HALF = 0x01306B47
FLOATS: dict[int, np.dtype[Any]] = {0: np.dtype("<f4"), HALF: np.dtype("<f2")}
KIND = ".bin file of ncnn"


@dataclass(frozen=True)
class NcnnWeights:
    """A layer and its tensors: of a convolution the filters and the bias, of a PReLU the slopes."""

    layer: NcnnLayer
    tensors: tuple[Weights, ...]


def read_weights(path: Path, layers: Iterable[NcnnLayer]) -> list[NcnnWeights]:
    """Return the layers that have weights, with these; only their tags are read.

    Raises BadCheckpoint for a file of another length than the layers need, and for a tag of other numbers.
    """
    try:
        with path.open("rb") as file:
            reader = _Offsets(StoredFile(path, KIND, stamp_of(file)))
    except OSError as error:
        raise BadCheckpoint(f"{path} cannot be read ({error.strerror})") from error
    found = [NcnnWeights(layer, tuple(reader.take(layer))) for layer in layers if layer.kind in TAKES]
    if reader.place != reader.file.size:
        raise reader.file.wrong(f"it has {reader.file.size} bytes, and the layers' weights {reader.place}")
    return found


class _Offsets:
    """The place in the file up to which the weights have been assigned to layers."""

    def __init__(self, file: StoredFile) -> None:
        self.file, self.place = file, 0

    def take(self, layer: NcnnLayer) -> Iterator[Weights]:
        """Yield the tensors of the next layer."""
        if layer.kind == "PReLU":
            yield self._tensor(layer, "slopes", (_count(layer, 0),), FLOATS[0])
            return
        shape = _filters(layer)
        tag = int.from_bytes(self.file.read(layer.name, self._advance(layer, 4), 4), "little")
        if tag not in FLOATS:
            raise self.file.wrong(f"{layer.name} has the tag {tag:#x}; float32 and float16 are read")
        yield self._tensor(layer, "filters", shape, FLOATS[tag])
        yield self._tensor(layer, "bias", shape[:1], FLOATS[0])

    def _tensor(self, layer: NcnnLayer, what: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Weights:
        file, size = self.file, dtype.itemsize * math.prod(shape)
        begin = self._advance(layer, -(-size // 4) * 4)

        def read() -> Array:
            return np.frombuffer(file.read(f"{layer.name}'s {what}", begin, size), dtype).reshape(shape)

        history = f"{file.path.name}:{layer.name} {what}"
        return Weights.stored(shape=shape, dtype=dtype, read=read, history=history)

    def _advance(self, layer: NcnnLayer, count: int) -> int:
        """Pass over so many bytes, and return where they begin."""
        begin, self.place = self.place, self.place + count
        if self.place > self.file.size:
            raise self.file.wrong(f"it has {self.file.size} bytes, and ends within the layer {layer.name}")
        return begin


def _count(layer: NcnnLayer, key: int) -> int:
    count = layer.whole(key)
    if count < 1:
        raise layer.wrong(f"has {key}={count}, where a count was expected")
    return count


def _filters(layer: NcnnLayer) -> tuple[int, int, int, int]:
    """Return the shape OIHW of a convolution's filters; refuse one of another form than an upscaler's."""
    for key, (wanted, default, others, what) in FORM.items():
        own = layer.whole(key, default)
        if any(layer.whole(each, own) != wanted for each in (key, *others)):
            raise layer.wrong(f"has {key}={own}, {what}; upscalers have {wanted}")
    outputs, size = _count(layer, 0), _count(layer, 6)
    if size % (9 * outputs):
        raise layer.wrong(
            f"has {counted(size, 'weight')}, which make no 3x3 filters for {counted(outputs, 'channel')}"
        )
    return outputs, size // (9 * outputs), 3, 3


FORM: dict[int, tuple[int, int, tuple[int, ...], str]] = {
    1: (3, 0, (11,), "the filters' width"),
    2: (1, 1, (12,), "the dilation"),
    3: (1, 1, (13,), "the stride"),
    4: (1, 0, (14, 15, 16), "the padding"),
    5: (1, 0, (), "whether there is a bias"),
    7: (1, 1, (), "the groups"),
    8: (0, 0, (), "int8"),
}
"""Parameters of a convolution (ncnn's src/layer/convolution.cpp): the value that an upscaler has, the
default, and those of the other axis or the other sides, which are by default the same."""

TAKES = ("Convolution", "PReLU")
"""The kinds of layers that have weights."""
