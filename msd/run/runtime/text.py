"""Runs a model's text encoders: the tokens of prompts to the values that later calls take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from msd.bundle import Bundle
from msd.graph.ir.weights import Array
from msd.models.families import title_of
from msd.models.families.calls import Call, Input, Output
from msd.run.runtime.arrays import Float
from msd.run.runtime.components import LoadedNetwork
from msd.run.runtime.denoiser import Values, joined
from msd.run.runtime.execution import NetworksInMemory
from msd.run.runtime.finite import require_finite
from msd.run.runtime.prompt import TokenizedPrompt, emphasized

Prompt = Mapping[str, TokenizedPrompt]
"""One prompt as each tokenizer reads it, by the tokenizer's name."""


def encode_prompts(
    bundle: Bundle,
    networks: NetworksInMemory,
    prompts: Sequence[Sequence[Prompt]],
    order: Sequence[str],
) -> list[Values]:
    """Return what the calls of prompts compute for the prompts, one for each row, of each image.

    The encoders read one chunk at a time; the chunks of a prompt follow each other along the tokens' axis.
    Each encoder is released after it has run; the next network in `order` is prefetched beside it.
    """
    wiring, found = bundle.wiring, [dict[str, Float]() for _ in prompts]
    for call in wiring.of_prompts:
        for name in order[order.index(call.component) :][:2]:
            networks.prefetch(name)
        network = networks.take(call.component)
        for rows, values in zip(prompts, found, strict=True):
            values |= _encode(call, network, rows, values, wiring.tokenizer_of(call))
        networks.release(call.component)
    return [*found]


def _encode(
    call: Call, network: LoadedNetwork, rows: Sequence[Prompt], known: Values, tokenizer: str
) -> dict[str, Float]:
    """Return the values that a call computes for the rows of one image."""
    inputs = {each.name: _input(each, network, rows, known) for each in call.inputs}
    outputs = network.all_rows(inputs)
    shaped = {
        output: require_finite(
            outputs[output.tensor].reshape(-1, *network.shape(output.tensor)[1:]),
            f"the output of the {title_of(call.component)}",
        )
        for output in call.outputs
    }
    read = [row[tokenizer] for row in rows]
    return {o.value: _passed_on(o, result, read) for o, result in shaped.items()}


def _input(into: Input, network: LoadedNetwork, rows: Sequence[Prompt], known: Values) -> Array:
    parts = [
        np.concatenate([row[source.of].tokens for row in rows])
        if source.kind == "tokens"
        else known[source.of]
        for source in into.sources
    ]
    return joined(parts, into, network.shape(into.name))


def _passed_on(output: Output, result: Float, rows: Sequence[TokenizedPrompt]) -> Float:
    """Return what later calls take of the chunks' results, as the kind of the output says."""
    if output.kind == "hidden states":
        weights = np.concatenate([row.weights for row in rows])
        result = emphasized(result, weights).reshape(len(rows), -1, result.shape[-1])
    if output.kind == "vector":
        result = result.reshape(len(rows), -1, result.shape[-1])[:, 0]
    if output.zero_if_absent:
        there = np.array([not row.absent for row in rows], np.float32)
        result = result * there.reshape(-1, *[1] * (result.ndim - 1))
    return result
