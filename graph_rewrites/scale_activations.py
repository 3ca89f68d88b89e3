"""Activations beyond float16 become smaller by a power of two, up to the normalisation that undoes it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import ceil, log2

import numpy as np

from msd.graph.rewrite import Array, Build, Graph, Op, Target, Tensor, Weights, graph_pass

LARGE = 2047.0
"""Beyond it squares of group normalisation, of values an eighth as large, overflow float16."""

AIM = 512.0
"""What the largest is scaled to: that of another image may be four times as large."""

SCALED = "/scaled"
"""The end of the names of what has been scaled."""

LEAST = 2.0**-24
"""float16's smallest number: a smaller epsilon would be zero there, and 1/sqrt(0) is infinite."""

LAYERS = ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED")
SUMS = ("ADD", "SUB")
MOVES = ("RESHAPE", "TRANSPOSE", "RESIZE_NEAREST_NEIGHBOR")
LINEAR = (*MOVES, "AVERAGE_POOL_2D", "MEAN", "NEG", "SUM")


Constants = dict[tuple[Weights, int], Tensor]


class Unfit(Exception):
    """An operator does not pass a power of two on."""


@dataclass
class Scaling:
    """Which power of two each tensor of a graph is scaled by: the `exponents` that are not 0.

    `streams` are sets of tensors that only one power fits, by each of their tensors; `chosen` are the powers
    of streams, by one of their tensors.
    """

    streams: Mapping[Tensor, Tensor]
    measured: Mapping[str, float]
    chosen: dict[Tensor, int] = field(default_factory=dict)
    exponents: dict[Tensor, int] = field(default_factory=dict)

    def choose(self, graph: Graph, stream: Tensor, exponent: int) -> None:
        """Choose a stream's power where that fits, and where layers make the stream, which can scale it."""
        self.chosen[stream] = exponent
        try:
            self.solve(graph)
            fits = any(self.streams[t] is stream for t in self.exponents)
        except Unfit:
            fits = False
        if not fits:
            del self.chosen[stream]

    def solve(self, graph: Graph) -> None:
        """Follow the chosen powers through `graph`; raises Unfit where something else than 1 comes out."""
        self.exponents = {}
        for o in graph.ops:
            if exponent := self._exponent(o):
                self.exponents.update(dict.fromkeys(o.outputs, exponent))
        if any(t in self.exponents for t in graph.outputs):
            raise Unfit

    def _exponent(self, o: Op) -> int:
        given = [self.exponents.get(t, 0) for t in o.operands if _varies(t)]
        if o.kind in LAYERS:
            return self._of_layer(o, given)
        if not any(given):
            return 0
        if o.attrs.get("fused_activation_function", "NONE") != "NONE":
            raise Unfit
        return self._of_product(o, given) if o.kind == "MUL" else _passed(o.kind, given)

    def _of_product(self, o: Op, given: list[int]) -> int:
        """Return the power of a product: 0 where one of its factors can be made to undo the other."""
        varying = [t for t in o.operands if _varies(t)]
        constants = [t.data for t in o.operands if t.data is not None]
        if constants and constants[0].exact and self.streams.get(varying[0]) in self.chosen:
            return _power(self._reach(varying[0]))
        for tensor, own in zip(varying, given, strict=True):
            if len(given) > 1 and len(tensor.uses) == 1 and self._passes(tensor.producer):
                self.exponents[tensor] = own - sum(given)
                return 0
        return sum(given)

    def _passes(self, o: Op | None) -> bool:
        """Whether it is a layer that this program set, and nobody measured."""
        if o is None or o.kind not in LAYERS or o.outputs[0].name in self.measured:
            return False
        filters = o.operands[1].data
        return filters is not None and filters.exact

    def _reach(self, tensor: Tensor) -> float:
        """Return the largest magnitude, for an unmeasured tensor that of what it is made of."""
        if tensor.name in self.measured or tensor.producer is None:
            return self.measured.get(tensor.name, 0.0)
        return max((self._reach(t) for t in tensor.maker.operands if _varies(t)), default=0.0)

    def _of_layer(self, o: Op, given: list[int]) -> int:
        """Return the power of a layer's result: its stream's, or where it only passes on, what it reads."""
        read = self.exponents.get(o.operands[0], 0)
        made = self.chosen.get(self.streams[o.outputs[0]], read if self._passes(o) else 0)
        is_fixed = len(given) > 1 or any(t.quant for t in o.operands)
        if (made or any(given)) and (is_fixed or o.attrs["fused_activation_function"] != "NONE"):
            raise Unfit
        return made


