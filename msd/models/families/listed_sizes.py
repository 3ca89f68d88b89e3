"""The sizes that a manifest gives beside its files: those that the files have."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol

from msd.models.families.calls import Call
from msd.models.families.family import Family
from msd.models.families.wiring import Ported
from msd.tensor_spec import TensorSpec


class Sized(Protocol):
    """A manifest's configuration."""

    @property
    def height(self) -> int:
        """The rows of an image."""

    @property
    def width(self) -> int:
        """The columns of an image."""

    @property
    def prompt_chunks(self) -> int:
        """The number of outputs of the text encoder that the denoiser takes."""

    @property
    def interface(self) -> str:
        """The program whose ports the files have, "" for msd."""


def require_listed_sizes(
    family: Family, files: Mapping[str, Ported], calls: Collection[Call], listed: Sized
) -> None:
    """Raise ValueError, with a clause, for other sizes than `files` have; those for other programs pass."""
    if not listed.interface:
        _require_image_size(family, files, listed)
        _require_prompt_chunks(calls, files, listed.prompt_chunks)


def _require_image_size(family: Family, files: Mapping[str, Ported], listed: Sized) -> None:
    """Raise ValueError, with a clause, for another size of images than the networks have together.

    That is the latents' times what the decoder enlarges each cell by: it may decode tiles alone.
    """
    denoiser, decoder = files.get(family.denoiser.name), files.get(family.decoder.name)
    if not denoiser or not decoder:
        return
    latents, cells, pixels = map(_image_like, (denoiser.outputs, decoder.inputs, decoder.outputs))
    if not latents or not cells or not pixels:
        return
    for axis, name, said in (1, "height", listed.height), (2, "width", listed.width):
        if (found := latents.shape[axis] * pixels.shape[axis] // cells.shape[axis]) != said:
            raise ValueError(
                f"its configuration's {name} is {said}, and the networks that it lists make images of {found}"
            )


def _require_prompt_chunks(calls: Collection[Call], files: Mapping[str, Ported], chunks: int) -> None:
    """Raise ValueError, with a clause, for another number of prompts' chunks than a network takes."""
    lengths = {
        output.value: spec.shape[1]
        for call in calls
        for output in call.outputs
        for spec in files[call.component].outputs
        if output.kind == "hidden states" and spec.name == output.tensor and len(spec.shape) == 3
    }
    for call in calls:
        for given in call.inputs:
            length = next(
                (lengths[s.of] for s in given.sources if s.kind == "value" and s.of in lengths), None
            )
            takes = next((s.shape for s in files[call.component].inputs if s.name == given.name), ())
            if length and len(takes) == 3 and takes[1] != chunks * length:
                raise ValueError(
                    f"its configuration's prompt_chunks is {chunks}, and {call.component} takes {takes[1]}"
                    f" tokens as {given.name!r}: {takes[1] / length:g} times {length}"
                )


def _image_like(specs: Collection[TensorSpec]) -> TensorSpec | None:
    """Return the first tensor of rows and columns."""
    return next((spec for spec in specs if len(spec.shape) == 4), None)
