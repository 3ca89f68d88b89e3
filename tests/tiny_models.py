"""Small .tflite models, converted from TensorFlow functions: one for each thing that a delegate may say."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

SHAPE = (1, 9, 7, 4)


def save(name: str, folder: Path) -> Path:
    """Write the model called `name` into `folder` and return its path."""
    path = folder / f"{name}.tflite"
    path.write_bytes(model(name))
    return path


@cache
def model(name: str) -> bytes:
    """Return the bytes of the model called `name`."""
    return MODELS[name]()


def normal(*shape: int, scale: float = 0.2) -> Any:
    return (np.random.default_rng(0).normal(size=shape) * scale).astype(np.float32)


def convert(function: Callable[..., Any], *specs: tuple[tuple[int, ...], str], weights: str = "") -> bytes:
    """Convert `function`; `weights` is "" for float32, "int8" for dynamic range, or "float16"."""
    import tensorflow as tf

    class Module(tf.Module):  # type: ignore[misc]
        @tf.function(input_signature=[tf.TensorSpec(s, d, name=f"x{i}") for i, (s, d) in enumerate(specs)])
        def call(self, *inputs: Any) -> Any:
            return function(*inputs)

    module = Module()
    converter = tf.lite.TFLiteConverter.from_concrete_functions([module.call.get_concrete_function()], module)
    if weights:
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
    if weights == "float16":
        converter.target_spec.supported_types = [tf.float16]
    return bytes(converter.convert())


def whole() -> bytes:
    """CONV_2D, ADD, SOFTMAX: all accepted."""
    import tensorflow as tf

    kernel = normal(3, 3, 4, 8)
    return convert(
        lambda x: {"y": tf.nn.softmax(tf.nn.relu(tf.nn.conv2d(x, kernel, 1, "SAME")) + 0.5)},
        (SHAPE, "float32"),
    )


def five_dimensions() -> bytes:
    """A reduction of a 5-D tensor at the end: RESHAPE and SUM are rejected."""
    import tensorflow as tf

    kernel = normal(3, 3, 4, 8)

    def function(x: Any) -> Any:
        y = tf.nn.relu(tf.nn.conv2d(x, kernel, 1, "SAME"))
        y = tf.tanh(y * tf.reduce_mean(y, [1, 2], keepdims=True))
        return {"y": tf.reshape(tf.reduce_sum(tf.reshape(y, (1, 9, 7, 2, 4)), -1), (1, 9, 7, 2))}

    return convert(function, (SHAPE, "float32"))


def constant_of_rank_five() -> bytes:
    """A 5-D constant added to a 5-D tensor, between two convolutions."""
    import tensorflow as tf

    kernel, grouped = normal(3, 3, 4, 4), normal(1, 1, 1, 2, 2)

    def function(x: Any) -> Any:
        y = tf.reshape(tf.nn.conv2d(x, kernel, 1, "SAME"), (1, 9, 7, 2, 2)) + grouped
        return {"y": tf.nn.conv2d(tf.reshape(y, SHAPE), kernel, 1, "SAME")}

    return convert(function, (SHAPE, "float32"))


def cut_off() -> bytes:
    """CONV_2D, GATHER_ND, TANH, MUL: one is rejected, and the first is accepted but cut off."""
    import tensorflow as tf

    kernel = normal(3, 3, 4, 8)

    def function(x: Any) -> Any:
        y = tf.gather_nd(tf.nn.relu(tf.nn.conv2d(x, kernel, 1, "SAME")), [[0, 1], [0, 3]])
        return {"y": tf.tanh(y) * 2.0}

    return convert(function, (SHAPE, "float32"))


def broadcast_to() -> bytes:
    """BROADCAST_TO alone: nothing is accepted."""
    import tensorflow as tf

    return convert(lambda x: {"y": tf.broadcast_to(x, (3, *SHAPE[1:]))}, (SHAPE, "float32"))


def copy_only() -> bytes:
    """RELU alone: the GPU's answer is the CPU's to the last bit."""
    import tensorflow as tf

    return convert(lambda x: {"y": tf.nn.relu(x)}, (SHAPE, "float32"))


def overflow() -> bytes:
    """EXP of a thousandfold input: infinite wherever that is positive."""
    import tensorflow as tf

    return convert(lambda x: {"y": tf.exp(x * 1000.0)}, (SHAPE, "float32"))


def int8_after_five_dimensions() -> bytes:
    """Through rank 5, rejected, into an int8 CONV_2D."""
    import tensorflow as tf

    kernel, grouped = normal(3, 3, 24, 16), normal(1, 1, 1, 2, 12)

    def function(x: Any) -> Any:
        y = tf.reshape(tf.tanh(x), (1, 8, 6, 2, 12)) + grouped
        return {"y": tf.nn.conv2d(tf.reshape(y, (1, 8, 6, 24)), kernel, 1, "SAME")}

    return convert(function, ((1, 8, 6, 24), "float32"), weights="int8")


def loop() -> bytes:
    """WHILE with a body that is accepted: three graphs in one file."""
    import tensorflow as tf

    def function(x: Any) -> Any:
        body = tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, tf.tanh(y) * 1.1), (tf.constant(0), x))
        return {"y": body[1]}

    return convert(function, (SHAPE, "float32"))


def long_integers() -> bytes:
    """CAST from int64: a dtype that the delegate's buffers do not have."""
    import tensorflow as tf

    return convert(lambda x: {"y": tf.cast(x, tf.float32) * 2.0}, ((3,), "int64"))


