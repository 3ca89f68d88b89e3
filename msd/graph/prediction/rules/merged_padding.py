"""A padding that a delegate merges with the operator behind it, whose own padding has other numbers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from msd.graph.ir import Op, Tensor
from msd.graph.prediction.rules.checks import Flaw
from msd.graph.prediction.rules.view import View, numbers

BELOW_ALL = -1e30
"""What pads for a maximum with this or less is as good as the delegate's padding, which never wins."""

KEEPS: dict[str, Callable[[float], bool]] = {
    "AVERAGE_POOL_2D": lambda value: False,
    "MAX_POOL_2D": lambda value: value <= BELOW_ALL,
    "CONV_2D": lambda value: value == 0,
    "DEPTHWISE_CONV_2D": lambda value: value == 0,
}
"""The kinds behind a PAD that take its place, and for which values their own padding is the same."""

BECOMES = {
    "AVERAGE_POOL_2D": "leaves the padding out of the averages",
    "MAX_POOL_2D": "leaves the padding out of the maxima",
    "CONV_2D": "pads with zeros",
    "DEPTHWISE_CONV_2D": "pads with zeros",
}


def merged_padding(view: View) -> Flaw | None:
    """The padding of height and width has the numbers that the only operator behind it pads with."""
    pads, y = numbers(view.input(1)), view.outputs[0]
    reader = _only_reader(y)
    if reader is None or pads is None or len(pads) != 8 or y.dtype not in ("FLOAT32", "FLOAT16"):
        return None
    value = _value(view.input(2))
    if any((*pads[:2], *pads[6:])) or not any(pads) or value is None or KEEPS[reader.kind](value):
        return None
    clause = f"pads with {value:g} for {reader.kind}; the delegate merges the two and {BECOMES[reader.kind]}"
    return clause, (y,)


def _only_reader(tensor: Tensor) -> Op | None:
    """Return the operator that alone reads a tensor as its input, if it is one that takes a padding over."""
    uses = list(tensor.uses)
    if len(uses) != 1:
        return None
    reader, place = uses[0]
    return reader if place == 0 and reader.kind in KEEPS else None


def _value(tensor: Tensor | None) -> float | None:
    """Return what is padded with: 0 where nothing says it, None where it is not known."""
    if tensor is None:
        return 0.0
    return float(np.reshape(tensor.values(), -1)[0]) if tensor.data is not None else None
