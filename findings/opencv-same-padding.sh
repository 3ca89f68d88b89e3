#!/usr/bin/env bash
# OpenCV 5 pads ONNX convolutions with auto_pad SAME_UPPER on the wrong side: with stride 2 an even image is off by a pixel.
#
# opencv-python-headless 5.0.0.93, with 4.10.0.84 and 4.14.0.94 beside it; onnx 1.19.1, onnxruntime 1.23.2.
# Expected: SAME_UPPER puts the odd pixel of padding behind the picture, as TensorFlow's "SAME" does; ONNX says so.
# Seen: cv2.dnn of 5.0 puts it before. A 3x3 kernel that copies its upper left pixel, with stride 2 over 8x8 pixels, gives
# rows 1, 3, 5, 7 in ONNX Runtime, and a row of zeros, 2, 4, 6 in OpenCV. In 4.10 and 4.14 SAME_LOWER is the wrong one, and
# SAME_UPPER right. Odd sides and stride 1, whose padding is even, are right in all of them, and no warning is given.
# It matters for networks that come from TensorFlow or Keras, whose strided convolutions pad so, where the exporter wrote the
# mode and not the numbers: depth, pose and face models for ControlNet, safety checkers. Each halving moves the picture by a
# pixel of its own size, and all shapes are right.
# Written: nowhere that we found for OpenCV; issue 26734 of microsoft/onnxruntime was the same in its WebGPU kernels.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$(command -v python3.11 || command -v python3)" -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-compile onnx==1.19.1 onnxruntime==1.23.2 numpy==2.3.5
for version in 4.10.0.84 4.14.0.94 5.0.0.93; do
    "$folder/venv/bin/pip" install -q --no-compile --no-deps --target "$folder/$version" "opencv-python-headless==$version"
done
cat > "$folder/pads.py" <<'END'
import sys

import cv2
import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

copy = np.zeros((1, 1, 3, 3), np.float32)
copy[0, 0, 0, 0] = 1


def rows(side, stride, mode):
    image = np.arange(1.0, side + 1, dtype=np.float32).reshape(1, 1, side, 1).repeat(side, 3)
    there = -(-side // stride)
    node = helper.make_node("Conv", ["image", "copy"], ["out"], auto_pad=mode, strides=(stride, stride),
                            kernel_shape=(3, 3))
    graph = helper.make_graph(
        [node], "g", [helper.make_tensor_value_info("image", TensorProto.FLOAT, image.shape)],
        [helper.make_tensor_value_info("out", TensorProto.FLOAT, (1, 1, there, there))],
        [numpy_helper.from_array(copy, "copy")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.checker.check_model(model)
    content = model.SerializeToString()
    runtime = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"]).run(None, {"image": image})[0]
    net = cv2.dnn.readNetFromONNX(np.frombuffer(content, np.uint8))
    net.setInput(image, "image")
    return [each[0, 0, :, -1].astype(int).tolist() for each in (runtime, net.forward("out"))]


wrong = []
for side, stride in ((8, 1), (9, 2), (8, 2), (224, 2)):
    for mode in ("SAME_UPPER", "SAME_LOWER"):
        runtime, opencv = rows(side, stride, mode)
        if runtime != opencv:
            wrong.append((side, mode))
            print(f"OpenCV {cv2.__version__}, {side}x{side}, stride {stride}, {mode}: "
                  f"ONNX Runtime copies the rows {runtime[:4]}, OpenCV {opencv[:4]}")
expected = {"4.10.0": ["SAME_LOWER"], "4.14.0": ["SAME_LOWER"], "5.0.0": ["SAME_UPPER"]}[cv2.__version__]
print(f"OpenCV {cv2.__version__}: wrong in {wrong}")
assert wrong == [(side, mode) for side in (8, 224) for mode in expected], "the behaviour changed"
END
for version in 4.10.0.84 4.14.0.94 5.0.0.93; do
    PYTHONPATH="$folder/$version" "$folder/venv/bin/python" "$folder/pads.py" 2> "$folder/log" || { cat "$folder/log"; exit 1; }
done
