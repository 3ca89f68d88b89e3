#!/usr/bin/env bash
# diffusers' tiled VAE cuts the last tile of some pictures one latent wide: the right edge is decoded without context.
#
# diffusers 0.42.0, AutoencoderKL with enable_tiling, Stable Diffusion's tile of 64 latents and overlap of a quarter.
# Expected: tiles of about one size, or at least none narrower than the overlap (16 latents, 128 pixels).
# Seen: tiles begin every 48 latents, to the end of the picture, even where the tile before already covers the rest. At
# 97 latents (776 pixels) the third tile is one latent wide. Its 8 columns of pixels are blended over the same columns of
# the second tile, the last of them almost alone. With random weights the edge is 70 percent off the untiled picture, the
# rest 7. 145, 193 and so on likewise, and the encoder's tiles too.
# It matters for sizes that users or photos choose: a line at the right or lower edge at 776 pixels that 768 and 832
# do not have.
# Written: nowhere that we found.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$(command -v python3.11 || command -v python3)" -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-compile torch==2.13.0 diffusers==0.42.0 numpy==1.26.4
"$folder/venv/bin/python" - 2> "$folder/log" <<'END' || { cat "$folder/log"; exit 1; }
import torch
from diffusers import AutoencoderKL

torch.manual_seed(0)
vae = AutoencoderKL(
    block_out_channels=(8, 8, 8, 8), down_block_types=("DownEncoderBlock2D",) * 4, norm_num_groups=4,
    up_block_types=("UpDecoderBlock2D",) * 4, sample_size=512,
).eval()
widths = []
vae.decoder.register_forward_pre_hook(lambda _, inputs: widths.append(inputs[0].shape[-1]))
seen, errors = {}, {}
for width in (96, 97, 104, 145):
    latent = torch.randn(1, 4, 16, width)
    with torch.no_grad():
        vae.disable_tiling()
        whole = vae.decode(latent).sample
        vae.enable_tiling()
        widths.clear()
        tiled = vae.decode(latent).sample
    seen[width] = list(widths)
    columns = (tiled - whole).square().mean((0, 1, 2)).sqrt() / whole.std()
    errors[width] = columns[-4:].mean().item(), columns[:-64].mean().item()
    print(f"{width} latents: tiles of {seen[width]}; off by {errors[width][0]:.1%} in the last 4 columns of pixels, "
          f"by {errors[width][1]:.1%} up to the last 64")
assert seen[97] == [64, 49, 1] and seen[96] == [64, 48] and seen[145][-1] == 1, "the behaviour changed"
END
