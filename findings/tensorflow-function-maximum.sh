#!/usr/bin/env bash
# Inside tf.function TensorFlow computes maximum(x, 2 * x) as the minimum; outside, and in a .tflite file, it is right.
#
# tensorflow 2.21.0 on the CPU of x86-64, where oneDNN is on by default; ai-edge-litert 2.3.0.
# Expected: the same numbers from a function, from the graph traced from it and from the file converted from that.
# Seen: the graph gives 3 for x = 3 and -4 for -2, the others 6 and -2. These are the numbers of a leaky RELU of slope 2,
# which equals the maximum for slopes up to 1 only. 0.5 and -2 are right; with TF_ENABLE_ONEDNN_OPTS=0 all are.
# It matters because a saved model or concrete function is the reference that a converted file is compared with: here the
# file is right and the reference wrong, and a fault is looked for in the converter.
# Written: nowhere that we found.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$(command -v python3.11 || command -v python3)" -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-compile tensorflow-cpu==2.21.0 ai-edge-litert==2.3.0 numpy==1.26.4
cat > "$folder/maximum.py" <<'END'
import sys

import tensorflow as tf
from ai_edge_litert.interpreter import Interpreter

x = tf.constant([[-2.0, -1.0, 0.0, 1.0, 2.0, 3.0, 4.0, 5.0]])
wrong = []
for slope in (0.5, -2.0, 1.5, 2.0):
    def steeper(x, slope=slope):
        return tf.maximum(x, x * slope)

    graph = tf.function(steeper, input_signature=[tf.TensorSpec(x.shape)], autograph=False).get_concrete_function()
    interpreter = Interpreter(model_content=tf.lite.TFLiteConverter.from_concrete_functions([graph]).convert())
    interpreter.allocate_tensors()
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], x.numpy())
    interpreter.invoke()
    file = interpreter.get_tensor(interpreter.get_output_details()[0]["index"])
    plain, traced = steeper(x).numpy(), graph(x).numpy()
    print(f"slope {slope:g} at -2 and 3: plain {plain[0, [0, 5]]}, traced {traced[0, [0, 5]]}, file {file[0, [0, 5]]}")
    assert (file == plain).all(), "the behaviour changed"
    if (traced != plain).any():
        wrong.append(slope)
assert wrong == eval(sys.argv[1]), "the behaviour changed"
END
export TF_CPP_MIN_LOG_LEVEL=3
"$folder/venv/bin/python" "$folder/maximum.py" "[1.5, 2.0]" 2> "$folder/log" || { cat "$folder/log"; exit 1; }
echo "without oneDNN:"
TF_ENABLE_ONEDNN_OPTS=0 "$folder/venv/bin/python" "$folder/maximum.py" "[]" 2> "$folder/log" || { cat "$folder/log"; exit 1; }