@graph_pass("cleanup")
def scale_activations(graph: Graph, target: Target) -> int:
    """norm(CONV_2D(x, w, b) + y, eps)  =>  norm(CONV_2D(x, s w, s b) + s y, s² eps)

    With a power of two s these are equal in real arithmetic, and in floats too where nothing overflows. Each
    sum of layers has its own s, by the largest number that was measured: the layers between two sums carry
    one over into the other, and so does the factor before the squares of a normalisation, whose epsilon thus
    changes only where its own numbers are large. What something else reads, or nobody measured, stays.
    """
    scaling = Scaling(_streams(graph), target.largest)
    for stream, exponent in _wanted(scaling):
        scaling.choose(graph, stream, exponent)
    scaling.solve(graph)
    made: Constants = {}
    for o in graph.ops:
        _scale_constants(o, scaling.exponents, made)
    for tensor in scaling.exponents:
        tensor.name += SCALED if tensor.name in scaling.measured else ""
    return len(scaling.chosen)


def _wanted(scaling: Scaling) -> Iterator[tuple[Tensor, int]]:
    """Yield the streams with numbers that are too large, and the power that each should be scaled by."""
    largest = dict[Tensor, float]()
    for tensor, stream in scaling.streams.items():
        largest[stream] = max(largest.get(stream, 0.0), scaling.measured.get(tensor.name, 0.0))
    done = {stream for tensor, stream in scaling.streams.items() if tensor.name.endswith(SCALED)}
    for stream, reached in largest.items():
        if _power(reached) and stream not in done:
            yield stream, _power(reached)


def _power(reached: float) -> int:
    """Return the power of two that makes numbers of this size small; 0 for those that are."""
    return -ceil(log2(reached / AIM)) if LARGE < reached < np.inf else 0


def _streams(graph: Graph) -> dict[Tensor, Tensor]:
    """Return for each result the first tensor of its stream: of what is joined by sums and rearrangements."""
    first = dict[Tensor, Tensor]()

    def root(tensor: Tensor) -> Tensor:
        while first.setdefault(tensor, tensor) is not tensor:
            tensor = first[tensor]
        return tensor

    for o in graph.ops:
        joined = (*o.outputs, *filter(_varies, o.operands)) if o.kind in (*SUMS, *MOVES) else o.outputs
        for tensor in joined:
            first[root(tensor)] = root(joined[0])
    return {tensor: root(tensor) for tensor in first}


def _passed(kind: str, given: list[int]) -> int:
    """Return the power of the result of a `kind` whose operands have the powers `given`."""
    if kind == "RSQRT" and given[0] % 2 == 0:
        return -given[0] // 2
    if kind in ("SQUARE", "SQUARED_DIFFERENCE") and len({*given}) == 1 and len(given) == ARITY[kind]:
        return 2 * given[0]
    if kind in (*SUMS, *LINEAR) and len({*given}) == 1:
        return given[0]
    raise Unfit


ARITY = {"SQUARE": 1, "SQUARED_DIFFERENCE": 2}


def _varies(tensor: Tensor) -> bool:
    return tensor.data is None and tensor.dtype == "FLOAT32"


def _scale_constants(o: Op, exponents: Mapping[Tensor, int], made: Constants) -> None:
    """Scale what a layer multiplies by and what an operator adds; `made` are the constants until now."""
    if o.kind not in (*LAYERS, *SUMS, "MUL"):
        return
    result = exponents.get(o.outputs[0], 0)
    change = result - sum(exponents.get(t, 0) for t in o.operands)
    powers = {"MUL": (change, change)}.get(
        o.kind, (result, result) if o.kind in SUMS else (0, change, result)
    )
    o.inputs = [
        _times(t, power, made) if t is not None and t.data is not None and power else t
        for t, power in zip(o.inputs, powers, strict=False)
    ]


def _times(constant: Tensor, power: int, made: Constants) -> Tensor:
    """Return a constant times 2 to `power`, the same one each time.

    What this program set and is positive, as epsilons are, stays so in float16.
    """
    factor, exact = np.float32(2.0**power), constant.weights.exact

    def scaled(values: Array) -> Array:
        product = values * factor
        return np.where((values > 0) & (product < LEAST), np.float32(LEAST), product) if exact else product

    key = (constant.weights, power)
    if key not in made:
        weights = constant.weights.map_each(f"* 2^{power}", scaled)
        made[key] = Build("").const(weights, constant.name)
    return made[key]
