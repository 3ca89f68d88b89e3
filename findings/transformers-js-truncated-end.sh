#!/usr/bin/env bash
# transformers.js cuts the end token off a prompt that is too long; the same tokenizer files in Python keep it.
#
# npm's @huggingface/transformers 4.3.2 and PyPI's transformers 5.23.0, one folder that the latter wrote.
# Expected: truncation keeps the first words and closes them: start, words, end, as in Python and in CLIP's training.
# Seen: in JavaScript the special tokens are added first and then the list is cut, so that the end token goes. A prompt
# that fits is equal in both.
# It matters for Stable Diffusion in the browser: CLIP's pooled output is read at the end token, which is found as the
# highest id. Without one it is read at some word (XL's second encoder), and all places after the cut see no end.
# Written: nowhere that we found.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$(command -v python3.11 || command -v python3)" -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-compile transformers==5.23.0 numpy==1.26.4
cd "$folder"
npm install --silent --ignore-scripts --no-audit --no-fund @huggingface/transformers@4.3.2 > "$folder/log" 2>&1
cat > tokens.mjs <<'END'
import { AutoTokenizer, env } from "@huggingface/transformers";

env.allowRemoteModels = false;
env.localModelPath = process.cwd();
const tokenizer = await AutoTokenizer.from_pretrained("tokenizer");
const ids = (text) => Array.from(tokenizer(text, { truncation: true, max_length: 8 }).input_ids.data, Number);
console.log(JSON.stringify(process.argv.slice(2).map(ids)));
END
"$folder/venv/bin/python" - 2> "$folder/log" <<'END' || { cat "$folder/log"; exit 1; }
import json
import subprocess

from transformers import CLIPTokenizer

letters = [chr(each) for each in range(33, 127)]
words = [*letters, *(each + "</w>" for each in letters), "ca", "cat</w>", "<|startoftext|>", "<|endoftext|>"]
with open("vocab.json", "w") as file:
    json.dump({word: number for number, word in enumerate(words)}, file)
with open("merges.txt", "w") as file:
    file.write("#version: 0.2\nc a\nca t</w>\n")
tokenizer = CLIPTokenizer("vocab.json", "merges.txt", pad_token="<|endoftext|>")
tokenizer.save_pretrained("tokenizer")
prompts = ["a cat", "a cat a cat a cat a cat"]
python = [tokenizer(each, truncation=True, max_length=8).input_ids for each in prompts]
javascript = json.loads(subprocess.check_output(["node", "tokens.mjs", *prompts]))
end = tokenizer.eos_token_id
for prompt, one, other in zip(prompts, python, javascript, strict=True):
    print(f"{prompt!r} in 8 tokens: Python {one}, JavaScript {other}; the end is {end}")
assert python[0] == javascript[0] and python[1][-1] == end, "the behaviour changed"
assert len(javascript[1]) == 8 and end not in javascript[1], "the behaviour changed"
END
