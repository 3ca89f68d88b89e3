"""keras-cv 0.9's own networks, with the inputs and outputs of ours.

They are keras-cv's layer by layer, with its epsilons, its tanh GELU, its arrangement. Only the names of
inputs, outputs and variables are ours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Any

from msd.conversion.sources.keras_cv import order as keras_cv_order
from msd.conversion.sources.keras_cv.order import Slot
from msd.errors import BadCheckpoint
from msd.models.config import TextEncoderConfig, UNetConfig
from msd.models.families import Family
from msd.models.families.stable_diffusion import TEXT_ENCODER, UNET, VAE_DECODER, VAE_ENCODER
from msd.models.networks import Configs, Network, Size
from msd.models.vae_config import VaeDecoderConfig, VaeEncoderConfig


def networks(family: Family, configs: Configs, size: Size) -> dict[str, Network]:
    """Return keras-cv's network of each component, by its name, as `msd.models.networks.networks` does.

    The U-Net takes `timestep_embedding` (batch, channels) from the start. keras-cv's networks have one width
    each; building one raises BadCheckpoint where the configuration has another width.
    """
    unet: UNetConfig = configs[UNET.name]
    inputs = dict(unet.inputs(size))
    inputs["timestep_embedding"] = ((size.batch, unet.channels[0]), "float32")
    inputs = {name: inputs[name] for name in ("latent", "timestep_embedding", "context")}
    second = unet.linear_projection
    made = {
        TEXT_ENCODER.name: _network(_text_encoder, configs[TEXT_ENCODER.name], size, second),
        UNET.name: replace(_network(_unet, unet, size), inputs=inputs),
        VAE_DECODER.name: _network(_vae_decoder, configs[VAE_DECODER.name], size),
    }
    if VAE_ENCODER.name in configs:
        made[VAE_ENCODER.name] = _network(_vae_encoder, configs[VAE_ENCODER.name], size)
    return made


def _network(build: Callable[..., Any], config: Any, *arguments: Any) -> Network:
    size = arguments[0]
    description = f"keras-cv{build.__name__}{(config, *arguments)}"
    return Network(partial(build, config, *arguments), config.inputs(size), description)


def _text_encoder(config: TextEncoderConfig, size: Size, second: bool) -> Callable[..., Any]:
    """Return TextEncoderV2, or TextEncoder if not `second`, at the positions 0, 1, …."""
    from keras import ops
    from keras_cv.src.models.stable_diffusion import text_encoder as keras_cv

    build = keras_cv.TextEncoderV2 if second else keras_cv.TextEncoder
    model = build(config.length, config.vocabulary, download_weights=False)
    _name_variables(model, keras_cv_order.text_encoder(config))

    def encode(tokens: Any) -> dict[str, Any]:
        positions = ops.arange(config.length, dtype="int32")[None]
        return {"context": model({"tokens": tokens, "positions": positions})}

    return encode


def _unet(config: UNetConfig, size: Size) -> Callable[..., Any]:
    from keras_cv.src.models.stable_diffusion import diffusion_model as keras_cv

    build = keras_cv.DiffusionModelV2 if config.linear_projection else keras_cv.DiffusionModel
    model = build(*size.pixels, size.length, download_weights=False)
    _name_variables(model, keras_cv_order.unet(config))
    return lambda **inputs: {"noise": model(inputs)}


def _vae_decoder(config: VaeDecoderConfig, size: Size) -> Callable[..., Any]:
    from keras_cv.src.models.stable_diffusion.decoder import Decoder

    model = Decoder(*size.pixels, download_weights=False)
    _name_variables(model, keras_cv_order.vae_decoder(config))
    return lambda latent: {"image": model(latent)}


def _vae_encoder(config: VaeEncoderConfig, size: Size) -> Callable[..., Any]:
    """Return ImageEncoder up to the moments: its last layer keeps only the mean, scaled."""
    import keras
    from keras_cv.src.models.stable_diffusion.image_encoder import ImageEncoder

    from msd.models.vae_encoder import bounded

    model = ImageEncoder(download_weights=False)
    _name_variables(model, keras_cv_order.vae_encoder(config))
    moments = keras.Model(model.inputs, model.layers[-2].output)
    return lambda image: {"moments": bounded(moments(image))}


def ordered_variables(model: Any) -> list[Any]:
    """Return the variables of a Keras model in the order in which Keras writes them to an H5 file."""
    return [variable for layer in model.layers for variable in layer_variables(layer)]


def layer_variables(layer: Any) -> list[Any]:
    """Return the variables of a Keras layer in that order: trainable ones come first."""
    return [*layer.trainable_weights, *layer.non_trainable_weights]


def _name_variables(model: Any, order: Iterable[Slot]) -> None:
    """Give each variable of `model` the path of its tensor; refuse tensors of other shapes."""
    variables, slots, title = ordered_variables(model), list(order), f"keras-cv's {type(model).__name__}"
    if len(variables) != len(slots):
        raise BadCheckpoint(f"{title} has {len(variables)} weights, and the checkpoint has {len(slots)}")
    for variable, slot in zip(variables, slots, strict=True):
        if tuple(variable.shape) != slot.shape:
            raise BadCheckpoint(
                f"{title} has {slot.name} of the shape {list(variable.shape)}, and the checkpoint has "
                f"{list(slot.shape)}; without --source keras-cv it can be converted"
            )
        variable._path = f"{slot.name.rpartition('.')[0]}/{variable.name}"