def tokens() -> bytes:
    """GATHER of rows of a 23-row table by int32 ids, then TANH."""
    import tensorflow as tf

    table = normal(23, 8, scale=1.0)
    return convert(lambda ids: {"y": tf.tanh(tf.gather(table, ids))}, ((6,), "int32"))


def two_by_two() -> bytes:
    """Two inputs of different shapes, two outputs of different shapes."""
    import tensorflow as tf

    kernel = normal(3, 3, 4, 8)
    return convert(
        lambda x, t: {"a": tf.nn.relu(x) + t, "b": tf.tanh(tf.nn.conv2d(x, kernel, 1, "SAME"))},
        (SHAPE, "float32"),
        ((1, 1, 1, 4), "float32"),
    )


def conv(weights: str) -> bytes:
    """CONV_2D 3×3, 24 → 16."""
    import tensorflow as tf

    kernel = normal(3, 3, 24, 16)
    return convert(
        lambda x: {"y": tf.nn.conv2d(x, kernel, 1, "SAME")}, ((1, 8, 6, 24), "float32"), weights=weights
    )


def depthwise(weights: str) -> bytes:
    """DEPTHWISE_CONV_2D 3×3 on 160 channels."""
    import tensorflow as tf

    kernel = normal(3, 3, 160, 1)
    return convert(
        lambda x: {"y": tf.nn.depthwise_conv2d(x, kernel, [1, 1, 1, 1], "SAME")},
        ((1, 8, 6, 160), "float32"),
        weights=weights,
    )


def dense(weights: str) -> bytes:
    """FULLY_CONNECTED 64 → 48 on rank 3."""
    import tensorflow as tf

    matrix = normal(64, 48)
    return convert(lambda x: {"y": tf.matmul(x, matrix)}, ((1, 7, 64), "float32"), weights=weights)


def winograd(channels: int) -> bytes:
    """CONV_2D 3×3, `channels` → 64, of 21×21: large enough for the delegate's Winograd form."""
    import tensorflow as tf

    kernel = normal(3, 3, channels, 64, scale=0.02)
    return convert(lambda x: {"y": tf.nn.conv2d(x, kernel, 1, "SAME")}, ((1, 21, 21, channels), "float32"))


MODELS: dict[str, Callable[[], bytes]] = {
    "whole": whole,
    "five_dimensions": five_dimensions,
    "constant_of_rank_five": constant_of_rank_five,
    "cut_off": cut_off,
    "broadcast_to": broadcast_to,
    "copy_only": copy_only,
    "overflow": overflow,
    "int8_after_five_dimensions": int8_after_five_dimensions,
    "loop": loop,
    "long_integers": long_integers,
    "tokens": tokens,
    "two_by_two": two_by_two,
    "conv_float32": lambda: conv(""),
    "conv_int8": lambda: conv("int8"),
    "conv_float16": lambda: conv("float16"),
    "depthwise_int8": lambda: depthwise("int8"),
    "dense_float32": lambda: dense(""),
    "dense_int8": lambda: dense("int8"),
    "winograd_908": lambda: winograd(908),
    "winograd_912": lambda: winograd(912),
}
