#!/usr/bin/env bash
# litert-torch converts F.interpolate(mode="nearest") to other pixels, unless the factor is a whole number.
#
# litert-torch 0.10.0 with torch 2.13.0, run by ai-edge-litert 2.3.0; interpolate(x, size=(9, 9)) of 5x5 pixels.
# Expected: torch's nearest, which takes pixel floor(i * 5 / 9): 0 0 1 1 2 2 3 3 4 in each row.
# Seen: 0 0 1 1 2 3 3 4 4. The file has RESIZE_NEAREST_NEIGHBOR with half-pixel centres, which is torch's
# "nearest-exact". No warning; 5 to 10 is right, since both agree at whole factors.
# It matters for U-Nets at sizes that are no multiple of 64: latents of 9x9 go down to 5x5 and are brought back by
# exactly this call (diffusers' upsample_size), and the image comes out shifted against its skip connections.
# Written: nowhere that we found.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$(command -v python3.11 || command -v python3)" -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-compile litert-torch==0.10.0 torch==2.13.0
"$folder/venv/bin/python" - 2> "$folder/log" <<'EOF' || { cat "$folder/log"; exit 1; }
import contextlib
import io

import litert_torch
import torch


class Resize(torch.nn.Module):
    def __init__(self, side):
        super().__init__()
        self.side = side

    def forward(self, x):
        return torch.nn.functional.interpolate(x, size=(self.side, self.side), mode="nearest")


image = torch.arange(5.0).reshape(1, 1, 1, 5).repeat(1, 1, 5, 1)
rows = {}
for side in (9, 10):
    resize = Resize(side).eval()
    with contextlib.redirect_stdout(io.StringIO()):
        converted = litert_torch.convert(resize, (image,))(image)
    rows[side] = resize(image)[0, 0, 0].int().tolist(), converted[0, 0, 0].astype(int).tolist()
    print(f"5 to {side}: torch {rows[side][0]}, the converted file {rows[side][1]}")
assert rows[9] == ([0, 0, 1, 1, 2, 2, 3, 3, 4], [0, 0, 1, 1, 2, 3, 3, 4, 4]), "the behaviour changed"
assert rows[10][0] == rows[10][1], "the behaviour changed"
EOF
