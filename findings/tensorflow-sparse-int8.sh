#!/usr/bin/env bash
# TensorFlow's converter writes a sparse int8 convolution that LiteRT's default CPU refuses to load.
#
# tensorflow 2.21.0, Optimize.EXPERIMENTAL_SPARSITY with Optimize.DEFAULT, run by ai-edge-litert 2.3.0.
# Expected: a file that its own family's interpreter runs. The same layer in float32 does run.
# Seen: the file has DENSIFY before CONV_2D. XNNPACK, on by default, accepts the convolution without looking at where
# its filter comes from and then fails to prepare it: "failed to delegate CONV_2D node", an error of the whole
# interpreter, not a fallback. Without default delegates the same file runs and is right to a percent.
# It matters to whoever prunes to blocks of 16 and asks for both optimisations, as the two flags invite one to.
# Written: the flag is called experimental; that the two do not work together is not in its documentation.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$(command -v python3.11 || command -v python3)" -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-compile tensorflow==2.21.0 ai-edge-litert==2.3.0 numpy==1.26.4
TF_CPP_MIN_LOG_LEVEL=3 "$folder/venv/bin/python" - 2> "$folder/log" <<'EOF' || { cat "$folder/log"; exit 1; }
import numpy as np
import tensorflow as tf
from ai_edge_litert.interpreter import Interpreter, OpResolverType

random = np.random.default_rng(0)
kept = (random.random((4, 48)) < 0.3).repeat(16, axis=0)
filters = tf.constant(random.standard_normal((1, 1, 64, 48)).astype(np.float32) * kept)
image = random.standard_normal((1, 8, 8, 64)).astype(np.float32)


def layer(x):
    return tf.nn.conv2d(x, filters, 1, "SAME")


def convert(*optimizations):
    traced = tf.function(layer, input_signature=[tf.TensorSpec(image.shape)]).get_concrete_function()
    converter = tf.lite.TFLiteConverter.from_concrete_functions([traced])
    converter.optimizations = list(optimizations)
    return converter.convert()


def result(content, resolver):
    """Return how far the interpreter is from TensorFlow, or the error that it raised."""
    try:
        interpreter = Interpreter(model_content=content, experimental_op_resolver_type=resolver)
        interpreter.allocate_tensors()
    except RuntimeError as error:
        return str(error)
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], image)
    interpreter.invoke()
    exact = layer(image).numpy()
    seen = interpreter.get_tensor(interpreter.get_output_details()[0]["index"])
    return float(np.abs(seen - exact).max() / np.abs(exact).max())


sparse, default = tf.lite.Optimize.EXPERIMENTAL_SPARSITY, tf.lite.Optimize.DEFAULT
plain = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
seen = {
    "float32, default": result(convert(sparse), OpResolverType.AUTO),
    "int8, default": result(convert(sparse, default), OpResolverType.AUTO),
    "int8, no delegates": result(convert(sparse, default), plain),
}
for name, value in seen.items():
    print(f"{name}: {value if isinstance(value, str) else f'{value:.2%} off'}")
assert "failed to prepare" in str(seen["int8, default"]), "the behaviour changed"
assert seen["float32, default"] < 1e-5 and seen["int8, no delegates"] < 0.05, "the behaviour changed"
EOF
