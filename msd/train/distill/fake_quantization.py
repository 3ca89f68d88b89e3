"""Weights that pass through integers on their way into a layer, so that a network learns to bear them.

The integers are those of msd/compress/encoding/quantize.py; the gradient passes as if nothing had been
rounded (the straight-through estimator: Bengio et al. 2013, arXiv 1308.3432; for integers of networks Jacob
et al. 2017, arXiv 1712.05877).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch.nn.utils import parametrize

from msd.compress.encoding.quantize import CLIPS, RANGES, RMS_STEP, SMALLEST_BOUND, plain_algorithm
from msd.compress.encoding.recipe import Line
from msd.train.distill.swings import Swings

AT_ONCE = 1 << 24
"""The numbers, 64 MB, up to which several clips are tried at once; a GPU idles where each is tried alone."""

HALF_STEP = 0.5001
"""How far, in steps, a weight can be from its integer if it is not clipped; a little more for rounding."""


class FakeQuantization(torch.nn.Module):  # type: ignore[misc]
    """Rounds a weight as a line of a recipe stores it; without a calibration, where that decides.

    `scale` stays what it is at first; None: it follows the weights. `swings` holds integers still.
    """

    def __init__(self, line: Line, scale: Any = None, swings: Swings | None = None) -> None:
        super().__init__()
        self._line = line
        self.register_buffer("scale", scale)
        self.swings = swings

    def forward(self, weight: Any) -> Any:
        """Return `weight` rounded to its integers times their scale."""
        return _Rounded.apply(weight, self._line, self.scale, self.swings)

    def settle(self, weight: Any) -> None:
        """Count how the integers of `weight` swing, after an update."""
        if self.swings is not None:
            self.swings.add(integers(weight, self._line, self.scale)[0])


class _Rounded(torch.autograd.Function):  # type: ignore[misc]
    """Rounding whose gradient passes, but for weights that are held or clipped: no scale follows them."""

    @staticmethod
    def forward(ctx: Any, weight: Any, line: Line, kept: Any, swings: Swings | None) -> Any:
        stored, scale = integers(weight, line, kept)
        if swings is not None:
            stored = swings.hold(stored)
        rounded = (stored.reshape(len(scale), -1) * scale[:, None]).reshape(weight.shape)
        ctx.clips = kept is not None
        if ctx.clips:
            half = _of_rows(scale, weight) * HALF_STEP
            moves = (weight - rounded).abs() <= half
            ctx.save_for_backward(moves if swings is None else moves & ~swings.is_held)
        return rounded

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        gradient = gradients[0]
        passed = torch.where(*ctx.saved_tensors, gradient, 0) if ctx.clips else gradient
        return passed, None, None, None


def keeps_scale(line: Line) -> bool:
    """Whether the scale of a weight in training stays: where it is searched, and found again afterwards.

    A search in every update would let all integers of a row jump as one weight moves.
    """
    return line.store == "int4" and plain_algorithm(line.store, line.algorithm) == "mse"


def quantize_layers(
    network: Any,
    lines: Mapping[str, Line],
    scales: Mapping[str, Any] | None = None,
    updates: int | None = None,
) -> None:
    """Make these weights of a network, by their names, pass through the integers of their lines.

    `scales` are those to keep, where they are not what the line finds for the weights as they are. In a
    training of so many `updates`, integers with such scales are held still where they swing.
    """
    for name, line in lines.items():
        layer, _, weight = name.rpartition(".")
        scale, swings = (scales or {}).get(name), None
        if keeps_scale(line):
            stored, scale = integers(network.get_parameter(name), line, scale)
            swings = Swings(stored, updates) if updates else None
        fake = FakeQuantization(line, scale, swings)
        parametrize.register_parametrization(network.get_submodule(layer), weight, fake)


def settle_layers(network: Any) -> None:
    """Hold integers of a network still that swing, after each update of its weights."""
    with torch.no_grad():
        for layer, fake in _fakes(network):
            fake.settle(layer.parametrizations.weight.original)


def release_layers(network: Any) -> None:
    """Give the layers of a network their own weights back, as they have learnt them.

    Those whose scale was kept get what they were rounded to, from which the encoder knows it.
    """
    for layer, fake in [*_fakes(network)]:
        parametrize.remove_parametrizations(layer, "weight", leave_parametrized=fake.scale is not None)


def _fakes(network: Any) -> Iterator[tuple[Any, FakeQuantization]]:
    for layer in network.modules():
        if parametrize.is_parametrized(layer, "weight"):
            yield layer, layer.parametrizations.weight[0]


def integers(weight: Any, line: Line, scale: Any = None) -> tuple[Any, Any]:
    """Return the integers that `line` stores for a weight, as floats of its shape, and float32 scales.

    `scale` is the one to take; None: the line's algorithm finds it.
    """
    rows = weight.detach().float().reshape(len(weight) if line.granularity == "channel" else 1, -1)
    if scale is None:
        scale = ALGORITHMS[plain_algorithm(line.store, line.algorithm)](rows, line.store)
    return _rounded(rows, scale, line.store).reshape(weight.shape), scale


def _of_rows(scale: Any, weight: Any) -> Any:
    return scale.reshape(-1, *[1] * (weight.dim() - 1))


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


ALGORITHMS = {"min-max": _min_max, "mse": _least_error, "rms": _root_mean_square}
