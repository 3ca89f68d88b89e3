#!/usr/bin/env bash
# LoRA weights by block in diffusers leave a LoCon's resnets at full strength in the middle and in blocks without attention.
#
# diffusers 0.42.0, peft 0.21.2; an adapter on resnets (conv1, conv2) and attention of a UNet, as LoCon files have both.
# Expected: set_adapters("style", {"down": 0, "mid": 0, "up": 0}) is the base model, as set_adapters("style", 0) is.
# Seen: more than a third of the effect is there. Weights are looked up by the name of an attention layer. A resnet beside one
# takes that one's weight; the middle block's two resnets, and those of blocks without attention, find none and get 1. In Stable
# Diffusion 1.5 these are down_blocks.3, mid_block and up_blocks.0, the deepest ones. With an adapter on attention alone all is
# well.
# It matters to whoever turns off the blocks that make the style or the composition: the setting is taken, and these layers
# act in full, at weights below 1 more than all others. No warning.
# Written: nowhere that we found; pull request 7352 of huggingface/diffusers (2024) brings weights by block.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$(command -v python3.11 || command -v python3)" -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-compile torch==2.13.0 diffusers==0.42.0 transformers==5.23.0 peft==0.21.2 \
    accelerate==1.15.0 numpy==1.26.4
cd "$folder"
"$folder/venv/bin/python" - 2> "$folder/log" <<'EOF' || { cat "$folder/log"; exit 1; }
import torch
from diffusers import UNet2DConditionModel
from peft import LoraConfig

ATTENTION = ["to_q", "to_k", "to_v", "to_out.0"]
RESNETS = ["conv1", "conv2"]


def unet(layers=()):
    torch.manual_seed(0)
    network = UNet2DConditionModel(
        sample_size=8, block_out_channels=(32, 32, 64), layers_per_block=1, cross_attention_dim=32,
        down_block_types=("CrossAttnDownBlock2D", "CrossAttnDownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "CrossAttnUpBlock2D", "CrossAttnUpBlock2D"),
    ).eval()
    if layers:
        network.add_adapter(LoraConfig(r=4, lora_alpha=4, target_modules=list(layers), init_lora_weights=False), "style")
    return network


@torch.no_grad()
def output(network):
    generator = torch.Generator().manual_seed(1)
    return network(torch.randn(1, 4, 8, 8, generator=generator), 5, torch.randn(1, 77, 32, generator=generator)).sample


base = output(unet())
off = {}
for name, layers in (("attention", ATTENTION), ("attention and resnets", ATTENTION + RESNETS)):
    for weight in (1.0, 0.0, {"down": 0.0, "mid": 0.0, "up": 0.0}):
        network = unet(layers)
        network.set_adapters(["style"], [weight])
        off[name, str(weight)] = ((output(network) - base).norm() / base.norm()).item()
        print(f"{name}, weight {weight}: {off[name, str(weight)]:.2%} off the base model")
kept = sorted({key.rsplit(".", 1)[0] for key, layer in network.named_modules() if getattr(layer, "scaling", {}).get("style")})
print(f"still at 1: {', '.join(kept)}")
by_block = "{'down': 0.0, 'mid': 0.0, 'up': 0.0}"
assert off["attention", by_block] == off["attention and resnets", "0.0"] == 0, "the behaviour changed"
assert off["attention and resnets", by_block] > 0.2 * off["attention and resnets", "1.0"], "the behaviour changed"
names = {"down_blocks.2.resnets.0", "mid_block.resnets.0", "mid_block.resnets.1", "up_blocks.0.resnets.0", "up_blocks.0.resnets.1"}
assert set(kept) == names, "the behaviour changed"
EOF
