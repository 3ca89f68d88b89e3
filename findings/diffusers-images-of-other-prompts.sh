#!/usr/bin/env bash
# Two prompts, two pictures, two images per prompt: half of diffusers' images are of one prompt and the other prompt's picture.
#
# diffusers 0.42.0; image to image, InstructPix2Pix and T2I adapters, num_images_per_prompt=2, a seed for each image.
# Expected: images 1 and 2 are of the first prompt and the first picture, 3 and 4 of the second ones, as with ControlNet.
# Seen: 1 and 3 begin with the first picture, 2 and 4 with the second. Prompts are repeated one by one (a, a, b, b), pictures
# and the adapters' features as a row (1, 2, 1, 2). An image made in such a batch is exactly what the other pair gives alone.
# No error; InstructPix2Pix warns of 4 prompts, where 2 were given, the other two say nothing.
# It matters to services that batch requests and let people ask for several images: they get somebody else's picture, edited by
# their prompt. One image per prompt, or one prompt, is right.
# Written: issue 2510 of huggingface/diffusers (2023) asks how pictures should be repeated; not that they are mixed up.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$(command -v python3.11 || command -v python3)" -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-compile torch==2.13.0 diffusers==0.42.0 transformers==5.23.0 numpy==1.26.4
cd "$folder"
"$folder/venv/bin/python" - 2> "$folder/log" <<'EOF' || { cat "$folder/log"; exit 1; }
import torch
from diffusers import (
    AutoencoderKL,
    ControlNetModel,
    DDIMScheduler,
    StableDiffusionAdapterPipeline,
    StableDiffusionControlNetPipeline,
    StableDiffusionImg2ImgPipeline,
    StableDiffusionInstructPix2PixPipeline,
    T2IAdapter,
    UNet2DConditionModel,
)

torch.manual_seed(0)
blocks = {"block_out_channels": (32, 64), "layers_per_block": 1}
shape = {**blocks, "cross_attention_dim": 32, "down_block_types": ("CrossAttnDownBlock2D", "DownBlock2D")}


def unet(channels=4):
    return UNet2DConditionModel(sample_size=8, in_channels=channels, up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"), **shape)


controlnet = ControlNetModel(conditioning_embedding_out_channels=(16, 32), **shape)
for zeros in (*controlnet.controlnet_down_blocks, controlnet.controlnet_mid_block, controlnet.controlnet_cond_embedding.conv_out):
    torch.nn.init.normal_(zeros.weight)
adapter = T2IAdapter(channels=(32, 64), num_res_blocks=1, downscale_factor=2, adapter_type="full_adapter")
common = {
    "vae": AutoencoderKL(**blocks, down_block_types=("DownEncoderBlock2D",) * 2, up_block_types=("UpDecoderBlock2D",) * 2),
    "scheduler": DDIMScheduler(1000, 0.00085, 0.012, "scaled_linear", clip_sample=False, steps_offset=1),
    "text_encoder": None, "tokenizer": None, "safety_checker": None, "feature_extractor": None, "requires_safety_checker": False,
}
size = {"height": 16, "width": 16}
pipelines = {
    "ControlNet": (StableDiffusionControlNetPipeline(unet=unet(), controlnet=controlnet, **common), size),
    "image to image": (StableDiffusionImg2ImgPipeline(unet=unet(), **common), {"strength": 0.5}),
    "InstructPix2Pix": (StableDiffusionInstructPix2PixPipeline(unet=unet(8), **common), {}),
    "T2I adapter": (StableDiffusionAdapterPipeline(unet=unet(), adapter=adapter, **common), size),
}
prompts, pictures = torch.randn(2, 77, 32), torch.rand(2, 3, 16, 16)


def made(name, prompts, pictures, seeds):
    pipeline, options = pipelines[name]
    pipeline.set_progress_bar_config(disable=True)
    return pipeline(
        prompt_embeds=prompts, negative_prompt_embeds=torch.zeros_like(prompts), image=pictures, num_images_per_prompt=2,
        generator=[torch.Generator().manual_seed(seed) for seed in seeds], num_inference_steps=4, output_type="latent", **options,
    ).images


def picture_of(name, image, number):
    """Return which picture gives `image` when its prompt and that picture are alone in the batch."""
    prompt = number // 2
    seeds = (2 * prompt, 2 * prompt + 1)
    off = []
    for picture in range(2):
        alone = made(name, prompts[prompt : prompt + 1], pictures[picture : picture + 1], seeds)[number % 2]
        off.append(((image - alone).norm() / alone.norm()).item())
    assert min(off) < 1e-4 and max(off) > 1e-2, "the behaviour changed"
    return off.index(min(off)) + 1


for name in pipelines:
    together = made(name, prompts, pictures, range(4))
    got = [picture_of(name, image, number) for number, image in enumerate(together)]
    print(f"{name}: images of prompts 1, 1, 2, 2 come from pictures {', '.join(map(str, got))}")
    assert got == ([1, 1, 2, 2] if name == "ControlNet" else [1, 2, 1, 2]), "the behaviour changed"
EOF
