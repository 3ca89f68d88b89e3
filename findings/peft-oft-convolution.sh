#!/usr/bin/env bash
# A new OFT adapter of peft changes a 3x3 convolution before any training: the middle of the picture counts nine times.
#
# peft 0.21.2, torch 2.13.0; OFTConfig on one Conv2d(8, 8, 3, padding=1), rotations as they are initialised, the identity.
# Expected: the network is as before until it is trained, and merging changes nothing: OFT rotates weights.
# Seen: the layer cuts its input into overlapping patches of 3x3, rotates them, adds them up again to an image, and gives that to
# the convolution. Each pixel is the sum of all patches that hold it: of 9 in the middle, of 1 in the corner. merge_adapter
# multiplies the weights by the identity: the merged network is the original one, and the adapter's is 219 percent off it.
# A 1x1 convolution is right, and so are BOFT and HRA, which rotate the weights themselves, with a 3x3.
# It matters to whoever trains OFT on a U-Net's convolutions: the training starts from a broken network, and what a merged
# checkpoint computes was never trained.
# Written: nowhere that we found; pull request 1996 of huggingface/peft (2024) mended another fault in its merging.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$(command -v python3.11 || command -v python3)" -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-compile torch==2.13.0 peft==0.21.2 transformers==5.23.0 numpy==1.26.4
"$folder/venv/bin/python" - 2> "$folder/log" <<'END' || { cat "$folder/log"; exit 1; }
import torch
from peft import BOFTConfig, HRAConfig, OFTConfig, get_peft_model

image = torch.randn(1, 8, 6, 6, generator=torch.Generator().manual_seed(0))
configs = {
    "OFT": OFTConfig(target_modules=["0"], r=0, oft_block_size=4),
    "BOFT": BOFTConfig(target_modules=["0"], boft_block_size=4),
    "HRA": HRAConfig(target_modules=["0"], r=4),
}


@torch.no_grad()
def change(kind, side):
    """How far a new adapter, and then its merged network, is off the network that it was put on."""
    torch.manual_seed(1)
    network = torch.nn.Sequential(torch.nn.Conv2d(8, 8, side, padding=side // 2)).eval()
    before = network(image)
    adapted = get_peft_model(network, configs[kind]).eval()
    outputs = adapted(image), adapted.merge_and_unload()(image)
    return [((output - before).norm() / before.norm()).item() for output in outputs]


for kind, side in (("OFT", 1), ("OFT", 3), ("BOFT", 3), ("HRA", 3)):
    fresh, merged = change(kind, side)
    print(f"{kind} on {side}x{side}, not trained: off by {fresh:.1%}, merged by {merged:.1%}")
    assert (fresh > 1) == (kind == "OFT" and side == 3) and merged < 1e-5, "the behaviour changed"

seen = []
layer = torch.nn.Conv2d(1, 1, 3, padding=1)
layer.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0][0, 0].int().tolist()))
network = torch.nn.Sequential(layer)
with torch.no_grad():
    get_peft_model(network, OFTConfig(target_modules=["0"], r=0, oft_block_size=9)).eval()(torch.ones(1, 1, 5, 5))
print("the convolution gets, for an image of ones:", *seen[-1], sep="\n")
assert seen[-1][0] == [1, 2, 3, 2, 1] and seen[-1][2] == [3, 6, 9, 6, 3], "the behaviour changed"
END
