"""What the layers of a .param file compute, as an expression that is equal for networks that are equal.

Exporters fuse activations into convolutions, or not, and write a weighted sum as one layer or as three; here
all of these are one expression. Equal expressions have one number, so that they are compared at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msd.conversion.sources.ncnn.param import NcnnLayer
from msd.errors import BadCheckpoint
from msd.files.wording import counted

DIGITS = 5
"""Of a factor: exporters round float32 as text."""


class Expressions:
    """Expressions by their numbers."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[object, ...], int] = {}
        self._scaled: dict[int, tuple[int, float]] = {}

    def of(self, *parts: object) -> int:
        """Return the number of an expression: what it does, and the numbers of what it does it to."""
        return self._numbers.setdefault(parts, len(self._numbers))

    def leaky(self, x: int, slope: float) -> int:
        """Return x where it is positive, and `slope` times x elsewhere."""
        return self.of("leaky", round(slope, DIGITS), x)

    def scaled(self, x: int, factor: float) -> int:
        """Return `factor` times x."""
        number = self.of("scaled", round(factor, DIGITS), x)
        self._scaled[number] = x, factor
        return number

    def sum(self, terms: Sequence[tuple[int, float]]) -> int:
        """Return the sum of terms, each times a factor."""
        single = [self._scaled.get(x, (x, 1.0)) if factor == 1 else (x, factor) for x, factor in terms]
        return self.of("sum", *sorted((x, round(factor, DIGITS)) for x, factor in single))


def evaluate(layers: Sequence[NcnnLayer], numbers: Expressions) -> int:
    """Return the expression of the only blob that no layer takes.

    The weighted layers are counted from 0. Raises BadCheckpoint for a layer of another kind than an upscaler
    has, and one that takes what no layer before it gives.
    """
    blobs, taken, weighted = dict[str, int](), set[str](), 0
    for layer in layers:
        if layer.kind not in KINDS:
            known = ", ".join(KINDS)
            raise layer.wrong(f"is of a kind that no Real-ESRGAN has; there are {known}")
        if missing := [name for name in layer.inputs if name not in blobs]:
            raise layer.wrong(f"takes {missing[0]!r}, which no layer before it gives")
        inputs = [blobs[name] for name in layer.inputs]
        taken.update(layer.inputs)
        value = KINDS[layer.kind](layer, inputs, numbers, weighted)
        weighted += layer.kind in ("Convolution", "PReLU")
        blobs |= dict.fromkeys(layer.outputs, value)
    results = [name for name in blobs if name not in taken]
    if len(results) != 1:
        raise BadCheckpoint(
            f"{layers[0].where if layers else 'the file'} has {counted(len(results), 'result')};"
            " an upscaler has one"
        )
    return blobs[results[0]]


def _one(layer: NcnnLayer, inputs: Sequence[int]) -> int:
    if len(inputs) != 1:
        raise layer.wrong(f"takes {len(inputs)} blobs, where one was expected")
    return inputs[0]


def _input(layer: NcnnLayer, inputs: Sequence[int], numbers: Expressions, weighted: int) -> int:
    return numbers.of("input")


def _split(layer: NcnnLayer, inputs: Sequence[int], numbers: Expressions, weighted: int) -> int:
    return _one(layer, inputs)


def _convolution(layer: NcnnLayer, inputs: Sequence[int], numbers: Expressions, weighted: int) -> int:
    value = numbers.of("weighted", weighted, _one(layer, inputs))
    activation, slopes = layer.whole(9), layer.arrays.get(10, ())
    if activation == 0:
        return value
    if activation != 2 or len(slopes) != 1:
        raise layer.wrong(f"has the activation 9={activation}; none and a leaky ReLU (2) are supported")
    return numbers.leaky(value, slopes[0])


def _prelu(layer: NcnnLayer, inputs: Sequence[int], numbers: Expressions, weighted: int) -> int:
    return numbers.of("weighted", weighted, _one(layer, inputs))


def _relu(layer: NcnnLayer, inputs: Sequence[int], numbers: Expressions, weighted: int) -> int:
    return numbers.leaky(_one(layer, inputs), layer.numbers.get(0, 0.0))


def _concat(layer: NcnnLayer, inputs: Sequence[int], numbers: Expressions, weighted: int) -> int:
    if layer.whole(0) != 0:
        raise layer.wrong(f"joins along the axis {layer.whole(0)}; channels, 0, were expected")
    return numbers.of("joined", *inputs)


def _eltwise(layer: NcnnLayer, inputs: Sequence[int], numbers: Expressions, weighted: int) -> int:
    factors = layer.arrays.get(1, (1.0,) * len(inputs))
    if layer.whole(0) != 1 or len(factors) != len(inputs):
        raise layer.wrong(f"has 0={layer.whole(0)} and {len(factors)} factors; a sum, 1, was expected")
    return numbers.sum([*zip(inputs, factors, strict=True)])


def _binary(layer: NcnnLayer, inputs: Sequence[int], numbers: Expressions, weighted: int) -> int:
    kind, has_number = layer.whole(0), layer.whole(1)
    if kind == 2 and has_number:
        return numbers.scaled(_one(layer, inputs), layer.numbers.get(2, 0.0))
    if kind != 0 or has_number:
        raise layer.wrong(f"has 0={kind}; sums (0) and products with a number (2) are supported")
    return numbers.sum([(x, 1.0) for x in inputs])


def _interp(layer: NcnnLayer, inputs: Sequence[int], numbers: Expressions, weighted: int) -> int:
    factors = layer.numbers.get(1, 1.0), layer.numbers.get(2, 1.0)
    if layer.whole(0) != 1 or factors[0] != factors[1] or factors[0] != int(factors[0]):
        raise layer.wrong(
            f"resizes by {factors[0]:g}x{factors[1]:g} in the way {layer.whole(0)}; the nearest pixel, 1,"
            " times a whole number, was expected"
        )
    return numbers.of("nearest", int(factors[0]), _one(layer, inputs))


def _shuffle(layer: NcnnLayer, inputs: Sequence[int], numbers: Expressions, weighted: int) -> int:
    return numbers.of(layer.kind, layer.whole(0, 1), layer.whole(1), _one(layer, inputs))


Meaning = Callable[[NcnnLayer, Sequence[int], Expressions, int], int]
KINDS: dict[str, Meaning] = {
    "Input": _input,
    "Split": _split,
    "Convolution": _convolution,
    "PReLU": _prelu,
    "ReLU": _relu,
    "Concat": _concat,
    "Eltwise": _eltwise,
    "BinaryOp": _binary,
    "Interp": _interp,
    "PixelShuffle": _shuffle,
    "Reorg": _shuffle,
}
"""What each kind of layer does (ncnn's docs/developer-guide/operators.md)."""
