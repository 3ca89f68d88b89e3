"""The networks of a checkpoint as PyTorch modules: diffusers' U-Net and autoencoders, transformers' CLIP.

Our own readers read the weights: every checkpoint in diffusers' layout that msd-convert takes is read here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch

from msd.conversion.sources.checkpoint import Checkpoint
from msd.errors import BadCheckpoint
from msd.graph.ir.weights import Array, Weights
from msd.models.families.stable_diffusion import GUIDANCE, TEXT_ENCODER, UNET, VAE_DECODER
from msd.train.pytorch.narrowing import narrowing_of

Tensors = Mapping[str, Any]
"""PyTorch's tensors by name."""

Call = Callable[[Tensors], Any]
"""Returns a network's output for its inputs, in the layout of converted files: channels last."""

PREFIX = "text_model."
"""Of CLIP's tensors in some versions of transformers, which `Checkpoint.weights` leave out."""

UNUSED = "encoder.", "quant_conv."
"""Of an autoencoder's tensors, where only its decoder runs."""


def network_call(checkpoint: Checkpoint, name: str, config: Mapping[str, Any], device: str) -> Call:
    """Return the component `name` in float32 on a device, as the function that its converted file computes.

    `config` is its parsed config.json. Raises BadCheckpoint for weights that are not this network's.
    """
    module = MODULES[name](checkpoint.weights[name], config)
    if name in checkpoint.pruned:
        module = narrowing_of(checkpoint, name).narrow(module)
    module = module.requires_grad_(False).eval().to(device)
    return partial(CALLS[name], module)


def text_encoder(weights: Mapping[str, Weights], config: Mapping[str, Any]) -> Any:
    """Return transformers' CLIPTextModel with these weights; raises BadCheckpoint."""
    from transformers import CLIPTextConfig, CLIPTextModel

    network = CLIPTextModel(CLIPTextConfig.from_dict(dict(config)))
    own = network.state_dict()
    named = {name if name in own else PREFIX + name: tensor for name, tensor in weights.items()}
    return _filled(network, named, optional=("embeddings.position_ids", f"{PREFIX}embeddings.position_ids"))


def unet(weights: Mapping[str, Weights], config: Mapping[str, Any]) -> Any:
    """Return diffusers' UNet2DConditionModel with these weights; raises BadCheckpoint."""
    import diffusers

    return _filled(diffusers.UNet2DConditionModel.from_config(dict(config)), weights)


def autoencoder(weights: Mapping[str, Weights], config: Mapping[str, Any]) -> Any:
    """Return diffusers' AutoencoderKL or AutoencoderTiny with the weights of its decoder; BadCheckpoint."""
    import diffusers

    tiny = config.get("_class_name") == "AutoencoderTiny"
    kind = diffusers.AutoencoderTiny if tiny else diffusers.AutoencoderKL
    return _filled(kind.from_config(dict(config)), weights, optional=UNUSED)


def _filled(network: Any, weights: Mapping[str, Weights], optional: tuple[str, ...] = ()) -> Any:
    """Return the network with these weights; only tensors that begin as `optional` ones may be missing."""
    state = {name: torch.from_numpy(_float(tensor.load())) for name, tensor in weights.items()}
    try:
        missing, unknown = network.load_state_dict(state, strict=False)
    except RuntimeError as problem:
        raise BadCheckpoint(f"weights do not fit {type(network).__name__}: {problem}") from problem
    missing = [name for name in missing if not name.startswith(optional or "\0")]
    if missing or unknown:
        raise BadCheckpoint(
            f"{type(network).__name__} lacks the tensors {missing[:3]} and does not know {unknown[:3]}"
        )
    return network


def _float(values: Array) -> Array:
    """Return float32 that may be written to, as PyTorch asks."""
    return values.astype("float32", copy=True)


def _encode(module: Any, inputs: Tensors) -> Any:
    return module(inputs["tokens"])[0]


def _denoise(module: Any, inputs: Tensors) -> Any:
    output = module(
        _channels_first(inputs["latent"]),
        inputs["timestep"],
        inputs["context"],
        timestep_cond=inputs.get(GUIDANCE),
        return_dict=False,
    )[0]
    return _channels_last(output)


def _decode(module: Any, inputs: Tensors) -> Any:
    latent = _channels_first(inputs["latent"]) / module.config.scaling_factor
    return _channels_last(module.decode(latent, return_dict=False)[0])


def _channels_first(values: Any) -> Any:
    return values.permute(0, 3, 1, 2).contiguous()


def _channels_last(values: Any) -> Any:
    return values.permute(0, 2, 3, 1)


MODULES: dict[str, Callable[[Mapping[str, Weights], Mapping[str, Any]], Any]] = {
    TEXT_ENCODER.name: text_encoder,
    UNET.name: unet,
    VAE_DECODER.name: autoencoder,
}
CALLS: dict[str, Callable[[Any, Tensors], Any]] = {
    TEXT_ENCODER.name: _encode,
    UNET.name: _denoise,
    VAE_DECODER.name: _decode,
}
