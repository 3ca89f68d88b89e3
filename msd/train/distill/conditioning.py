"""What a denoiser takes of prompts and of the images' size, computed as the calls of its family say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch

from msd.models.families.calls import Call, InputSource
from msd.models.families.wiring import Wiring
from msd.run.runtime.numbers import Numbers
from msd.train.pytorch.modules import Call as Encoder

OF_IMAGES = "sizes"
"""The numbers that all steps of an image share."""


@dataclass(frozen=True)
class Conditioning:
    """Prompts as a model's calls read them.

    `tokenizers` are transformers', by name; `encoders` compute the outputs of text encoders, by component,
    and `pixels` are the height and width of images.
    """

    wiring: Wiring
    tokenizers: Mapping[str, Any]
    encoders: Mapping[str, Encoder]
    pixels: tuple[int, int]
    device: str

    def token_ids(self, prompts: Sequence[str]) -> Any:
        """Return the ids of prompts, int64 (N, tokens) on the CPU, one tokenizer's after the other's."""
        return torch.cat([_ids(each, prompts) for each in self.tokenizers.values()], 1)

    def of(self, ids: Any) -> dict[str, Any]:
        """Return the inputs of the denoiser that ids (N, tokens) and the size decide, by name, N rows each.

        What is computed of the empty prompt is zeros where a negative prompt's is.
        """
        with torch.no_grad():
            values = self._values(ids.to(self.device))
        inputs = self.wiring.denoiser.inputs
        found = {
            each.name: torch.cat([values[source.of] for source in each.sources], each.axis)
            for each in inputs
            if all(source.kind == "value" for source in each.sources)
        }
        sizes = {
            each.name: self.numbers(each.sources[0]).repeat(len(ids), 1)
            for each in inputs
            if each.sources[0].kind == "numbers" and each.sources[0].of == OF_IMAGES
        }
        return {**found, **sizes}

    def numbers(self, source: InputSource) -> Any:
        """Return the numbers of a source that all steps share, float32 (1, count)."""
        height, width = self.pixels
        values = Numbers(0, 0, height, width).values(source)
        return torch.from_numpy(values)[None].to(self.device)

    def _values(self, ids: Any) -> dict[str, Any]:
        """Return what the calls of prompts compute, by the names of values."""
        absent, values = (ids == self._empty).all(1), dict[str, Any]()
        for call in self.wiring.of_prompts:
            outputs = self.encoders[call.component]({"tokens": ids[:, self._columns(call)]})
            for output in call.outputs:
                found = outputs[output.tensor]
                if output.zero_if_absent:
                    found = found.masked_fill(absent.view(-1, *[1] * (found.dim() - 1)), 0)
                values[output.value] = found
        return values

    @cached_property
    def _empty(self) -> Any:
        return self.token_ids([""]).to(self.device)

    def _columns(self, call: Call) -> slice:
        """Return the place of a call's tokens among the ids."""
        lengths = {name: tokenizer.model_max_length for name, tokenizer in self.tokenizers.items()}
        names = [*lengths]
        which = names.index(self.wiring.tokenizer_of(call))
        first = sum(lengths[name] for name in names[:which])
        return slice(first, first + lengths[names[which]])


def sinusoids_of(numbers: Any, source: InputSource, width: int) -> Any:
    """Return the sinusoids of numbers (N, count), float32 (N, width), as diffusers' U-Nets make them."""
    from diffusers.models.embeddings import get_timestep_embedding

    each = get_timestep_embedding(
        numbers.reshape(-1),
        width // numbers.shape[1],
        flip_sin_to_cos=source.cosine_first,
        downscale_freq_shift=source.frequency_shift,
    )
    return each.reshape(len(numbers), -1)


def _ids(tokenizer: Any, prompts: Sequence[str]) -> Any:
    length = tokenizer.model_max_length
    ids = tokenizer(list(prompts), padding="max_length", max_length=length, truncation=True)
    return torch.tensor(ids["input_ids"])
