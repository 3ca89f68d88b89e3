"""Where the training of int4 weights begins: integers whose errors make up for each other.

It is the rounding of a calibration (msd/compress/rounding), on points of the trajectories. Training that
begins there ends nearer to the whole network than one from the nearest integers (docs/distill.md).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import torch

from msd.compress.encoding.recipe import Line
from msd.compress.pruning.layer import some_positions
from msd.compress.rounding.compensate import Rounded
from msd.compress.rounding.moments import SAMPLES, Moments, batches, moment_bytes
from msd.compress.rounding.rounding import OnLayer
from msd.train.distill.fake_quantization import keeps_scale
from msd.train.distill.refit import Pass, array_of, hooked, rows_of

CELL = 0.49
"""How far, in steps, a weight may be from its integer at first: it rounds to it, and keeps what it was."""


def compensate_layers(
    network: Any,
    lines: Mapping[str, Line],
    run: Pass,
    runs: int,
    on_layer: OnLayer = lambda done, total: None,
) -> dict[str, Any]:
    """Move weights to where they round to integers whose errors compensate; return their scales by name.

    These are the weights of `lines` that keep a scale in training. A layer's bias gets its mean error. All
    layers are rounded on what they read in `runs` passes of the network as it is.
    """
    layers = {n: network.get_submodule(n.removesuffix(".weight")) for n in lines if keeps_scale(lines[n])}
    rounded, each = dict[str, Rounded](), math.ceil(SAMPLES / runs)
    for batch in batches({name: moment_bytes(1, _inputs(layer)) for name, layer in layers.items()}):
        moments = {name: Moments(1, _inputs(layers[name])) for name in batch}
        for number in range(runs):
            observers = {
                name.removesuffix(".weight"): partial(_observe, sums, each, number)
                for name, sums in moments.items()
            }
            with torch.no_grad(), hooked(network, observers):
                run(network, number)
        for name in batch:
            weights, takes_mean = array_of(layers[name].weight), layers[name].bias is not None
            rounded[name] = moments.pop(name).rounded(weights, lines[name], takes_mean)
            on_layer(len(rounded), len(layers))
    return {name: _move(layers[name], found) for name, found in rounded.items()}


def _inputs(layer: Any) -> int:
    return int(layer.weight[0].numel())


def _observe(sums: Moments, most: int, number: int, layer: Any, inputs: Any, output: Any) -> None:
    rows = rows_of(layer, inputs[0])
    sums.add(array_of(rows[torch.from_numpy(some_positions(len(rows), most, number)).to(rows.device)]))


def _move(layer: Any, rounded: Rounded) -> Any:
    """Move a layer's weights into the cells of their integers; return the scale on its device."""
    step = np.broadcast_to(rounded.scale, len(rounded.stored))[:, None]
    weights = array_of(layer.weight).reshape(len(layer.weight), -1)
    near = np.clip(weights, rounded.values - CELL * step, rounded.values + CELL * step)
    with torch.no_grad():
        layer.weight.copy_(torch.from_numpy(near).reshape(layer.weight.shape))
        if layer.bias is not None:
            layer.bias += torch.from_numpy(rounded.mean).to(layer.bias)
    return torch.from_numpy(np.array(rounded.scale)).to(layer.weight.device)
