#!/usr/bin/env bash
# On a CPU with AVX-512, bitsandbytes unpacks 4-bit weights wrongly where a block of them reaches over the end of a row.
#
# bitsandbytes 0.50.2, torch 2.13.0; NF4 and FP4, float32, float16 and bfloat16; a CPU with AVX-512.
# Expected: quantize_4bit numbers its blocks through the whole matrix, and dequantize_4bit reads them so: 10 percent off for
# blocks of 128, whatever the shape.
# Seen: 320x320, a layer of Stable Diffusion, is 22 percent off in blocks of 128, and with 96 columns 28 percent in the usual
# blocks of 64. The numbers are those of "columns // block" scales for each row: two for 320, one for 96. Nine of ten weights
# get the scale of another block. The same bytes given the shape of one long row are right, and so are matrices whose columns
# are a multiple of the block, or not one of 16. Linear4bit's outputs are as far off. Without AVX-512 a plain loop is used,
# which counts through the matrix.
# It matters for widths such as 96, 160 or 4304 (SigLIP's MLP) at the usual block, and 320 at larger ones: the file is right,
# and a server's CPU, where one merges, converts and compares, reads it worse. No warning; the numbers look plausible.
# Written: nowhere that we found; pull request 1828 (2025) of the project calls it an accuracy issue, of blocks from 2048 on.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$(command -v python3.11 || command -v python3)" -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-compile torch==2.13.0 bitsandbytes==0.50.2 numpy==1.26.4
"$folder/venv/bin/python" - 2> "$folder/log" <<'END' || { cat "$folder/log"; exit 1; }
import torch
from bitsandbytes.functional import QuantState, dequantize_4bit, quantize_4bit

assert torch.backends.cpu.get_cpu_capability() == "AVX512", "this shows itself on a CPU with AVX-512 only"


def off(shape, block, kind, dtype):
    """How far the weights come back off, in their shape and as one long row."""
    weights = torch.randn(shape, generator=torch.Generator().manual_seed(0)).to(dtype)
    packed, state = quantize_4bit(weights, blocksize=block, quant_type=kind)
    row = QuantState(state.absmax, torch.Size([weights.numel()]), state.code, block, kind, dtype)
    back = dequantize_4bit(packed, state), dequantize_4bit(packed, row).reshape(shape)
    return [((each - weights).float().norm() / weights.float().norm()).item() for each in back]


for shape, block, wrong in (
    ((320, 320), 64, False), ((320, 320), 128, True), ((320, 768), 128, False), ((64, 96), 64, True),
    ((64, 100), 64, False), ((1152, 4304), 64, True),
):
    for kind in ("nf4", "fp4"):
        for dtype in (torch.float32, torch.float16, torch.bfloat16):
            shaped, long = off(shape, block, kind, dtype)
            assert (shaped > 1.5 * long) == wrong and long < 0.15, "the behaviour changed"
            if dtype == torch.float32 and kind == "nf4":
                print(f"{shape[0]}x{shape[1]}, NF4 in blocks of {block}: {shaped:.1%} off, as one row {long:.1%}")
END
