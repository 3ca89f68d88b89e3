"""Runs a model's text encoders: the tokens of prompts to the denoiser's inputs that they feed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from msd.bundle import Bundle
from msd.families import Component, Feed, title_of
from msd.ir.weights import Array
from msd.runtime.execution import NetworksInMemory
from msd.runtime.finite import require_finite
from msd.runtime.prompt import TokenizedPrompt, emphasized

Float = npt.NDArray[np.float32]

Context = Mapping[str, Float]
"""Rows for the denoiser's inputs that encoders compute, by name."""


def encode_prompts(
    bundle: Bundle,
    networks: NetworksInMemory,
    prompts: Sequence[Sequence[TokenizedPrompt]],
    order: Sequence[str],
) -> list[Context]:
    """Return the denoiser's inputs that encoders compute, for the prompts, one for each row, of each image.

    The encoders read one chunk at a time; the chunks of a prompt follow each other along the tokens' axis.
    Each encoder is released after it has run, and the next network in `order` is prefetched meanwhile.
    """
    family = bundle.family
    tokens = [np.concatenate([prompt.tokens for prompt in rows]) for rows in prompts]
    weights = [np.concatenate([prompt.weights for prompt in rows]) for rows in prompts]
    outputs: dict[Feed, list[Float]] = {}
    for encoder in family.encoders:
        if not encoder.optional:
            values = _run_encoder(networks, encoder, tokens, order)
            outputs[Feed(encoder.name, encoder.output)] = [*map(emphasized, values, weights)]
    feeds = family.denoiser.feeds.items()
    return [
        {name: _joined([outputs[feed][i] for feed in sources], len(rows)) for name, sources in feeds}
        for i, rows in enumerate(prompts)
    ]


def _joined(parts: Sequence[Float], rows: int) -> Float:
    """Return encoders' outputs joined along the last axis, the chunks of each of the `rows` in one."""
    joined = np.concatenate(parts, -1)
    return joined.reshape(rows, -1, joined.shape[-1])


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
        values = [
            require_finite(
                network.rows(output, {name: value}).reshape(-1, *shape), f"the output of the {title_of(file)}"
            )
            for value in values
        ]
        networks.release(file)
        name = output
    return values
