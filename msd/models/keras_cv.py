"""keras-cv 0.9's own three networks, with the inputs and outputs that ours have.

They are keras-cv's, layer by layer: its epsilons, its tanh GELU, its arrangement. Only the names of inputs,
outputs and variables are ours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from msd.errors import BadCheckpoint
from msd.models import keras_cv_order
from msd.models.config import TextEncoderConfig, UNetConfig, VaeDecoderConfig
from msd.models.keras_cv_order import Slot
from msd.models.networks import Network, latent_size
from msd.models.trace import InputSpecs


def networks(
    text_encoder: TextEncoderConfig,
    unet: UNetConfig,
    vae_decoder: VaeDecoderConfig,
    height: int | None = None,
    width: int | None = None,
    batch: int = 1,
) -> dict[str, Network]:
    """Return "text_encoder", "unet" and "vae_decoder" as `msd.models.networks.networks` does.

    The U-Net takes `timestep_embedding` (batch, channels) from the start. keras-cv's networks have one width
    each; building one raises BadCheckpoint where the configurations say another.
    """
    rows, columns = latent_size(unet, vae_decoder, height, width)
    pixels = rows * vae_decoder.scale, columns * vae_decoder.scale
    length, second = text_encoder.length, unet.linear_projection
    latent = ((batch, rows, columns, unet.in_channels), "float32")
    embedding = ((batch, unet.channels[0]), "float32")
    context = ((batch, length, unet.context_width), "float32")
    inputs = {"latent": latent, "timestep_embedding": embedding, "context": context}
    tokens = {"tokens": ((batch, length), "int32")}
    return {
        "text_encoder": _network(_text_encoder, tokens, text_encoder, second),
        "unet": _network(_unet, inputs, unet, *pixels, length),
        "vae_decoder": _network(_vae_decoder, {"latent": latent}, vae_decoder, *pixels),
    }


def _network(build: Callable[..., Any], inputs: InputSpecs, *arguments: Any) -> Network:
    return Network(partial(build, *arguments), inputs, f"keras-cv{build.__name__}{arguments}")


def _text_encoder(config: TextEncoderConfig, second: bool) -> Callable[..., Any]:
    """Return TextEncoderV2, or TextEncoder if not `second`, at the positions 0, 1, …."""
    from keras import ops
    from keras_cv.src.models.stable_diffusion import text_encoder as written

    make = written.TextEncoderV2 if second else written.TextEncoder
    model = make(config.length, config.vocabulary, download_weights=False)
    _name_variables(model, keras_cv_order.text_encoder(config))

    def encode(tokens: Any) -> dict[str, Any]:
        positions = ops.arange(config.length, dtype="int32")[None]
        return {"context": model({"tokens": tokens, "positions": positions})}

    return encode


def _unet(config: UNetConfig, height: int, width: int, length: int) -> Callable[..., Any]:
    from keras_cv.src.models.stable_diffusion import diffusion_model as written

    make = written.DiffusionModelV2 if config.linear_projection else written.DiffusionModel
    model = make(height, width, length, download_weights=False)
    _name_variables(model, keras_cv_order.unet(config))
    return lambda **inputs: {"noise": model(inputs)}


def _vae_decoder(config: VaeDecoderConfig, height: int, width: int) -> Callable[..., Any]:
    from keras_cv.src.models.stable_diffusion.decoder import Decoder

    model = Decoder(height, width, download_weights=False)
    _name_variables(model, keras_cv_order.vae_decoder(config))
    return lambda latent: {"image": model(latent)}


def ordered_variables(model: Any) -> list[Any]:
    """Return the variables of a Keras model in the order in which Keras writes them to an H5 file."""
    return [variable for layer in model.layers for variable in layer_variables(layer)]


def layer_variables(layer: Any) -> list[Any]:
    """Return the variables of a Keras layer in that order: those that are trained come first."""
    return [*layer.trainable_weights, *layer.non_trainable_weights]


def _name_variables(model: Any, order: Iterable[Slot]) -> None:
    """Give each variable of `model` the path of the tensor that it is; refuse tensors of other shapes."""
    variables, slots, written = ordered_variables(model), list(order), f"keras-cv's {type(model).__name__}"
    if len(variables) != len(slots):
        raise BadCheckpoint(f"{written} has {len(variables)} weights, and the checkpoint has {len(slots)}")
    for variable, slot in zip(variables, slots, strict=True):
        if tuple(variable.shape) != slot.shape:
            raise BadCheckpoint(
                f"{written} has {slot.name} of the shape {list(variable.shape)}, and the checkpoint has "
                f"{list(slot.shape)}; without --source keras-cv it can be converted"
            )
        variable._path = f"{slot.name.rpartition('.')[0]}/{variable.name}"
