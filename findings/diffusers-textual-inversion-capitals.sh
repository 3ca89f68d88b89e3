#!/usr/bin/env bash
# A textual inversion whose token has a capital letter gives diffusers only the first of its vectors.
#
# diffusers 0.42.0 with transformers 5.23.0; files with three vectors each, for <dog> and for <Cat>.
# Expected: "a <Cat>" in a prompt stands for three tokens, as "a <dog>" does.
# Seen: <dog> gives three ids, <Cat> one, and so does <DOG> for <dog>. The tokenizer finds an added token in any case
# and tokenize() gives it back in lower case; the pipeline looks for that spelling to write the further tokens behind
# it, and finds it neither among the added tokens nor in the prompt. No warning.
# It matters to users of published embeddings, many of which have capitals: the image shows something of the subject,
# but the other vectors are never used.
# Written: nowhere that we found.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$(command -v python3.11 || command -v python3)" -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-compile torch==2.13.0 diffusers==0.42.0 transformers==5.23.0 \
    accelerate==1.15.0 numpy==1.26.4
cd "$folder"
"$folder/venv/bin/python" - 2> "$folder/log" <<'EOF' || { cat "$folder/log"; exit 1; }
import json
from pathlib import Path
from string import printable

import torch
from diffusers import DDIMScheduler, StableDiffusionPipeline
from safetensors.torch import save_file
from transformers import CLIPTextConfig, CLIPTextModel, CLIPTokenizer

signs = [sign for sign in printable if sign.isprintable() and sign != " "]
words = [*signs, *(f"{sign}</w>" for sign in signs), "<|startoftext|>", "<|endoftext|>"]
Path("tokenizer").mkdir()
Path("tokenizer/vocab.json").write_text(json.dumps({word: n for n, word in enumerate(words)}))
Path("tokenizer/merges.txt").write_text("#version: 0.2\n")
sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
encoder = CLIPTextModel(CLIPTextConfig(vocab_size=len(words), bos_token_id=len(words) - 2,
                                       eos_token_id=len(words) - 1, **sizes))
others = dict.fromkeys(("vae", "unet", "safety_checker", "feature_extractor"))
pipeline = StableDiffusionPipeline(
    text_encoder=encoder, tokenizer=CLIPTokenizer.from_pretrained("tokenizer", model_max_length=77),
    scheduler=DDIMScheduler(steps_offset=1, clip_sample=False), **others, requires_safety_checker=False,
)
counts = {}
for token in ("<dog>", "<Cat>"):
    save_file({token: torch.randn(3, 32)}, f"{token[1:-1]}.safetensors")
    pipeline.load_textual_inversion(f"{token[1:-1]}.safetensors")
for prompt in ("a <dog>", "a <DOG>", "a <Cat>", "a <cat>"):
    text = pipeline.maybe_convert_prompt(prompt, pipeline.tokenizer)
    added = [one for one in pipeline.tokenizer(text).input_ids if one >= len(words)]
    counts[prompt] = len(added)
    print(f"{prompt!r} becomes {text!r}: ids of the embedding {added}")
assert counts == {"a <dog>": 3, "a <DOG>": 1, "a <Cat>": 1, "a <cat>": 1}, "the behaviour changed"
EOF
