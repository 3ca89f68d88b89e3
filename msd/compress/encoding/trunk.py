"""The trunk of a network: the weights on its shortest ways, whose rounding errors nothing dampens.

A residual branch adds little to the stream beside it, so its error is small in the sum. What has no such way
around it, like the first and the last convolution of a U-Net, or the 1x1 convolution that narrows the stream
behind a skip connection, passes all of its error on. These are the layers on the ways from an input to an
output with the fewest weights to pass: a rule by place, measured in docs/recipes.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from msd.graph.ir import Graph, Op, Tensor

SHARE = 0.003
"""The most bytes that the trunk may add, as a share of all weights' bytes."""

DETOUR = 2
"""How many more layers than the shortest way a way of the trunk may have."""


def trunk(graph: Graph, bits: Mapping[Tensor, int], wider: int) -> list[Tensor]:
    """Return the filters of `graph` to store in `wider` bits each, for at most `SHARE` more bytes.

    `bits` has every large weight with its bits. Filters on shorter ways come first, of these the smallest.
    """
    ways = _ways(graph, bits)
    filters = {op.operands[1]: way for op, way in ways.items() if op.kind == "CONV_2D"}
    places = sorted((way, t.size, n) for n, (t, way) in enumerate(filters.items()))
    most = min(ways.values(), default=0) + DETOUR
    left = SHARE * sum(t.size * count for t, count in bits.items())
    chosen, every = [], list(filters)
    for way, size, n in places:
        extra = size * (wider - bits[every[n]])
        if way <= most and 0 < extra <= left:
            chosen.append(every[n])
            left -= extra
    return chosen


def _ways(graph: Graph, weights: Mapping[Tensor, int]) -> dict[Op, int]:
    """Return, for each operator that reads one of `weights`, the layers on the shortest way through it.

    Ways begin at the input that has the shortest, such as the latent image beside the text and the time.
    """
    layers = {op for tensor in weights for op, _ in tensor.uses}
    behind: dict[Tensor, float] = dict.fromkeys(graph.outputs, 0)
    for op in reversed(graph.ops):
        least = min(behind.get(t, math.inf) for t in op.outputs) + (op in layers)
        behind |= {t: min(behind.get(t, math.inf), least) for t in op.operands}
    least = min((behind.get(t, math.inf) for t in graph.inputs), default=math.inf)
    before: dict[Tensor, float] = {t: 0 for t in graph.inputs if behind.get(t) == least}
    ways = {}
    for op in graph.ops:
        passed = min((before.get(t, math.inf) for t in op.operands), default=math.inf) + (op in layers)
        before |= dict.fromkeys(op.outputs, passed)
        way = passed + min((behind.get(t, math.inf) for t in op.outputs), default=math.inf)
        if op in layers and math.isfinite(way):
            ways[op] = round(way)
    return ways
