"""Weights that pass through integers on their way into a layer, so that a network learns to bear them.

The integers are those of msd/encoding/quantize.py; the gradient passes as if nothing had been rounded (the
straight-through estimator: Bengio et al. 2013, arXiv 1308.3432; for integers of networks Jacob et al. 2017,
arXiv 1712.05877).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch.nn.utils import parametrize

from msd.encoding.quantize import CLIPS, COMPENSATED, PLAIN, RANGES, RMS_STEP, SMALLEST_BOUND
from msd.encoding.recipe import Line

AT_ONCE = 1 << 24
"""The numbers, 64 MB, up to which several clips are tried at once; a GPU idles where each is tried alone."""


class FakeQuantization(torch.nn.Module):  # type: ignore[misc]
    """Rounds a weight as a line of a recipe stores it; without a calibration, where that decides."""

    def __init__(self, line: Line) -> None:
        super().__init__()
        self._line = line

    def forward(self, weight: Any) -> Any:
        """Return `weight` rounded to its integers times their scale."""
        return _Rounded.apply(weight, self._line)


class _Rounded(torch.autograd.Function):  # type: ignore[misc]
    @staticmethod
    def forward(ctx: Any, weight: Any, line: Line) -> Any:
        stored, scale = integers(weight, line)
        rows = stored.reshape(len(scale), -1) * scale[:, None]
        return rows.reshape(weight.shape)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return gradients[0], None


def quantize_layers(network: Any, lines: Mapping[str, Line]) -> None:
    """Make these weights of a network, by their names, pass through the integers of their lines."""
    for name, line in lines.items():
        layer, _, weight = name.rpartition(".")
        parametrize.register_parametrization(network.get_submodule(layer), weight, FakeQuantization(line))


def release_layers(network: Any) -> None:
    """Give the layers of a network their own weights back, as they have learnt them."""
    for layer in network.modules():
        if parametrize.is_parametrized(layer, "weight"):
            parametrize.remove_parametrizations(layer, "weight", leave_parametrized=False)


def integers(weight: Any, line: Line) -> tuple[Any, Any]:
    """Return the integers that `line` stores for a weight, as floats of its shape, and float32 scales."""
    rows = weight.detach().float().reshape(len(weight) if line.granularity == "channel" else 1, -1)
    algorithm = PLAIN[line.store] if line.algorithm in COMPENSATED else line.algorithm
    scale = {"min-max": _min_max, "mse": _least_error, "rms": _root_mean_square}[algorithm](rows, line.store)
    return _rounded(rows, scale, line.store).reshape(weight.shape), scale


def _rounded(rows: Any, scale: Any, store: str) -> Any:
    return (rows / scale[..., None]).round().clamp(*RANGES[store])


def _min_max(rows: Any, store: str) -> Any:
    return rows.abs().amax(1).clamp(min=SMALLEST_BOUND) / RANGES[store][1]


def _root_mean_square(rows: Any, store: str) -> Any:
    scale = RMS_STEP[store] * rows.square().mean(1).sqrt()
    return torch.where((scale > 0) & scale.isfinite(), scale, _min_max(rows, store))


def _least_error(rows: Any, store: str) -> Any:
    whole = _min_max(rows, store)
    best, least = whole, torch.full_like(whole, torch.inf)
    count = max(1, AT_ONCE // rows.numel())
    for first in range(0, len(CLIPS), count):
        clipped = [whole * clip for clip in CLIPS[first : first + count].tolist()]
        scales = torch.stack(clipped).clamp(min=SMALLEST_BOUND / RANGES[store][1])
        errors = (_rounded(rows, scales, store) * scales[..., None] - rows).square().sum(-1)
        error, which = errors.min(0)
        best = torch.where(error < least, scales.gather(0, which[None])[0], best)
        least = torch.minimum(error, least)
    return best
