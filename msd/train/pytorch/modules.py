"""The networks of a checkpoint as PyTorch modules: diffusers' U-Net and autoencoders, transformers' CLIP.

Our own readers read the weights: every checkpoint in diffusers' layout that msd-convert takes is read here.
What kind of network a component is, its configuration says.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from threading import Lock
from typing import Any

import torch

from msd.conversion.sources.checkpoint import Checkpoint
from msd.errors import BadCheckpoint
from msd.files.packages import without_late_triton
from msd.graph.ir.weights import Array, Weights
from msd.models.config import TextEncoderConfig, UNetConfig
from msd.models.families.stable_diffusion import GUIDANCE
from msd.models.sdxl_text_config import FirstEncoderConfig, SecondEncoderConfig
from msd.models.tiny_config import TinyDecoderConfig
from msd.models.vae_config import VaeDecoderConfig
from msd.train.pytorch.narrowing import narrowing_of

Tensors = Mapping[str, Any]
"""PyTorch's tensors by name."""

Call = Callable[[Tensors], Tensors]
"""Returns a network's outputs for its inputs, in the layout of converted files: channels last."""

PREFIX = "text_model."
"""Of CLIP's tensors in some versions of transformers, which `Checkpoint.weights` leave out."""

UNUSED = "encoder.", "quant_conv."
"""Of an autoencoder's tensors, where only its decoder runs."""

CLASSES = {
    "diffusers": ("AutoencoderKL", "AutoencoderTiny", "UNet2DConditionModel"),
    "transformers": ("CLIPTextConfig", "CLIPTextModel", "CLIPTextModelWithProjection"),
}
"""The classes that are used, by library."""

IMPORTING = Lock()

ADDED = "text_embeds", "time_ids"
"""The inputs of a U-Net that diffusers takes as `added_cond_kwargs`."""


@dataclass(frozen=True)
class NetworkKind:
    """A kind of network: what makes the module of weights and config.json, and what calls it."""

    module: Callable[[Mapping[str, Weights], Mapping[str, Any]], Any]
    call: Callable[[Any, Tensors], Tensors]


def kind_of(config: Any) -> NetworkKind:
    """Return the kind of a network by its configuration (msd.models)."""
    return next(KINDS[each] for each in type(config).__mro__ if each in KINDS)


def network_call(checkpoint: Checkpoint, name: str, config: Mapping[str, Any], device: str) -> Call:
    """Return the component `name` in float32 on a device, as the function that its converted file computes.

    `config` is its parsed config.json. Raises BadCheckpoint for weights that are not this network's.
    """
    kind = kind_of(checkpoint.configs[name])
    module = kind.module(checkpoint.weights[name], config)
    if name in checkpoint.pruned:
        module = narrowing_of(checkpoint, name).narrow(module)
    return partial(kind.call, module.requires_grad_(False).eval().to(device))


def library_class(name: str) -> Any:
    """Return one of the classes in `CLASSES`; the first thread imports all, and others wait for it.

    Both libraries import their parts when these are first asked for, diffusers with parts of transformers:
    where two threads do so at once, one finds a module of the other's without all that is in it.
    """
    with IMPORTING, without_late_triton():
        libraries = {library: import_module(library) for library in CLASSES}
        found = {each: getattr(libraries[library], each) for library in CLASSES for each in CLASSES[library]}
    return found[name]


def text_encoder(weights: Mapping[str, Weights], config: Mapping[str, Any]) -> Any:
    """Return transformers' CLIPTextModel with these weights; raises BadCheckpoint."""
    return _clip(library_class("CLIPTextModel")(_clip_config(config)), weights)


def projected_text_encoder(weights: Mapping[str, Weights], config: Mapping[str, Any]) -> Any:
    """Return transformers' CLIPTextModelWithProjection with these weights; raises BadCheckpoint."""
    kind = library_class("CLIPTextModelWithProjection")
    return _clip(kind(_clip_config(config)), weights)


def _clip_config(config: Mapping[str, Any]) -> Any:
    """Return transformers' CLIPTextConfig without a precision.

    For a precision transformers changes PyTorch's default while it makes parts of a network, and then a
    network that another thread is making has it too.
    """
    precision = "dtype", "torch_dtype"
    settings = {key: each for key, each in config.items() if key not in precision}
    return library_class("CLIPTextConfig").from_dict(settings)


def _clip(network: Any, weights: Mapping[str, Weights]) -> Any:
    own = network.state_dict()
    named = {name if name in own else PREFIX + name: tensor for name, tensor in weights.items()}
    return _filled(network, named, optional=("embeddings.position_ids", f"{PREFIX}embeddings.position_ids"))


def unet(weights: Mapping[str, Weights], config: Mapping[str, Any]) -> Any:
    """Return diffusers' UNet2DConditionModel with these weights; raises BadCheckpoint."""
    kind = library_class("UNet2DConditionModel")
    return _filled(kind.from_config(dict(config)), weights)


def autoencoder(weights: Mapping[str, Weights], config: Mapping[str, Any]) -> Any:
    """Return diffusers' AutoencoderKL or AutoencoderTiny with the weights of its decoder; BadCheckpoint."""
    tiny = config.get("_class_name") == "AutoencoderTiny"
    kind = library_class("AutoencoderTiny" if tiny else "AutoencoderKL")
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


def _encode(module: Any, inputs: Tensors) -> Tensors:
    return {"context": module(inputs["tokens"])[0]}


def _encode_first(module: Any, inputs: Tensors) -> Tensors:
    states = module(inputs["tokens"], output_hidden_states=True).hidden_states
    return {"context": states[-2]}


def _encode_second(module: Any, inputs: Tensors) -> Tensors:
    found = module(inputs["tokens"], output_hidden_states=True)
    return {"context": found.hidden_states[-2], "text_embeds": found.text_embeds}


def predict(module: Any, latents: Any, timesteps: Any, given: Tensors) -> Any:
    """Return a U-Net's prediction (N, C, H, W) for latents (N, C, H, W) at timesteps (N,).

    `given` are its other inputs, by the names that they have in converted files.
    """
    added = {name: given[name] for name in ADDED if name in given}
    return module(
        latents,
        timesteps,
        given["context"],
        timestep_cond=given.get(GUIDANCE),
        added_cond_kwargs=added or None,
        return_dict=False,
    )[0]


def _denoise(module: Any, inputs: Tensors) -> Tensors:
    latents = _channels_first(inputs["latent"])
    return {"noise": _channels_last(predict(module, latents, inputs["timestep"], inputs))}


def _decode(module: Any, inputs: Tensors) -> Tensors:
    latent = _channels_first(inputs["latent"]) / module.config.scaling_factor
    return {"image": _channels_last(module.decode(latent, return_dict=False)[0])}


def _channels_first(values: Any) -> Any:
    return values.permute(0, 3, 1, 2).contiguous()


def _channels_last(values: Any) -> Any:
    return values.permute(0, 2, 3, 1)


KINDS = {
    TextEncoderConfig: NetworkKind(text_encoder, _encode),
    FirstEncoderConfig: NetworkKind(text_encoder, _encode_first),
    SecondEncoderConfig: NetworkKind(projected_text_encoder, _encode_second),
    UNetConfig: NetworkKind(unet, _denoise),
    VaeDecoderConfig: NetworkKind(autoencoder, _decode),
    TinyDecoderConfig: NetworkKind(autoencoder, _decode),
}
