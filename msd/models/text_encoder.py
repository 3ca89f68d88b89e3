"""CLIP's text transformer, as Stable Diffusion uses it: the last hidden state after the final norm."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
from keras import ops

from msd.models.blocks import Tensor, attend, dense, layer_norm
from msd.models.config import TextEncoderConfig
from msd.models.networks import Size

MASKED = -1e4
"""Added to the scores of later tokens: its exponential is zero in float32, and float16 can represent it."""


def text_encoder(config: TextEncoderConfig, size: Size, name: str) -> keras.Model:
    """Return the model: `tokens` int32 (batch, length) → `context` float32 (batch, length, width)."""
    tokens = keras.Input(batch_shape=(size.batch, config.length), dtype="int32", name="tokens")
    x = hidden_states(config, tokens, config.layers)[-1]
    x = layer_norm(x, config.epsilon, "final_layer_norm")
    return keras.Model(tokens, {"context": x}, name=name)


def hidden_states(config: TextEncoderConfig, tokens: Tensor, layers: int) -> list[Tensor]:
    """Return the states (batch, length, width) after the embeddings and after each of the first `layers`."""
    x = keras.layers.Embedding(config.vocabulary, config.width, name="embeddings.token_embedding")(tokens)
    states = [PositionEmbedding(name="embeddings.position_embedding")(x)]
    mask = np.triu(np.full((config.length, config.length), MASKED, "float32"), k=1)
    for i in range(layers):
        states.append(_layer(config, states[-1], mask, f"encoder.layers.{i}"))
    return states


class PositionEmbedding(keras.layers.Layer):  # type: ignore[misc]
    """Adds a learnt vector to each position of a sequence."""

    def build(self, input_shape: tuple[int, ...]) -> None:
        """Create the table, (length, width)."""
        self.embeddings = self.add_weight(shape=input_shape[1:], name="embeddings")

    def call(self, x: Any) -> Any:
        """Return `x` (batch, length, width) plus the table."""
        return x + self.embeddings


def _layer(config: TextEncoderConfig, x: Tensor, mask: np.ndarray[Any, Any], name: str) -> Tensor:
    normed = layer_norm(x, config.epsilon, f"{name}.layer_norm1")
    query, key, value = (
        dense(normed, config.width, f"{name}.self_attn.{part}_proj") for part in ("q", "k", "v")
    )
    mixed = attend(query, key, value, config.heads, mask)
    x = x + dense(mixed, config.width, f"{name}.self_attn.out_proj")
    hidden = dense(layer_norm(x, config.epsilon, f"{name}.layer_norm2"), config.hidden, f"{name}.mlp.fc1")
    return x + dense(ACTIVATIONS[config.activation](hidden), config.width, f"{name}.mlp.fc2")


def _gelu(x: Tensor) -> Tensor:
    return ops.gelu(x, approximate=False)


def _tanh_gelu(x: Tensor) -> Tensor:
    return ops.gelu(x, approximate=True)


def _quick_gelu(x: Tensor) -> Tensor:
    return x * ops.sigmoid(1.702 * x)


ACTIVATIONS = {
    "gelu": _gelu,
    "gelu_new": _tanh_gelu,
    "gelu_pytorch_tanh": _tanh_gelu,
    "quick_gelu": _quick_gelu,
    "silu": ops.silu,
    "swish": ops.silu,
}
"""Activations by their names in transformers."""
