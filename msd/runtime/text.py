"""Runs a model's text encoders: the tokens of prompts to the denoiser's inputs that they feed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from msd.bundle import Bundle
from msd.families import Component, Feed
from msd.ir.weights import Array
from msd.runtime.execution import NetworksInMemory

Float = npt.NDArray[np.float32]

Context = Mapping[str, Float]
"""Rows for the denoiser's inputs that encoders compute, by name."""


def encode_tokens(
    bundle: Bundle, networks: NetworksInMemory, tokens: Sequence[Array], order: Sequence[str]
) -> list[Context]:
    """Return the denoiser's inputs that encoders compute, for each of `tokens`, int32 (rows, length).

    Each encoder is released after it has run, and the next network in `order` is prefetched meanwhile.
    """
    family = bundle.family
    outputs: dict[Feed, list[Float]] = {}
    for encoder in family.encoders:
        if not encoder.optional:
            outputs[Feed(encoder.name, encoder.output)] = _run_encoder(networks, encoder, tokens, order)
    feeds = family.denoiser.feeds.items()
    return [
        {name: np.concatenate([outputs[feed][i] for feed in sources], -1) for name, sources in feeds}
        for i in range(len(tokens))
    ]


def _run_encoder(
    networks: NetworksInMemory, encoder: Component, tokens: Sequence[Array], order: Sequence[str]
) -> list[Float]:
    """Return an encoder's output for each of `tokens`, whose rows a separate file may look up first."""
    name, values = "tokens", list(tokens)
    for file in filter(order.__contains__, encoder.files):
        network = networks.take(file)
        networks.prefetch(order[order.index(file) + 1])
        output = encoder.output if file == encoder.name else network.outputs[0]
        shape = network.shape(output)[1:]
        values = [network.rows(output, {name: value}).reshape(-1, *shape) for value in values]
        networks.release(file)
        name = output
    return values
