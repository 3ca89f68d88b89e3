"""The files of the tiny autoencoder TAESD: its author's own, and what diffusers wrote.

madebyollin/taesd has taesd_encoder and taesd_decoder, each a torch Sequential: layer N is "N.weight" for a
convolution and "N.conv.0.weight" … for a residual block. The decoder's first layer, which clamps, has no
weights, and diffusers does not count it. Files with both halves have the prefixes "encoder." and "decoder.",
or, as ComfyUI writes them, "taesd_encoder." and "taesd_decoder.".
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

from msd.conversion.sources.compvis.part import NetworkTensors
from msd.conversion.sources.two_names import by_new_names
from msd.graph.ir.weights import Weights

ORIGINAL = re.compile(
    r"((taesd_)?(?P<half>encoder|decoder)\.)?(?P<layer>\d{1,4})\.(?P<rest>(conv\.\d\.)?(weight|bias))"
)
CLAMPS = {"encoder": 0, "decoder": 1}
"""The layers before the first that diffusers counts."""

LAYER = re.compile(r"(encoder|decoder)\.layers\.(\d+)\.((conv\.[024]\.)?(weight|bias))")
CHANNELS = {"decoder": ("latent_channels", "out_channels"), "encoder": ("in_channels", "latent_channels")}
"""The settings of the channels at the two ends of each half."""


def is_tiny(tensors: Mapping[str, Weights]) -> bool:
    """Whether the names of all tensors are those of a tiny autoencoder, by its author or by diffusers."""
    return bool(tensors) and all(LAYER.fullmatch(name) for _, name, _ in _renamed(tensors))


def named_by_diffusers(where: str, tensors: Mapping[str, Weights]) -> dict[str, Weights]:
    """Return the tensors under diffusers' names; those that the author's files do not have stay unchanged.

    Raises BadCheckpoint, naming the file `where`, for a tensor under two names with two values.
    """
    return by_new_names(where, _renamed(tensors))


def _renamed(tensors: Mapping[str, Weights]) -> Iterator[tuple[str, str, Weights]]:
    """Yield each tensor's name, diffusers' name, and the tensor."""
    alone = "encoder" if "0.weight" in tensors else "decoder"
    for name, tensor in tensors.items():
        match = ORIGINAL.fullmatch(name)
        yield name, _layer_name(match, alone) if match else name, tensor


def _layer_name(match: re.Match[str], alone: str) -> str:
    """Return diffusers' name of a layer of the half that its prefix names, or of the half `alone`."""
    half = match["half"] or alone
    return f"{half}.layers.{int(match['layer']) - CLAMPS[half]}.{match['rest']}"


def tiny_settings(where: str, tensors: Mapping[str, Weights]) -> dict[str, Any]:
    """Return the settings in diffusers' config.json of the tensors, which have diffusers' names.

    Raises BadCheckpoint, naming the file `where`, for layers that lack tensors.
    """
    part = NetworkTensors(where, "", tensors)
    halves = [half for half in ("encoder", "decoder") if part.has(half)]
    known: dict[str, Any] = {"_class_name": "AutoencoderTiny"}
    for half in halves:
        known |= _half(part, half)
    return known


def _half(part: NetworkTensors, half: str) -> dict[str, Any]:
    """Return the settings of one half: both have their blocks between convolutions."""
    layers = [match for name in part.tensors if (match := LAYER.fullmatch(name)) and match[1] == half]
    blocks = {int(match[2]) for match in layers if match[4]}
    convs = sorted({0} | {int(match[2]) for match in layers if not match[4]})
    first, last = (part.shape(f"{half}.layers.{n}.weight", 4) for n in (convs[0], convs[-1]))
    levels = [sum(one < n < other for n in blocks) for one, other in pairwise(convs)]
    begin, end = CHANNELS[half]
    return {
        begin: first[1],
        end: last[0],
        f"num_{half}_blocks": levels,
        f"{half}_block_out_channels": [first[0]] * len(levels),
    }
