"""Runs the networks that read an image: to latents, sampled where moments are computed, and to features."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from msd.bundle import Bundle
from msd.models.families import title_of
from msd.models.families.calls import Call, Output
from msd.models.families.wiring import LATENTS, MEANS
from msd.run.runtime.arrays import Float
from msd.run.runtime.components import LoadedNetwork
from msd.run.runtime.denoiser import Values, at_cells, joined
from msd.run.runtime.execution import NetworksInMemory
from msd.run.runtime.finite import require_finite
from msd.run.runtime.needs import strength_of, takes_mask
from msd.run.runtime.noise import posterior_noise
from msd.run.runtime.request import Request
from msd.run.runtime.start import pixels_of
from msd.run.runtime.tiles import Tiling, joined_rows

STREAMS = {"image": 1, "masked image": 2}
"""The stream of a seed's noise that latents are sampled with, by the pixels they are of."""


def encode_images(
    bundle: Bundle, networks: NetworksInMemory, requests: Sequence[Request]
) -> list[dict[str, Float]]:
    """Return what the calls of images compute for each request, one row each; releases their networks."""
    found = [dict[str, Float]() for _ in requests]
    calls = bundle.wiring.of_images if any(request.image for request in requests) else ()
    for name in dict.fromkeys(call.component for call in calls):
        networks.prefetch(name)
        networks.prefetch(bundle.wiring.denoiser.component)
        network = networks.take(name)
        for call in (call for call in calls if call.component == name):
            for request, values in zip(requests, found, strict=True):
                if _needs(bundle, call, request):
                    values |= encode_pixels(call, network, pixels_of(request.image), values, request.seed)
        networks.release(name)
    return found


def _needs(bundle: Bundle, call: Call, request: Request) -> bool:
    """Whether a request needs a call: not the start at strength 1, where a network takes the mask."""
    pixels = pixels_of(request.image)
    if any(source.kind == "pixels" and source.of not in pixels for source in call.sources):
        return False
    begins = call is bundle.wiring.initial
    return not (begins and takes_mask(bundle) and strength_of(bundle, request) == 1)


def encode_pixels(
    call: Call, network: LoadedNetwork, pixels: Mapping[str, Float], known: Values, seed: int
) -> dict[str, Float]:
    """Return the values that a call computes of `pixels` (1, height, width, …) and of known values.

    Raises BadBundle for an image of another size than the network's, NotFinite.
    """
    if any(output.kind in (*LATENTS, MEANS) for output in call.outputs):
        outputs = _in_tiles(call, network, pixels)
    else:
        outputs = _at_once(call, network, pixels, known)
    stream = next((STREAMS.get(source.of, 0) for source in call.sources), 0)
    values = dict[str, Float]()
    for output in call.outputs:
        latents = latents_of(outputs[output.tensor], output, seed, stream)
        values[output.value] = require_finite(latents, f"the output of the {title_of(call.component)}")
    return values


def _at_once(
    call: Call, network: LoadedNetwork, pixels: Mapping[str, Float], known: Values
) -> dict[str, Float]:
    """Return each output of a network that reads the image, at the rows and columns of its inputs."""
    inputs = {}
    for each in call.inputs:
        shape = network.shape(each.name)
        parts = [at_cells(pixels[s.of], shape) if s.kind == "pixels" else known[s.of] for s in each.sources]
        inputs[each.name] = joined(parts, each, shape)
    outputs = network.all_rows(inputs)
    return {
        output.tensor: outputs[output.tensor].reshape(1, *network.shape(output.tensor)[1:])
        for output in call.outputs
    }


def _in_tiles(call: Call, network: LoadedNetwork, pixels: Mapping[str, Float]) -> dict[str, Float]:
    """Return each output of a network that encodes the image, in tiles where it takes fewer pixels."""
    (given,) = call.inputs
    image = pixels[given.sources[0].of]
    _, height, width, _ = network.shape(given.name)
    found = {}
    for output in call.outputs:
        shape = network.shape(output.tensor)[1:]
        cell = height // shape[0]

        def run(down: slice, across: slice, cell: int = cell, tensor: str = output.tensor) -> Float:
            part = image[:, down.start * cell :, across.start * cell :][:, :height, :width]
            encoded: Float = network.rows(tensor, {given.name: part}).reshape(network.shape(tensor)[1:])
            return encoded

        rows = joined_rows(image.shape[1] // cell, image.shape[2] // cell, Tiling.of(*shape[:2]), 1, run)
        found[output.tensor] = np.concatenate([*rows])[None]
    return found


def latents_of(encoded: Float, output: Output, seed: int, stream: int) -> Float:
    """Return the latents of an output, float32 (1, rows, columns, channels); another output as it is.

    Of moments, the result is diffusers' vae.encode(image).latent_dist.sample() · scaling_factor with the
    noise of `seed` and `stream` (autoencoders/vae.py, DiagonalGaussianDistribution); of latents, as a tiny
    autoencoder computes them, vae.encode(image).latents · scaling_factor (autoencoders/autoencoder_tiny.py).
    Means are latent_dist.mode().
    """
    if output.kind not in (*LATENTS, MEANS):
        return encoded
    if output.kind == MEANS:
        return np.ascontiguousarray(np.split(encoded, 2, axis=-1)[0])
    if output.kind == "moments":
        mean, log_variance = np.split(encoded, 2, axis=-1)
        encoded = mean + np.exp(log_variance / 2) * posterior_noise(seed, mean.shape, stream)
    latents: Float = np.float32(output.factor) * encoded
    return latents
