"""The network that runs in every step, with guidance: latents and a step to its output."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from msd.bundle import Bundle
from msd.runtime.components import LoadedNetwork
from msd.runtime.guidance import EMBEDDING, Guidance
from msd.runtime.step import Step
from msd.runtime.text import Context
from msd.runtime.timestep import embed_timestep

Float = npt.NDArray[np.float32]


class Denoiser:
    """The denoiser of a bundle, loaded."""

    def __init__(self, bundle: Bundle, network: LoadedNetwork) -> None:
        self._network, self._output = network, bundle.family.denoiser.output
        self._settings = bundle.manifest.configuration.components[bundle.family.denoiser.name]

    def predict(
        self,
        latent: Float,
        step: Step,
        context: Context,
        guidance: Guidance,
        condition: Float | None = None,
    ) -> Float:
        """Return the guided output for `latent` (N, …) of N images in a step; float32 of the same shape.

        `context` has `guidance.rows` rows for each image, one image's after another's. `condition` (N, …) are
        further channels of the network's input, which no step scales.
        """
        scaled = np.float32(step.scale) * latent
        if condition is not None:
            scaled = np.concatenate([scaled, condition], -1)
        inputs = {"latent": np.repeat(scaled, guidance.rows, 0), **context}
        shared = self._timestep_input(step.timestep)
        if guidance.mode == "embedding":
            shared[EMBEDDING] = guidance.embedding(self._network.shape(EMBEDDING)[-1])
        rows = self._network.rows(self._output, inputs, shared)
        outputs: Float = rows.reshape(-1, *latent.shape[1:])
        return guidance.combine(outputs)

    def _timestep_input(self, timestep: float) -> dict[str, Float]:
        """Return the timestep as this denoiser takes it: a number, or its sinusoidal embedding."""
        if not self._network.takes("timestep_embedding"):
            return {"timestep": np.array(timestep, np.float32)}
        order, shift = self._settings.get("cosine_first", True), self._settings.get("frequency_shift", 0.0)
        width = self._network.shape("timestep_embedding")[-1]
        return {"timestep_embedding": embed_timestep(timestep, width, order, shift)}
