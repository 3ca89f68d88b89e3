"""Long, weighted prompts with textual inversions and skipped layers, against diffusers' own pipeline."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from safetensors.torch import save_file

from msd.bundle import Embedding, file_facts, open_bundle
from msd.cli.convert import convert
from msd.cli.generate import generate
from msd.errors import BadConfig
from msd.graph.parity import psnr
from msd.run.runners.interpreter import Interpreter
from msd.run.runtime.pipeline import Pipeline
from msd.run.runtime.tokenizer import open_tokenizer
from tests import checkpoints
from tests.drawings import nchw, nhwc
from tests.late import diffusers

SKIP, CHUNKS, STEPS, GUIDANCE = 1, 2, 4, 5.0
PROMPT = "a (red dog:1.4) and <cat> [over] it, " * 3
NEGATIVE = "blurry <cat>"
START = np.random.default_rng(1).standard_normal((1, 16, 16, 4), np.float32)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint, a textual inversion of two vectors, and the checkpoint converted with everything."""
    folder = tmp_path_factory.mktemp("prompts")
    config = checkpoints.vary(checkpoints.TINY, text_encoder={"num_hidden_layers": 3})
    checkpoints.write(folder / "sd", config)
    vectors = torch.randn(2, 48, generator=torch.Generator().manual_seed(2)) * 0.1
    save_file({"emb_params": vectors}, folder / "cat.safetensors")
    done = converted(folder, "out", "--prompt-chunks", CHUNKS)
    assert done.exit_code == 0, done.output
    assert "prompts may contain <cat>, of cat.safetensors\n" in done.stdout
    return folder


def converted(folder: Path, out: str, *options: Any) -> Any:
    embedding = f"{folder / 'cat.safetensors'}:<cat>"
    command = (folder / "sd", "-o", folder / out, "--recipe", "float32", "--embedding", embedding)
    return CliRunner().invoke(convert, [*map(str, (*command, "--clip-skip", SKIP, *options))])


@pytest.fixture(scope="module")
def theirs(folder: Path) -> Any:
    pipeline = diffusers.StableDiffusionPipeline.from_pretrained(folder / "sd", safety_checker=None)
    pipeline.set_progress_bar_config(disable=True)
    # diffusers 0.42 looks for the final norm in a module that transformers 5 no longer has.
    object.__setattr__(pipeline.text_encoder, "text_model", pipeline.text_encoder)
    pipeline.load_textual_inversion(str(folder / "cat.safetensors"), token="<cat>")
    return pipeline


def embeds(pipeline: Any, pieces: list[tuple[str, float]]) -> Any:
    """The context of a prompt: chunks of 75 tokens, weights, means restored, chunks joined."""
    tokenizer, ids, weights = pipeline.tokenizer, [], []
    for text, weight in pieces:
        found = tokenizer(pipeline.maybe_convert_prompt(text, tokenizer))["input_ids"][1:-1]
        ids += found
        weights += [weight] * len(found)
    parts = []
    for at in range(0, 75 * CHUNKS, 75):
        inner, padding = ids[at : at + 75], 75 - len(ids[at : at + 75])
        end = [tokenizer.eos_token_id, *[tokenizer.pad_token_id] * padding]
        tokens = torch.tensor([[tokenizer.bos_token_id, *inner, *end]])
        states = pipeline.text_encoder(tokens, output_hidden_states=True).hidden_states
        z = pipeline.text_encoder.text_model.final_layer_norm(states[-(SKIP + 1)])
        factors = torch.tensor([1.0, *weights[at : at + 75], *[1.0] * (padding + 1)])
        weighted = z * factors[None, :, None]
        parts.append(weighted * (z.mean() / weighted.mean()))
    return torch.cat(parts, 1)


def test_the_image_is_diffusers(folder: Path, theirs: Any) -> None:
    strong = [("a ", 1.0), ("red dog", 1.4), (" and <cat> ", 1.0), ("over", 1 / 1.1), (" it, ", 1.0)] * 3
    context, away = embeds(theirs, strong), embeds(theirs, [(NEGATIVE, 1.0)])
    settings = {"num_inference_steps": STEPS, "guidance_scale": GUIDANCE, "output_type": "latent"}
    latents = nchw(START)
    wanted = theirs(prompt_embeds=context, negative_prompt_embeds=away, latents=latents, **settings).images
    with Pipeline(open_bundle(folder / "out")) as ours:
        request = {"steps": STEPS, "guidance": GUIDANCE, "latents": START, "negative_prompt": NEGATIVE}
        found = ours.generate(PROMPT, prompt_syntax="weights", **request)
        plain = ours.generate(PROMPT, **request)
        assert found.metadata["prompt_syntax"] == "weights"
        assert psnr(nhwc(wanted), found.latents) >= 65
        assert psnr(nhwc(wanted), plain.latents) < 50
        with pytest.raises(BadConfig, match=r"the weight '1\.4\.', which is no number"):
            ours.generate("(red:1.4.)", prompt_syntax="weights")


