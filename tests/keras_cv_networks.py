"""The three networks of keras-cv's Stable Diffusion 2.1: its own constructors, arranging its own layers.

The constructors have no arguments for width and depth. They are run with other functions in the place of some
names, each of which makes the real layer, but narrower, or leaves a repetition out.
"""

from __future__ import annotations

import builtins
import itertools
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from msd.models.networks import Network

TOKENS, VOCABULARY, SINUSOIDS, CONTEXT = 77, 1000, 320, 1024
UNET_LATENT, DECODER_LATENT = (1, 16, 8, 4), (1, 4, 6, 4)
"""One picture, a few pixels: rows, columns, channels."""


def text_encoder(layers: int = 23, narrower: int = 1) -> Network:
    """TextEncoderV2 with a small vocabulary, a factor `narrower` (1, 2, 4, 8 or 16)."""

    def build() -> Any:
        from keras_cv.src.models.stable_diffusion import text_encoder as written

        def layer(width: int, heads: int, activation: Any) -> Any:
            return written.CLIPEncoderLayer(width // narrower, heads // narrower, activation=activation)

        return _constructed(
            written.TextEncoderV2,
            TOKENS,
            VOCABULARY,
            range=lambda n: builtins.range(layers),
            CLIPEmbedding=lambda n, width, length: written.CLIPEmbedding(n, width // narrower, length),
            CLIPEncoderLayer=layer,
        )

    ids = ((1, TOKENS), "int32")
    return Network(build, {"tokens": ids, "positions": ids}, f"keras-cv text {layers} {narrower}")


def unet(narrower: int = 1, fewer_blocks: int = 0) -> Network:
    """DiffusionModelV2, a factor `narrower` (1, 5 or 10), with `fewer_blocks` (0 or 1) less on each level."""

    def build() -> Any:
        from keras_cv.src.models.stable_diffusion import diffusion_model as written

        def transformer(heads: int, head_size: int, fully_connected: bool) -> Any:
            fewer, width = heads * 2 // 5, heads * head_size // narrower
            chosen = (heads, head_size) if narrower == 1 else (fewer, width // fewer)
            return written.SpatialTransformer(*chosen, fully_connected=fully_connected)

        return _constructed(
            written.DiffusionModelV2,
            *_pixels(UNET_LATENT),
            TOKENS,
            range=lambda n: builtins.range(n - fewer_blocks),
            ResBlock=lambda channels: written.ResBlock(channels // narrower),
            Upsample=lambda channels: written.Upsample(channels // narrower),
            PaddedConv2D=_narrow_conv(written.PaddedConv2D, narrower),
            SpatialTransformer=transformer,
        )

    shapes = {
        "latent": UNET_LATENT,
        "timestep_embedding": (1, SINUSOIDS),
        "context": (1, TOKENS, CONTEXT),
    }
    inputs = {name: (shape, "float32") for name, shape in shapes.items()}
    return Network(build, inputs, f"keras-cv unet {narrower} {fewer_blocks}")


def transformer_block() -> Network:
    """One residual block and one spatial transformer of DiffusionModelV2, narrow."""

    def build() -> Any:
        import keras
        from keras_cv.src.models.stable_diffusion.diffusion_model import ResBlock, SpatialTransformer

        x, embedding, context = (
            keras.Input(shape[1:], batch_size=1, name=name) for name, (shape, _) in inputs.items()
        )
        y = SpatialTransformer(2, 32, fully_connected=True)([ResBlock(64)([x, embedding]), context])
        return keras.Model([x, embedding, context], y)

    inputs = {
        "x": ((1, 6, 4, 32), "float32"),
        "embedding": ((1, 48), "float32"),
        "context": ((1, TOKENS, 40), "float32"),
    }
    return Network(build, inputs, "keras-cv block")


def decoder(narrower: int = 1, one_in: int = 1) -> Network:
    """Decoder, a factor `narrower` (1, 2 or 4), with one in `one_in` of its residual blocks."""

    def build() -> Any:
        import keras
        from keras_cv.src.models.stable_diffusion import decoder as written

        count = itertools.count()

        def block(channels: int) -> Any:
            left_out = next(count) % one_in
            return keras.layers.Identity() if left_out else written.ResnetBlock(channels // narrower)

        return _constructed(
            written.Decoder,
            *_pixels(DECODER_LATENT),
            ResnetBlock=block,
            AttentionBlock=lambda channels: written.AttentionBlock(channels // narrower),
            PaddedConv2D=_narrow_conv(written.PaddedConv2D, narrower),
        )

    return Network(build, {"latent": (DECODER_LATENT, "float32")}, f"keras-cv decoder {narrower} {one_in}")


def _pixels(latent: tuple[int, ...]) -> tuple[int, int]:
    return latent[1] * 8, latent[2] * 8


def _narrow_conv(layer: Callable[..., Any], narrower: int) -> Callable[..., Any]:
    """Pictures and latents, of 3 and 4 channels, stay as they are."""
    return lambda n, *args, **settings: layer(n if n <= 4 else n // narrower, *args, **settings)


def _constructed(model: Any, *args: Any, **names: Any) -> Any:
    """Return `model(*args)` without weights, its constructor seeing `names` instead of its module's."""
    with built_once():
        return seeing(model, **names)(*args, download_weights=False)


def seeing(model: Any, **names: Any) -> Any:
    """Return the class `model` with a constructor that sees `names` instead of its module's."""
    written = model.__init__
    init = types.FunctionType(
        written.__code__,
        {**written.__globals__, **names},
        written.__name__,
        written.__defaults__,
        written.__closure__,
    )
    return type(model.__name__, (model,), {"__init__": init})


@contextmanager
def built_once() -> Iterator[None]:
    """Within, no layer is traced only to be built, as its call builds it, too; weights begin as zeros.

    Each layer is else traced once more than the one around it, and each trace draws its weights at random.
    """
    import keras
    from keras.src.initializers.random_initializers import RandomUniform, VarianceScaling
    from keras.src.layers.layer import Layer
    from keras.src.utils.python_utils import is_default

    build = Layer._maybe_build

    def built(layer: Any, call: Any) -> None:
        if is_default(layer.build):
            layer.built = True
        build(layer, call)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Layer, "_maybe_build", built)
        for each in (RandomUniform, VarianceScaling):
            patch.setattr(each, "__call__", lambda _, shape, dtype=None: keras.ops.zeros(shape, dtype))
        yield
