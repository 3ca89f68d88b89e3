"""The networks that run in every step, with guidance: latents and a step to the prediction."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import repeat

import numpy as np

from msd.bundle import Bundle
from msd.models.families.calls import Call, Input, InputSource
from msd.run.runtime.arrays import Float
from msd.run.runtime.components import LoadedNetwork
from msd.run.runtime.control import NO_CONTROLS, StepControls
from msd.run.runtime.guidance import Guidance
from msd.run.runtime.numbers import Numbers
from msd.run.runtime.step import Step

Values = Mapping[str, Float]
"""What calls have computed, by the names of values; rows first."""

COUNTED = ("numbers", "sinusoids")


class Denoiser:
    """The calls of every step of a bundle, with their networks loaded; the last of them predicts."""

    def __init__(self, bundle: Bundle, networks: Mapping[str, LoadedNetwork]) -> None:
        self._wiring, self._networks = bundle.wiring, networks
        configuration = bundle.manifest.configuration
        self._size = configuration.height, configuration.width

    def predict(
        self,
        latent: Float,
        step: Step,
        values: Values,
        guidance: Guidance,
        pixels: Values | None = None,
        controls: StepControls | None = None,
    ) -> Float:
        """Return the guided prediction for `latent` (N, …) of N images in a step; float32 of the same shape.

        `values` have `guidance.rows` rows for each image, one image's after another's. `pixels` are (N, …),
        by the names that sources have for them, and `controls` what steers in this step.
        """
        controls = controls or NO_CONTROLS.at(0, 1)
        known, numbers = dict(values), Numbers(step.timestep, guidance.number, *self._size)
        for call in self._wiring.steps_with(controls.hints):
            given = _Given(latent, step, known, pixels or {}, guidance.rows, numbers, controls)
            known |= self._run(call, given)
        name = next(o.value for o in self._wiring.denoiser.outputs if o.kind == "prediction")
        outputs: Float = known[name].reshape(-1, *latent.shape[1:])
        return guidance.combine(outputs)

    def _run(self, call: Call, given: _Given) -> Values:
        network = self._networks[call.component]
        rows, shared = dict[str, Float](), dict[str, Float]()
        for each in call.inputs:
            shape = network.shape(each.name)
            if all(source.kind in COUNTED for source in each.sources):
                width = shape[-1] // len(each.sources) if shape else 1
                shared[each.name] = np.concatenate([given.numbers.input(s, width) for s in each.sources])
            elif each.summed:
                rows[each.name] = given.summed(each.sources, shape)
            else:
                rows[each.name] = joined([given.rows(source, shape) for source in each.sources], each, shape)
        if call.control:
            scales = next(each.name for each in call.inputs if each.sources[0].kind == "scales")
            outputs = _steered(network, rows, shared, scales)
        else:
            outputs = network.all_rows(rows, shared)
        return {output.value: outputs[output.tensor] for output in call.outputs if output.tensor in outputs}


def _steered(network: LoadedNetwork, rows: Values, shared: Values, scales: str) -> dict[str, Float]:
    """Return each output of a ControlNet, zeros for rows whose `scales` are all 0; {} where all rows' are."""
    counting = rows[scales].any(axis=1)
    if not counting.any():
        return {}
    outputs = network.all_rows({name: value[counting] for name, value in rows.items()}, shared)
    spread = {
        name: np.zeros((len(counting), *found.shape[1:]), np.float32) for name, found in outputs.items()
    }
    for name, found in outputs.items():
        spread[name][counting] = found
    return spread


class _Given:
    """What the inputs of a call can be made of in one step."""

    def __init__(
        self,
        latent: Float,
        step: Step,
        values: Values,
        pixels: Values,
        rows: int,
        numbers: Numbers,
        controls: StepControls,
    ) -> None:
        self._latent, self._step, self._values, self._pixels = latent, step, values, pixels
        self._rows, self.numbers, self._controls = rows, numbers, controls

    def rows(self, source: InputSource, shape: Sequence[int]) -> Float:
        """Return a source's rows for an input of that shape."""
        if source.kind == "latent":
            scaled = np.float32(self._step.scale) * self._latent if source.scaled else self._latent
            return np.repeat(scaled, self._rows, 0)
        if source.kind == "pixels":
            return np.repeat(at_cells(self._pixels[source.of], shape), self._rows, 0)
        if source.kind == "hint":
            return self._hint(source.of, shape)
        if source.kind == "scales":
            return self._controls.scales(source.of, len(self._latent), self._rows, shape[-1])
        if source.kind == "value":
            return self._values[source.of]
        count = self._rows * len(self._latent)
        return np.stack([*repeat(self.numbers.input(source, shape[-1]), count)])

    def _hint(self, name: str, shape: Sequence[int]) -> Float:
        """Return the rows of a ControlNet's picture; without one, zeros for a ControlNet that runs anyway."""
        hints = self._controls.hints
        if name not in hints:
            return np.zeros((self._rows * len(self._latent), *shape[1:]), np.float32)
        return np.repeat(hints[name], self._rows, 0)

    def summed(self, sources: Sequence[InputSource], shape: Sequence[int]) -> Float:
        """Return the sum of those values that have been computed, for an input of that shape."""
        total = np.zeros((self._rows * len(self._latent), math.prod(shape[1:])), np.float32)
        for source in sources:
            if source.of in self._values:
                total += self._values[source.of]
        return total


def at_cells(pixels: Float, shape: Sequence[int]) -> Float:
    """Return the pixel at the top left of each of the rows and columns of NHWC `shape`, contiguous."""
    down, across = (max(1, pixels.shape[axis] // shape[axis]) for axis in (1, 2))
    return np.ascontiguousarray(pixels[:, ::down, ::across])


def joined(parts: Sequence[Float], into: Input, shape: Sequence[int]) -> Float:
    """Return parts (rows, …) joined along the axis of the input that they are for, of that shape."""
    if len(parts) == 1:
        return parts[0]
    axis = into.axis % len(shape)
    outer, inner = tuple(shape[1:axis]), tuple(shape[axis + 1 :])
    return np.concatenate([part.reshape(len(part), *outer, -1, *inner) for part in parts], axis)
