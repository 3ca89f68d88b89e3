#!/usr/bin/env bash
# What ai-edge-quantizer makes of a matrix product is all zeros in tflite-runtime 2.14, without an error.
#
# ai-edge-quantizer 0.10.0 with its recipe dynamic_wi8_afp32, read by tflite-runtime 2.14.0, its last release.
# Expected: the product to about a percent, as ai-edge-litert 2.3.0 gives it, or "Didn't find op ... version", which is
# how TFLite says that a runtime is too old for a file.
# Seen: FULLY_CONNECTED and BATCH_MATMUL return 0 for everything. The quantizer gives the weights a scale per channel
# and leaves the operator at version 1, which has one scale for the whole tensor; the old runtime looks for that one
# scale and finds 0. CONV_2D with a scale per channel at version 1 is right there (1 percent).
# It matters to whoever ships such a file to devices whose system or app has an older TFLite: nothing fails at load
# time, and a text encoder of zeros still lets the U-Net draw something.
# Written: the versions are in tflite/tools/versioning/op_version.cc; that the quantizer does not set them, nowhere.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python="$(command -v python3.11 || command -v python3)"
"$python" -m venv "$folder/new"
"$python" -m venv "$folder/old"
"$folder/new/bin/pip" install -q --no-compile ai-edge-quantizer==0.10.0 ai-edge-litert==2.3.0 \
    tensorflow==2.21.0 numpy==1.26.4
"$folder/old/bin/pip" install -q --no-compile tflite-runtime==2.14.0 numpy==1.26.4
cd "$folder"
TF_CPP_MIN_LOG_LEVEL=3 "$folder/new/bin/python" - 2> log <<'EOF' || { cat log; exit 1; }
import numpy as np
import tensorflow as tf
from ai_edge_litert.interpreter import Interpreter
from ai_edge_quantizer import quantizer, recipe

random = np.random.default_rng(0)


def constant(*shape):
    return tf.constant(random.standard_normal(shape).astype(np.float32))


matrix, matrices, filters = constant(64, 48), constant(2, 64, 48), constant(3, 3, 16, 8)
layers = {
    "FULLY_CONNECTED": (lambda x: tf.matmul(x, matrix), (4, 64)),
    "BATCH_MATMUL": (lambda x: tf.matmul(x, matrices), (2, 4, 64)),
    "CONV_2D": (lambda x: tf.nn.conv2d(x, filters, 1, "SAME"), (1, 8, 8, 16)),
}
for name, (layer, shape) in layers.items():
    traced = tf.function(layer, input_signature=[tf.TensorSpec(shape)]).get_concrete_function()
    work = quantizer.Quantizer(bytearray(tf.lite.TFLiteConverter.from_concrete_functions([traced]).convert()))
    work.load_quantization_recipe(recipe.dynamic_wi8_afp32())
    content = bytes(work.quantize().quantized_model)
    x = constant(*shape).numpy()
    interpreter = Interpreter(model_content=content)
    interpreter.allocate_tensors()
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], x)
    interpreter.invoke()
    new = interpreter.get_tensor(interpreter.get_output_details()[0]["index"])
    np.savez(f"{name}.npz", content=np.frombuffer(content, np.uint8), x=x, new=new, exact=layer(x).numpy())
EOF
"$folder/old/bin/python" - 2> log <<'EOF' || { cat log; exit 1; }
import numpy as np
from tflite_runtime.interpreter import Interpreter

for name in ("FULLY_CONNECTED", "BATCH_MATMUL", "CONV_2D"):
    kept = np.load(f"{name}.npz")
    interpreter = Interpreter(model_content=kept["content"].tobytes())
    interpreter.allocate_tensors()
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], kept["x"])
    interpreter.invoke()
    old = interpreter.get_tensor(interpreter.get_output_details()[0]["index"])
    error = [np.abs(seen - kept["exact"]).max() / np.abs(kept["exact"]).max() for seen in (kept["new"], old)]
    print(f"{name}: litert {error[0]:.1%} off, tflite-runtime {error[1]:.1%}, {np.count_nonzero(old)} numbers not 0")
    assert error[0] < 0.05 and (not old.any()) == (name != "CONV_2D"), "the behaviour changed"
EOF
