#!/usr/bin/env bash
# Stored in float16 by TensorFlow's converter, 1e9 becomes 65504 and an epsilon of 1e-12 becomes 0, without a word.
#
# tensorflow 2.21.0, Optimize.DEFAULT with supported_types = [tf.float16].
# Expected: large weights halve in size. A single number, which saves nothing, stays as it is; a number that float16
# cannot hold stays too, or becomes infinity, or is at least named in a warning.
# Seen: every float constant goes through float16. Too large ones are clamped to 65504, not to infinity: x * 1e9 is
# 15266 times too small and looks like an ordinary number. Too small ones become 0: rsqrt(mean(x^2) + 1e-12) of an
# empty row, 1e6 in TensorFlow, is no longer finite. A mask of -3.4e38 becomes -65504, which scores can exceed.
# It matters for networks with masks, scales and small epsilons in the graph: attention masks, RMS norms, latents'
# scales. The outputs stay plausible, so only a comparison with the original shows it.
# Written: the guide to float16 quantisation speaks of weights and of a small loss in accuracy.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$(command -v python3.11 || command -v python3)" -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-compile tensorflow==2.21.0 ai-edge-litert==2.3.0 numpy==1.26.4
TF_CPP_MIN_LOG_LEVEL=3 "$folder/venv/bin/python" - 2> "$folder/log" <<'EOF' || { cat "$folder/log"; exit 1; }
import numpy as np
import tensorflow as tf
from ai_edge_litert.interpreter import Interpreter


def scaled(x):
    return x * tf.constant([[1e9, 1.0, 1.0, 1.0]])


def masked(x):
    return x + tf.constant([[-3.4e38, 0.0, 0.0, 0.0]])


def normed(x):
    return tf.math.rsqrt(tf.reduce_mean(x * x, -1, keepdims=True) + 1e-12)


def both(layer, x):
    """Return the first number of TensorFlow's result, and of the converted file's."""
    traced = tf.function(layer, input_signature=[tf.TensorSpec(x.shape)]).get_concrete_function()
    converter = tf.lite.TFLiteConverter.from_concrete_functions([traced])
    converter.optimizations = [tf.lite.Optimize.DEFAULT]
    converter.target_spec.supported_types = [tf.float16]
    interpreter = Interpreter(model_content=converter.convert())
    interpreter.allocate_tensors()
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], x)
    interpreter.invoke()
    result = interpreter.get_tensor(interpreter.get_output_details()[0]["index"])
    return float(layer(x).numpy().ravel()[0]), float(result.ravel()[0])


ones, nothing = np.ones((1, 4), np.float32), np.zeros((1, 4), np.float32)
seen = {layer.__name__: both(layer, x) for layer, x in ((scaled, ones), (masked, ones), (normed, nothing))}
for name, (tensorflow, converted) in seen.items():
    print(f"{name}: {tensorflow:g} in TensorFlow, {converted:g} in the file")
assert seen["scaled"][1] == 65504 and seen["masked"][1] == -65503, "the behaviour changed"
assert np.isfinite(seen["normed"][0]) and not np.isfinite(seen["normed"][1]), "the behaviour changed"
EOF
