#!/usr/bin/env bash
# TensorFlow's converter writes log1p and expm1 as LOG(x + 1) and EXP(x) - 1: what they are for is lost.
#
# tensorflow 2.21.0, run by ai-edge-litert 2.3.0.
# Expected: log1p(x) of a small x is x, to float32's seven digits: that is why the function exists.
# Seen: no warning; LOG of ADD. At 1e-6 it is 4.6 percent off, at 3e-8 and below it is 0. expm1 likewise.
# It matters wherever a graph computes with small noise levels or variances: log-variances near 0, sigmas of the last
# steps, losses. The graph is accepted by every delegate, so nothing but the numbers tells.
# Written: the list of supported operators has Log1p and Expm1; that they are replaced by the plain formula is only
# in the converter's patterns.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$(command -v python3.11 || command -v python3)" -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-compile tensorflow==2.21.0 ai-edge-litert==2.3.0 numpy==1.26.4
TF_CPP_MIN_LOG_LEVEL=3 "$folder/venv/bin/python" - 2> "$folder/log" <<'EOF' || { cat "$folder/log"; exit 1; }
import numpy as np
import tensorflow as tf
from ai_edge_litert.interpreter import Interpreter

small = np.array([1e-8, 3e-8, 1e-6, 1e-4, 1e-2], np.float32)


def converted(function):
    """Return what the converted function makes of `small`, and the operators of its file."""

    def layer(x):
        return function(x)

    traced = tf.function(layer, input_signature=[tf.TensorSpec(small.shape)]).get_concrete_function()
    content = tf.lite.TFLiteConverter.from_concrete_functions([traced]).convert()
    interpreter = Interpreter(model_content=content)
    interpreter.allocate_tensors()
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], small)
    interpreter.invoke()
    operators = [op["op_name"] for op in interpreter._get_ops_details() if op["op_name"] != "DELEGATE"]
    return interpreter.get_tensor(interpreter.get_output_details()[0]["index"]), operators


for function, exact in ((tf.math.log1p, np.log1p), (tf.math.expm1, np.expm1)):
    result, operators = converted(function)
    right = exact(small.astype(float))
    of_file = np.abs(result / right - 1)
    of_tensorflow = np.abs(function(small).numpy() / right - 1)
    print(function.__name__, "becomes", operators)
    for x, file, plain in zip(small, of_file, of_tensorflow, strict=True):
        print(f"  at {x:g}: the file is {file:.2%} off, TensorFlow {plain:.5%}")
    assert of_tensorflow.max() < 1e-5 and of_file[0] == 1 and 0.01 < of_file[2] < 0.1, "the behaviour changed"
EOF
