"""Runs an autoencoder's encoder: an image to latents, sampled where it computes a distribution."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from msd.runtime.components import LoadedNetwork

Float = npt.NDArray[np.float32]


def encode_image(network: LoadedNetwork, settings: Mapping[str, Any], image: Float, noise: Float) -> Float:
    """Return the latents of `image`, float32 (1, rows, columns, channels), as the denoiser takes them.

    `image` is float32 (1, height, width, 3) in [-1, 1]. `noise` is normal and has the latents' shape.
    `settings` are those of the encoder in the manifest. The result is diffusers'
    vae.encode(image).latent_dist.sample() · scaling_factor with the same noise (autoencoders/vae.py,
    DiagonalGaussianDistribution); of a tiny autoencoder, whose output is called `latent`, it is
    vae.encode(image).latents · scaling_factor, without noise (autoencoders/autoencoder_tiny.py). Raises
    BadBundle for an image of another size than the network's.
    """
    output = network.outputs[0]
    encoded = network.rows(output, {"image": image}).reshape(1, *network.shape(output)[1:])
    if output == "moments":
        mean, log_variance = np.split(encoded, 2, axis=-1)
        encoded = mean + np.exp(log_variance / 2) * noise
    latents: Float = np.float32(settings["scaling_factor"]) * encoded
    return latents
