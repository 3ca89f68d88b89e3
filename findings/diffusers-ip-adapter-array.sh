#!/usr/bin/env bash
# A picture given to diffusers' IP-Adapter as a float array is black to it, and a tensor is not normalised.
#
# diffusers 0.42.0, transformers 5.23.0 without torchvision: encode_image, which ip_adapter_image goes through; random weights.
# Expected: what holds for the pipelines' other pictures, whose type is the same: arrays and tensors between 0 and 1 are the
# picture that PIL's image is, or an error.
# Seen: CLIP's image processor divides by 255 again. A float array, or a list of tensors, gives the embedding of a black picture;
# an array of bytes gives the right one. A tensor of a batch passes by the processor: at the encoder's size it is taken as it
# is, between 0 and 1, and its embedding is half off. transformers 4 warned of images scaled already, 5 does not for CLIP.
# It matters to whoever has pictures as arrays, for instance a pipeline's output_type="np" or "pt", as ip_adapter_image: the
# result follows darkness instead of the picture, and looks like a weak adapter.
# Written: pull request 25688 of huggingface/transformers (2023) adds the warning; not for diffusers that we found.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$(command -v python3.11 || command -v python3)" -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-compile torch==2.13.0 diffusers==0.42.0 transformers==5.23.0 numpy==1.26.4
cd "$folder"
"$folder/venv/bin/python" - 2> "$folder/log" <<'EOF' || { cat "$folder/log"; exit 1; }
import warnings

import numpy as np
import torch
from diffusers import AutoencoderKL, DDIMScheduler, StableDiffusionPipeline
from PIL import Image
from transformers import CLIPImageProcessor, CLIPVisionConfig, CLIPVisionModelWithProjection

torch.manual_seed(0)
sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
config = CLIPVisionConfig(projection_dim=16, image_size=32, patch_size=8, **sizes)
pipeline = StableDiffusionPipeline(
    image_encoder=CLIPVisionModelWithProjection(config).eval(), vae=AutoencoderKL(), unet=None, text_encoder=None, tokenizer=None,
    scheduler=DDIMScheduler(steps_offset=1, clip_sample=False), safety_checker=None, requires_safety_checker=False,
    feature_extractor=CLIPImageProcessor(size={"shortest_edge": 32}, crop_size={"height": 32, "width": 32}),
)
warnings.simplefilter("error")
colours = np.random.default_rng(0).integers(0, 256, size=(4, 4, 3), dtype=np.uint8)
picture = Image.fromarray(colours).resize((32, 32), Image.BICUBIC)
array = np.asarray(picture).astype(np.float32) / 255
tensor = torch.from_numpy(array).permute(2, 0, 1)


@torch.no_grad()
def embedding(picture):
    return pipeline.encode_image(picture, "cpu", 1)[0]


def off(one, other):
    return ((one - other).norm() / other.norm()).item()


right, black = embedding(picture), embedding(Image.new("RGB", (32, 32)))
print(f"a black picture: {off(black, right):.0%} off the picture")
kinds = {"bytes": np.asarray(picture), "float array": array, "list of tensors": [tensor], "tensor": tensor[None]}
for kind, given in kinds.items():
    got = embedding(given)
    print(f"{kind}: {off(got, right):.0%} off the picture, {off(got, black):.2%} off black")
    if kind == "bytes":
        assert off(got, right) < 1e-5, "the behaviour changed"
    else:
        assert off(got, right) > 0.2 and (off(got, black) < 0.01) == (kind != "tensor"), "the behaviour changed"
pixels = [pipeline.image_processor.preprocess(given, height=32, width=32) for given in (picture, array, tensor)]
print(f"the same as image-to-image's picture: {max(off(each, pixels[0]) for each in pixels[1:]):.0%} off each other")
assert all(off(each, pixels[0]) < 1e-5 for each in pixels), "the behaviour changed"
EOF
