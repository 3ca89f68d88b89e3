"""The trunk of a network: the weights on its shortest paths, whose rounding errors nothing dampens.

A residual branch adds little to the stream beside it, so its error is small in the sum. What has no such path
around it, like the first and the last convolution of a U-Net, or the 1x1 convolution that narrows the stream
behind a skip connection, passes all of its error on. These are the layers on the paths from an input to an
output with the fewest weights to pass: a rule by place, measured in docs/recipes.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from msd.graph.ir import Graph, Op, Tensor

SHARE = 0.003
"""The most bytes that the trunk may add, as a share of all weights' bytes."""

DETOUR = 2
"""How many more layers than the shortest path a path of the trunk may have."""


def trunk(graph: Graph, bits: Mapping[Tensor, int], wider: int) -> list[Tensor]:
    """Return the filters of `graph` to store in `wider` bits each, for at most `SHARE` more bytes.

    `bits` has every large weight with its bits. Filters on shorter paths come first, of these the smallest.
    """
    paths = _paths(graph, bits)
    filters = {op.operands[1]: path for op, path in paths.items() if op.kind == "CONV_2D"}
    places = sorted((path, t.size, n) for n, (t, path) in enumerate(filters.items()))
    most = min(paths.values(), default=0) + DETOUR
    left = SHARE * sum(t.size * count for t, count in bits.items())
    chosen, every = [], list(filters)
    for path, size, n in places:
        extra = size * (wider - bits[every[n]])
        if path <= most and 0 < extra <= left:
            chosen.append(every[n])
            left -= extra
    return chosen


def _paths(graph: Graph, weights: Mapping[Tensor, int]) -> dict[Op, int]:
    """Return, for each operator that reads one of `weights`, the layers on the shortest path through it.

    Paths begin at the input that has the shortest, such as the latent image beside the text and the time.
    """
    layers = {op for tensor in weights for op, _ in tensor.uses}
    behind: dict[Tensor, float] = dict.fromkeys(graph.outputs, 0)
    for op in reversed(graph.ops):
        least = min(behind.get(t, math.inf) for t in op.outputs) + (op in layers)
        behind |= {t: min(behind.get(t, math.inf), least) for t in op.operands}
    least = min((behind.get(t, math.inf) for t in graph.inputs), default=math.inf)
    before: dict[Tensor, float] = {t: 0 for t in graph.inputs if behind.get(t) == least}
    paths = {}
    for op in graph.ops:
        passed = min((before.get(t, math.inf) for t in op.operands), default=math.inf) + (op in layers)
        before |= dict.fromkeys(op.outputs, passed)
        path = passed + min((behind.get(t, math.inf) for t in op.outputs), default=math.inf)
        if op in layers and math.isfinite(path):
            paths[op] = round(path)
    return paths
