#!/usr/bin/env bash
# diffusers reads a 16-bit mask as white wherever it is not almost black, and a 16-bit photo as up to 513 times white.
#
# diffusers 0.42.0, VaeImageProcessor with the mask settings of the inpainting pipelines; Pillow 12.0.0.
# Expected: brightness 300 of 65535 is black (half a percent), 40000 is a little above the middle.
# Seen: both are white, and everything from 128 on. The array is divided by 255 whatever its type, and a mask is then
# cut at 0.5. The same division makes a grey 16-bit image of 40000 into 312.7, where the VAE expects -1 to 1.
# It matters for masks and depth images from editors and scanners that write 16 bits per channel: the whole picture is
# repainted and nothing says so. A mask with 8 bits of the same picture works.
# Written: nowhere that we found.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$(command -v python3.11 || command -v python3)" -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-compile torch==2.13.0 diffusers==0.42.0 numpy==1.26.4 pillow==12.0.0
"$folder/venv/bin/python" - 2> "$folder/log" <<'EOF' || { cat "$folder/log"; exit 1; }
import numpy as np
from diffusers.image_processor import VaeImageProcessor
from PIL import Image

masks = VaeImageProcessor(do_normalize=False, do_binarize=True, do_convert_grayscale=True)


def repainted(brightness, dtype):
    """Return what share of an even mask of this brightness is repainted."""
    return masks.preprocess(Image.fromarray(np.full((16, 16), brightness, dtype))).mean().item()


seen = {(brightness, bits): repainted(brightness >> (16 - bits), dtype)
        for bits, dtype in ((8, np.uint8), (16, np.uint16)) for brightness in (100, 300, 20000, 40000)}
for (brightness, bits), share in seen.items():
    print(f"brightness {brightness} of 65535, stored in {bits} bits: {share:.0%} is repainted")
photo = VaeImageProcessor().preprocess(Image.fromarray(np.full((16, 16), 40000, np.uint16))).max().item()
print(f"an image of that brightness: {photo:.1f}, where white is 1")
assert [seen[b, 8] for b in (100, 300, 20000, 40000)] == [0, 0, 0, 1], "the behaviour changed"
assert [seen[b, 16] for b in (100, 300, 20000, 40000)] == [0, 1, 1, 1] and photo > 300, "the behaviour changed"
EOF
