#!/usr/bin/env bash
# NumPy's sum of a thousand ones is 256 in bfloat16, 16 in float8 and -8 in int4; a deviation is 15 times too small.
#
# ml_dtypes 0.5.4 with numpy 1.26.4 and with 2.4.6.
# Expected: what NumPy does with its own small types: int8 is summed in int64, the mean of float16 is taken in float32.
# Seen: every sum is kept in the type itself. Once bfloat16's sum is 256, adding 1 is rounded away; int4 goes round
# modulo 16. mean, var and std follow: for a million numbers of deviation 1 in bfloat16, std says 0.065. A product of
# matrices is right (it is accumulated in float32), and so is everything with dtype=np.float32. sort leaves NaN where
# it was, with larger numbers before smaller ones. No warning.
# It matters to whoever takes statistics of a bfloat16 checkpoint, or of int4 weights, to choose scales: safetensors
# gives NumPy such arrays, and the numbers look like those of a healthy layer.
# Written: issue 63 of jax-ml/ml_dtypes (2023, closed) has the sum of bfloat16; the README's pitfalls do not.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
for numpy in 1.26.4 2.4.6; do
    "$(command -v python3.11 || command -v python3)" -m venv --clear "$folder/venv"
    "$folder/venv/bin/pip" install -q --no-compile ml_dtypes==0.5.4 "numpy==$numpy"
    "$folder/venv/bin/python" - 2> "$folder/log" <<'END' || { cat "$folder/log"; exit 1; }
import ml_dtypes
import numpy as np

print("numpy", np.__version__)
sums = {}
for kind in (np.float16, np.int8, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.int4):
    ones = np.ones(1000, kind)
    sums[np.dtype(kind).name] = float(ones.sum()), float(ones.mean())
    print(f"{np.dtype(kind).name}: a thousand ones are {ones.sum()}, their mean is {ones.mean()}")
weights = np.random.default_rng(0).normal(size=(1024, 1024)).astype(np.float32)
small = weights.astype(ml_dtypes.bfloat16)
deviations = [float(each) for each in (weights.std(), small.std(), small.std(dtype=np.float32))]
print("deviation {:.3f} in float32, {:.3f} in bfloat16, {:.3f} with dtype=float32".format(*deviations))
product = float((np.ones((1, 1000), ml_dtypes.bfloat16) @ np.ones((1000, 1), ml_dtypes.bfloat16)).item())
sorted_ = np.sort(np.array([3, np.nan, 1], ml_dtypes.bfloat16)).astype(float).tolist()
print(f"the same ones as a product of matrices: {product}; 3, nan, 1 sorted: {sorted_}")
assert sums["float16"] == (1000, 1) and sums["int8"] == (1000, 1), "NumPy itself changed"
assert sums["bfloat16"][0] == 256 and sums["float8_e4m3fn"][0] == 16, "the behaviour changed"
assert sums["int4"][0] == -8 and deviations[1] < 0.1 < 0.9 < deviations[2], "the behaviour changed"
assert product == 1000 and sorted_[::2] == [3, 1], "the behaviour changed"
END
done