def test_the_manifest_and_the_tokenizer_know_the_new_tokens(folder: Path, theirs: Any) -> None:
    manifest = open_bundle(folder / "out").manifest
    assert manifest.source.embeddings == (Embedding("embedding/cat.safetensors", ("<cat>", "<cat>_1")),)
    assert manifest.source.files["embedding/cat.safetensors"] == file_facts(folder / "cat.safetensors")
    assert manifest.configuration.prompt_chunks == CHUNKS
    facts = manifest.configuration.components["text_encoder"]
    assert (facts["layers"], facts["vocabulary"]) == (3 - SKIP, 518)
    (tokens,) = manifest.components["text_encoder"].inputs
    assert (tokens.shape, tokens.table_length) == ((1, 77), 518)
    ours = open_tokenizer(folder / "out" / "tokenizer")
    prompt = theirs.maybe_convert_prompt(NEGATIVE, theirs.tokenizer)
    assert ours.ids(NEGATIVE) == theirs.tokenizer(prompt)["input_ids"]


def test_a_text_encoder_with_skipped_layers_is_diffusers(folder: Path, theirs: Any) -> None:
    """Without guidance: diffusers skips no layer for the negative prompt."""
    wanted, _ = theirs.encode_prompt("a <cat>", "cpu", 1, False, clip_skip=SKIP)
    whole, _ = theirs.encode_prompt("a <cat>", "cpu", 1, False)
    bundle = open_bundle(folder / "out")
    tokens = open_tokenizer(bundle.folder / "tokenizer").encode("a <cat>")[None]
    with Interpreter(bundle.path("text_encoder"), float_weights=True) as network:
        (found,) = network.run({"tokens": tokens}).values()
    assert psnr(wanted.detach().numpy(), found.reshape(wanted.shape)) >= 80
    assert psnr(whole.detach().numpy(), found.reshape(wanted.shape)) < 50


def test_a_table_in_its_own_file_has_the_new_rows(folder: Path, theirs: Any) -> None:
    out = folder / "split"
    command = (folder / "sd", "-o", out, "--recipe", "tflite-gpu-w8", "--component", "text_encoder")
    embedding = f"{folder / 'cat.safetensors'}:<cat>"
    done = CliRunner().invoke(convert, [*map(str, (*command, "--embedding", embedding, "--clip-skip", SKIP))])
    assert done.exit_code == 0, done.output
    tokens = np.arange(518 - 77, 518, dtype=np.int32)[None]
    table = theirs.text_encoder.get_input_embeddings().weight.detach().numpy()
    with Interpreter(out / "token_embedding.tflite", float_weights=True) as network:
        (found,) = network.run({"tokens": tokens}).values()
    np.testing.assert_allclose(found[0], table[518 - 77 :], rtol=0, atol=np.abs(table).max() / 100)


def test_another_conversion_into_the_same_folder_is_refused(folder: Path) -> None:
    def refused(*options: Any) -> str:
        done = converted(folder, "out", *options)
        assert done.exit_code == 1, done.output
        return str(done.stderr.strip().splitlines()[-1])

    assert converted(folder, "out", "--prompt-chunks", CHUNKS).exit_code == 0
    assert "another conversion of this checkpoint (prompt_chunks 2)" in refused()
    another = f"{folder / 'cat.safetensors'}:<dog>"
    said = refused("--prompt-chunks", CHUNKS, "--embedding", another)
    assert "holds a conversion with the embeddings <cat> of embedding/cat.safetensors; give" in said
    assert "3 layers cannot be skipped: sd's text encoder has 3" in refused("--clip-skip", 3)
    assert "is in the vocabulary already" in refused("--embedding", f"{folder / 'cat.safetensors'}:<CAT>")


def test_the_command_says_what_it_cuts(folder: Path, tmp_path: Path) -> None:
    prompt = "a " * 150 + "cat (very red:0.5)"
    command = [
        str(folder / "out"),
        "--prompt",
        prompt,
        "--steps",
        "1",
        "-o",
        str(tmp_path / "x.png"),
        "--json",
    ]
    done = CliRunner().invoke(generate, [*command, "--negative-prompt", "dog"])
    assert done.exit_code == 0, done.output
    warning = "warning: a prompt has room for 150 tokens, and this was cut: cat ( very red : 0 . 5 )"
    assert warning in done.stderr.splitlines()
    assert json.loads(done.stdout)["prompt_syntax"] == "plain"
    done = CliRunner().invoke(generate, [*command, "--force", "--prompt-syntax", "weights"])
    assert "this was cut: cat very red\n" in done.stderr
    command[2] = "a (cat:1..)"
    done = CliRunner().invoke(generate, [*command, "--force", "--prompt-syntax", "weights"])
    assert done.exit_code == 1
    assert done.stderr.strip().endswith("which is no number; one was expected, as in (word:1.2)")
