"""What diffusers and transformers compute of one component of a checkpoint, by itself, in float32."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tests.reference import reference

Array = np.ndarray[Any, Any]
COMPONENTS = ("text_encoder", "text_encoder_2", "unet", "vae_decoder")


def expected(source: Path, component: str, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """Return the original's outputs for `inputs`, by the names of the network's own, NHWC.

    `source` is a diffusers folder of Stable Diffusion or of its XL. Only the component is read.
    """
    folder = {"vae_decoder": "vae"}.get(component, component)
    module = original(component).from_pretrained(source / folder, torch_dtype=torch.float32).eval()
    with torch.no_grad():
        return outputs(module, folder, component, inputs, is_xl=(source / "text_encoder_2").is_dir())


def outputs(
    module: torch.nn.Module, folder: str, component: str, inputs: Mapping[str, Array], is_xl: bool
) -> dict[str, Array]:
    """Return the outputs of a component's module, which `folder` holds."""
    if is_xl and component.startswith("text_encoder"):
        return prompt_states(module, inputs["tokens"])
    if is_xl and component == "unet":
        return {"noise": prediction(module, inputs)}
    name = {"text_encoder": "context", "unet": "noise", "vae_decoder": "image"}[component]
    return {name: reference({folder: module}, component, inputs)}


def original(component: str) -> Any:
    """Return the class of a component."""
    from diffusers import AutoencoderKL, UNet2DConditionModel
    from transformers import CLIPTextModel, CLIPTextModelWithProjection

    kinds = (CLIPTextModel, CLIPTextModelWithProjection, UNet2DConditionModel, AutoencoderKL)
    return dict(zip(COMPONENTS, kinds, strict=True))[component]


def prompt_states(module: torch.nn.Module, tokens: Array) -> dict[str, Array]:
    """Return what StableDiffusionXLPipeline.encode_prompt takes of an encoder."""
    found = module(torch.from_numpy(tokens).long(), output_hidden_states=True)
    states = {"context": found.hidden_states[-2].numpy()}
    return states | ({"text_embeds": found.text_embeds.numpy()} if hasattr(found, "text_embeds") else {})


def prediction(module: torch.nn.Module, inputs: Mapping[str, Array]) -> Array:
    """Return the prediction of a U-Net that is told the sizes of the image."""
    given = {name: torch.from_numpy(inputs[name]) for name in ("text_embeds", "time_ids")}
    latent = torch.from_numpy(inputs["latent"]).permute(0, 3, 1, 2)
    noise = module(
        latent,
        torch.from_numpy(inputs["timestep"]),
        torch.from_numpy(inputs["context"]),
        added_cond_kwargs=given,
    ).sample
    predicted: Array = noise.permute(0, 2, 3, 1).numpy()
    return predicted
