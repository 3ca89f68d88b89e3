#!/usr/bin/env bash
# diffusers resizes a picture given as an array or tensor by its nearest pixels, whatever `resample` says.
#
# diffusers 0.42.0, VaeImageProcessor as the pipelines have it: resample is "lanczos", sizes are multiples of 8.
# Expected: the same picture, up to filters and rounding, for PIL's image, the array and the tensor of the same pixels.
# Seen: PIL's image goes through Lanczos, the other two through PyTorch's interpolate without a mode. Without a size asked for, 500
# pixels become 496 by leaving out every 125th row and column. Half the size is every second pixel: lines of one pixel in four
# are not there at all. resample="bilinear" changes PIL's picture, and no array. No warning.
# It matters to image to image, inpainting and ControlNet fed by arrays or by another pipeline's output_type="pt": lines get
# steps, thin ones vanish, and the edges of ControlNet's picture are elsewhere.
# Written: pull request 13500 of huggingface/diffusers (2026, open).
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$(command -v python3.11 || command -v python3)" -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-compile torch==2.13.0 diffusers==0.42.0 numpy==1.26.4
cd "$folder"
"$folder/venv/bin/python" - 2> "$folder/log" <<'EOF' || { cat "$folder/log"; exit 1; }
import warnings

import numpy as np
import torch
from diffusers.image_processor import VaeImageProcessor
from PIL import Image

warnings.simplefilter("error")
processor = VaeImageProcessor(vae_scale_factor=8)


def kinds(pixels):
    """Return the picture in the three ways that pipelines take it."""
    array = pixels.astype(np.float32) / 255
    return {"PIL": Image.fromarray(pixels), "array": array, "tensor": torch.from_numpy(array).permute(2, 0, 1)}


def prepared(pixels, processor=processor, **size):
    """Return the prepared pictures, white 1 and black 0."""
    return {kind: (processor.preprocess(each, **size)[0] + 1) / 2 for kind, each in kinds(pixels).items()}


lines = np.zeros((128, 128, 3), np.uint8)
lines[1::4] = 255
halves = prepared(lines, height=64, width=64)
numbered = np.broadcast_to(np.arange(500, dtype=np.float32)[:, None, None] / 499, (500, 500, 3))
small = processor.preprocess(numbered)[0, 0, :, 0]
kept = {round(499 * (each.item() + 1) / 2) for each in small}
lost = [row for row in range(500) if row not in kept]
for row in lost:
    line = np.zeros((500, 500, 3), np.uint8)
    line[row] = 255
    whites = {kind: each.max().item() for kind, each in prepared(line).items()}
    assert whites["PIL"] > 0.5 and whites["array"] == whites["tensor"] == 0, "the behaviour changed"
print(f"500 to 496: lines of one pixel lost from the array: rows {lost}")
assert lost == [124, 249, 374, 499] and len(small) == 496, "the behaviour changed"
for kind, each in halves.items():
    print(f"128 to 64, lines a quarter white: {each.mean():.3f} white as {kind}")
assert abs(halves["PIL"].mean() - 0.25) < 0.01, "the behaviour changed"
assert halves["array"].max() == halves["tensor"].max() == 0, "the behaviour changed"
noise = np.random.default_rng(0).integers(0, 256, size=(128, 128, 3), dtype=np.uint8)
other = VaeImageProcessor(vae_scale_factor=8, resample="bilinear")
one, two = (prepared(noise, each, height=64, width=64) for each in (processor, other))
same = {kind: torch.equal(one[kind], two[kind]) for kind in one}
print(f"equal with lanczos and bilinear: {same}")
assert same == {"PIL": False, "array": True, "tensor": True}, "the behaviour changed"
EOF
