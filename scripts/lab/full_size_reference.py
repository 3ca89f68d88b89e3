"""What diffusers and transformers compute of one component of a checkpoint, by itself, in float32."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from msd.train.pytorch.modules import library_class
from scripts.make_random_checkpoint import FOLDERS
from tests.reference import reference

Array = np.ndarray[Any, Any]


def expected(source: Path, component: str, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """Return the original's outputs for `inputs`, by the names of the network's own, NHWC.

    `source` is a diffusers folder of Stable Diffusion or of its XL. Only the component is read.
    """
    folder = {"vae_decoder": "vae"}.get(component, component)
    *_, kind = FOLDERS[folder]
    module = library_class(kind).from_pretrained(source / folder, torch_dtype=torch.float32).eval()
    if component.startswith("text_encoder") and (source / "text_encoder_2").is_dir():
        return prompt_states(module, inputs["tokens"])
    name = {"text_encoder": "context", "unet": "noise", "vae_decoder": "image"}[component]
    return {name: reference({folder: module}, component, inputs)}


def prompt_states(module: torch.nn.Module, tokens: Array) -> dict[str, Array]:
    """Return what StableDiffusionXLPipeline.encode_prompt takes of an encoder."""
    with torch.no_grad():
        found = module(torch.from_numpy(tokens).long(), output_hidden_states=True)
    states = {"context": found.hidden_states[-2].numpy()}
    return states | ({"text_embeds": found.text_embeds.numpy()} if hasattr(found, "text_embeds") else {})
