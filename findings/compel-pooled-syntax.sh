#!/usr/bin/env bash
# compel's pooled vector for Stable Diffusion XL is that of the prompt's spelling, blend, quotes, weights and all.
#
# compel 2.5.1, transformers 5.23.0, a CLIP text encoder of random weights, requires_pooled=True as CompelForSDXL has it.
# Expected: both results are of one prompt: ("cat", "dog").blend(1.0, 0.0) is cat, and (cat)1.0 is cat.
# Seen: the hidden states are exactly those of "cat". The pooled vector is that of the whole text as CLIP's tokenizer reads it, with
# the words "blend", "1" and "0" and both animals in it: farther from that of "cat" than that of "dog" is. Half of each is not
# between the two, but off by more than the distance between them.
# It matters because XL is conditioned by both: while one half of the conditioning is blended, the other says something of cat,
# dog and a formula, most so for the functions that compel is there for. No warning.
# Written: issue 96 of damian0815/compel (2024, open) says so of weights, and calls the effect on images small.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$(command -v python3.11 || command -v python3)" -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-compile torch==2.13.0 compel==2.5.1 diffusers==0.42.0 transformers==5.23.0 numpy==1.26.4
cd "$folder"
"$folder/venv/bin/python" - 2> "$folder/log" <<'EOF' || { cat "$folder/log"; exit 1; }
import json
from pathlib import Path
from string import printable

import torch
from compel import Compel, ReturnedEmbeddingsType
from transformers import CLIPTextConfig, CLIPTextModelWithProjection, CLIPTokenizer

torch.manual_seed(0)
signs = [sign for sign in printable if sign.isprintable() and sign != " "]
words = [*signs, *(f"{sign}</w>" for sign in signs), "<|startoftext|>", "<|endoftext|>"]
Path("vocab.json").write_text(json.dumps({word: number for number, word in enumerate(words)}))
Path("merges.txt").write_text("#version: 0.2\n")
tokenizer = CLIPTokenizer("vocab.json", "merges.txt", model_max_length=77, pad_token="<|endoftext|>")
sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2, "projection_dim": 16}
encoder = CLIPTextModelWithProjection(CLIPTextConfig(
    vocab_size=len(words), bos_token_id=len(words) - 2, eos_token_id=len(words) - 1, **sizes)).eval()
compel = Compel(
    tokenizer=tokenizer, text_encoder=encoder, requires_pooled=True, truncate_long_prompts=False,
    returned_embeddings_type=ReturnedEmbeddingsType.PENULTIMATE_HIDDEN_STATES_NON_NORMALIZED,
)


@torch.no_grad()
def spelled(text):
    """Return what the text encoder itself pools of `text`, read as plain words."""
    return encoder(tokenizer(text, padding="max_length", return_tensors="pt").input_ids).text_embeds


def off(one, other):
    return ((one - other).norm() / other.norm()).item()


cat_states, cat = compel("cat")
_, dog = compel("dog")
print(f"dog: pooled vector {off(dog, cat):.0%} off that of cat")
for prompt in ("(cat)1.0", '("cat", "dog").blend(1.0, 0.0)'):
    states, pooled = compel(prompt)
    print(f"{prompt}: states {off(states, cat_states):.0%} off those of cat, pooled vector {off(pooled, cat):.0%}")
    assert torch.equal(states, cat_states) and off(pooled, cat) > 0.5, "the behaviour changed"
    assert off(pooled, spelled(prompt)) < 1e-5, "the behaviour changed"
assert off(pooled, cat) > off(dog, cat), "the behaviour changed"
states, pooled = compel('("cat", "dog").blend(0.5, 0.5)')
both = (cat_states + compel("dog")[0]) / 2
print(f"half of each: states {off(states, both):.0%} off the mean, pooled vector {off(pooled, (cat + dog) / 2):.0%}")
assert off(states, both) < 1e-5 and (pooled - (cat + dog) / 2).norm() > (cat - dog).norm(), "the behaviour changed"
EOF
