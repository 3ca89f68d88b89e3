"""What is added to a Stable Diffusion XL: LoRA, textual inversions, skipped layers, other autoencoders."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

import msd
from msd.bundle import open_bundle
from msd.conversion.job import open_job
from msd.conversion.settings import Settings
from msd.conversion.sources.embedding import TABLE, add
from msd.conversion.sources.formats import open_checkpoint
from msd.conversion.sources.lora import merge
from msd.errors import BadCheckpoint, BadConfig
from msd.graph.parity import psnr
from msd.models.tiny_config import TinyDecoderConfig
from msd.run.runners.interpreter import Interpreter
from msd.run.runtime.pipeline import Pipeline
from tests import checkpoints, loras, xl_checkpoints
from tests.drawings import nchw, nhwc
from tests.late import diffusers
from tests.loras import Factors, Tensors

START = np.random.default_rng(1).standard_normal((1, 8, 12, 4), np.float32)
BLOCK = "down_blocks.1.attentions.0.transformer_blocks.1"
LAYERS = {
    ("unet", f"{BLOCK}.attn1.to_q"): "input_blocks_4_1_transformer_blocks_1_attn1_to_q",
    ("unet", f"{BLOCK}.attn2.to_k"): "input_blocks_4_1_transformer_blocks_1_attn2_to_k",
    ("unet", "down_blocks.2.attentions.1.proj_in"): "input_blocks_8_1_proj_in",
    ("unet", "mid_block.attentions.0.transformer_blocks.2.ff.net.2"): (
        "middle_block_1_transformer_blocks_2_ff_net_2"
    ),
    ("unet", "up_blocks.0.attentions.2.transformer_blocks.0.attn2.to_v"): (
        "output_blocks_2_1_transformer_blocks_0_attn2_to_v"
    ),
    ("unet", "up_blocks.1.upsamplers.0.conv"): "output_blocks_5_2_conv",
    ("unet", "down_blocks.1.resnets.0.conv_shortcut"): "input_blocks_4_0_skip_connection",
    ("unet", "add_embedding.linear_1"): "label_emb_0_0",
    ("text_encoder", "encoder.layers.0.self_attn.q_proj"): "",
    ("text_encoder_2", "encoder.layers.1.self_attn.q_proj"): "",
    ("text_encoder_2", "encoder.layers.2.mlp.fc1"): "",
}
"""Layers, with the names of the U-Net's in CompVis's code, underscored."""
KOHYA = {"text_encoder": "lora_te1_text_model_", "text_encoder_2": "lora_te2_text_model_"}


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, diffusers.StableDiffusionXLPipeline]:
    folder = tmp_path_factory.mktemp("xl") / "checkpoint"
    return folder, xl_checkpoints.write(folder)


def modules(pipeline: diffusers.StableDiffusionXLPipeline) -> Mapping[str, torch.nn.Module]:
    """Return the networks, the encoders without what transformers' name puts before their layers."""
    encoders = {n: getattr(pipeline, n) for n in KOHYA}
    return {"unet": pipeline.unet, **{n: getattr(e, "text_model", e) for n, e in encoders.items()}}


def kohya(factors: Factors, compvis: bool) -> Tensors:
    tensors = {}
    for (component, layer), (down, up, alpha) in factors.items():
        plain = layer.replace(".", "_")
        name = LAYERS[component, layer] if compvis and component == "unet" else plain
        name = f"{KOHYA.get(component, 'lora_unet_')}{name}"
        tensors |= {f"{name}.lora_down.weight": down, f"{name}.lora_up.weight": up}
        tensors[f"{name}.alpha"] = torch.tensor(alpha)
    return tensors


def merged(found: Any, factors: Factors, given: Mapping[str, torch.nn.Module], scaled: bool) -> None:
    """What is merged is W + alpha / rank · up · down, and nothing else changed."""
    for (component, layer), (down, up, alpha) in factors.items():
        weight = given[component].get_submodule(layer).weight.detach()
        factor = 0.5 * (alpha / len(down) if scaled else 1.0)
        change = torch.einsum("or,rihw->oihw", up[:, :, 0, 0], down) if down.ndim == 4 else up @ down
        got = found.weights[component][f"{layer}.weight"].load()
        np.testing.assert_allclose(got, (weight + factor * change).numpy(), atol=1e-5)


@pytest.mark.parametrize("naming", ["kohya", "compvis", "peft", "base_model"])
def test_a_lora_of_each_naming_is_merged(
    naming: str, theirs: tuple[Path, diffusers.StableDiffusionXLPipeline], tmp_path: Path
) -> None:
    given = modules(theirs[1])
    factors = loras.draw(given, LAYERS)
    if naming in ("kohya", "compvis"):
        tensors = kohya(factors, naming == "compvis")
    else:
        between = ".base_model.model." if naming == "base_model" else "."
        tensors = {
            f"{component}{between}{layer}.lora_{end}.weight": tensor
            for (component, layer), pair in factors.items()
            for end, tensor in zip("AB", pair[:2], strict=True)
        }
    path = loras.save(tmp_path / "x.safetensors", tensors)
    checkpoint = open_checkpoint(theirs[0])
    found = merge(checkpoint, [(path, 0.5)])
    merged(found, factors, given, naming in ("kohya", "compvis"))
    changed = {
        (c, n) for c, ts in found.weights.items() for n, t in ts.items() if t is not checkpoint.weights[c][n]
    }
    assert changed == {(component, f"{layer}.weight") for component, layer in factors}


def test_diffusers_reads_compvis_names_as_the_same_blocks(
    theirs: tuple[Path, diffusers.StableDiffusionXLPipeline],
) -> None:
    from diffusers.loaders.lora_conversion_utils import _maybe_map_sgm_blocks_to_diffusers

    inside = [name for name in LAYERS if name[0] == "unet" and "embedding" not in name[1]]
    factors = loras.draw(modules(theirs[1]), [name for name in inside if "transformer" in name[1]])
    mapped = " ".join(_maybe_map_sgm_blocks_to_diffusers(kohya(factors, compvis=True), theirs[1].unet.config))
    for theirs_, ours in (("input", "down"), ("middle", "mid"), ("output", "up")):
        mapped = mapped.replace(f"{theirs_}_block", f"{ours}_block")
    assert {*mapped.split()} == {*kohya(factors, compvis=False)}


def test_a_lora_of_the_other_family_is_refused_by_both_names(
    theirs: tuple[Path, diffusers.StableDiffusionXLPipeline], tmp_path: Path
) -> None:
    checkpoints.write(tmp_path / "sd", checkpoints.TINY)
    sd, xl = open_checkpoint(tmp_path / "sd"), open_checkpoint(theirs[0])
    context = "lora_unet_down_blocks_0_attentions_0_transformer_blocks_0_attn2_to_k.lora_down.weight"
    tensors = {
        "sd encoder": ({"lora_te_text_model_encoder_layers_0_mlp_fc1.lora_down.weight": (4, 16)}, xl),
        "sd contexts": ({context: (4, 768)}, xl),
        "sd 2 contexts": ({"unet.mid_block.x.attn2.to_v.lora_A.weight": (4, 1024)}, xl),
        "xl encoder": ({"lora_te2_text_projection.lora_down.weight": (4, 16)}, sd),
        "xl contexts": ({context: (4, 2048)}, sd),
    }
    for name, (shapes, checkpoint) in tensors.items():
        path = tmp_path / f"{name}.safetensors"
        save_file({key: torch.ones(shape) for key, shape in shapes.items()}, path)
        titles = ("Stable Diffusion 1.x and 2.x", "Stable Diffusion XL")
        one, other = titles[:: 1 if name.startswith("sd") else -1]
        with pytest.raises(BadCheckpoint, match=re.escape(f"is an adapter of {one}: it has")) as refused:
            merge(checkpoint, [(path, 1.0)])
        assert str(refused.value).endswith(f"is a {other}")


def inversion(path: Path, **vectors: tuple[int, ...]) -> Path:
    torch.manual_seed(3)
    save_file({key: torch.randn(*shape) for key, shape in vectors.items()}, path)
    return path


def image(bundle: Path, prompt: str) -> Any:
    return Pipeline(open_bundle(bundle)).generate(prompt, steps=4, guidance=2.0, latents=START)


def wanted(pipe: Any, prompt: str, **settings: Any) -> Any:
    settings |= {"num_inference_steps": 4, "guidance_scale": 2.0, "output_type": "latent"}
    return pipe(prompt, latents=nchw(START), height=16, width=24, **settings).images


def load_inversion(pipe: Any, path: Path) -> None:
    """Load a textual inversion as `<cat>` into diffusers' pipeline."""
    vectors = load_file(path)
    for key, number in (("clip_l", ""), ("clip_g", "_2")):
        pipe.load_textual_inversion(
            vectors[key],
            token="<cat>",
            text_encoder=getattr(pipe, f"text_encoder{number}"),
            tokenizer=getattr(pipe, f"tokenizer{number}"),
        )


def test_a_textual_inversion_is_added_to_both_encoders(
    theirs: tuple[Path, diffusers.StableDiffusionXLPipeline], tmp_path: Path
) -> None:
    path = inversion(tmp_path / "x.safetensors", clip_g=(2, 32), clip_l=(2, 48))
    pipe = copy.deepcopy(theirs[1])
    load_inversion(pipe, path)
    msd.convert(theirs[0], tmp_path / "out", recipe="float32", embeddings=[(path, "<cat>")])
    made = open_bundle(tmp_path / "out").manifest
    assert [each.tokens for each in made.source.embeddings] == [("<cat>", "<cat>_1")]
    prompt = "a red <cat>!"
    found = image(tmp_path / "out", prompt).latents
    assert psnr(nhwc(wanted(pipe, prompt)), found) >= 60


def test_the_pooled_vector_of_a_textual_inversion_in_a_single_file_is_diffusers_own(tmp_path: Path) -> None:
    """That of its last token, whose id is larger than the end's, as Stability AI's config.json has it."""
    folder, file = tmp_path / "folder", tmp_path / "one.safetensors"
    xl_checkpoints.write_single_file(file, xl_checkpoints.write(folder, single=True))
    pipe = diffusers.StableDiffusionXLPipeline.from_single_file(
        str(file), config=str(folder), local_files_only=True
    )
    path = inversion(tmp_path / "x.safetensors", clip_g=(2, 128), clip_l=(2, 64))
    load_inversion(pipe, path)
    ids = pipe.tokenizer_2(
        "a red <cat> <cat>_1!", padding="max_length", max_length=77, return_tensors="pt"
    ).input_ids
    expected = pipe.text_encoder_2(ids).text_embeds.detach().numpy()
    for source in (folder, file):
        more: dict[str, Any] = {"embeddings": [(path, "<cat>")], "components": ["text_encoder_2"]}
        msd.convert(source, tmp_path / "out" / source.name, recipe="float32", **more)
        with Interpreter(tmp_path / "out" / source.name / "text_encoder_2.tflite") as network:
            found = network.run({"tokens": ids.numpy().astype(np.int32)})
        assert psnr(expected, found["text_embeds"]) >= 75, source


def test_names_may_count_the_encoders(
    theirs: tuple[Path, diffusers.StableDiffusionXLPipeline], tmp_path: Path
) -> None:
    """As pivotal tuning writes them, whose files end in .pti too."""
    usual = inversion(tmp_path / "usual.safetensors", clip_g=(2, 32), clip_l=(2, 48))
    names = {"clip_l": "text_encoders_0", "clip_g": "text_encoders_1"}
    save_file({names[name]: each for name, each in load_file(usual).items()}, tmp_path / "counted.pti")
    found, wanted = (
        add(open_checkpoint(theirs[0]), [(path, "<cat>")]).weights
        for path in (tmp_path / "counted.pti", usual)
    )
    for encoder in ("text_encoder", "text_encoder_2"):
        np.testing.assert_array_equal(found[encoder][TABLE].load(), wanted[encoder][TABLE].load())


@pytest.mark.parametrize(
    ("vectors", "message"),
    [
        ({"text_encoders_0": (1, 48)}, "for 2 text encoders: it has text_encoders_0, and clip_l and clip_g"),
        (
            {"clip_l": (1, 48)},
            r"for 2 text encoders: it has clip_l, and clip_l and clip_g were .* XL",
        ),
        ({"emb_params": (1, 48)}, "for 2 text encoders: it has emb_params"),
        ({"clip_l": (1, 768), "clip_g": (1, 32)}, "clip_l has the shape .* encoder 768 wide, .* is 48 wide"),
        ({"clip_l": (1, 48), "clip_g": (1, 48)}, "clip_g has the shape .* encoder 48 wide, .* is 32 wide"),
        ({"clip_l": (1, 48), "clip_g": (2, 32)}, "has vectors 1 in clip_l and 2 in clip_g; as many"),
    ],
)
def test_other_textual_inversions_are_refused(
    vectors: dict[str, tuple[int, ...]],
    message: str,
    theirs: tuple[Path, diffusers.StableDiffusionXLPipeline],
    tmp_path: Path,
) -> None:
    path = inversion(tmp_path / "x.safetensors", **vectors)
    with pytest.raises(BadCheckpoint, match=message):
        add(open_checkpoint(theirs[0]), [(path, None)])


def test_a_token_of_the_vocabulary_is_refused(
    theirs: tuple[Path, diffusers.StableDiffusionXLPipeline], tmp_path: Path
) -> None:
    path = inversion(tmp_path / "x.safetensors", clip_g=(1, 32), clip_l=(1, 48))
    with pytest.raises(BadConfig, match="'!' is in the vocabulary already"):
        add(open_checkpoint(theirs[0]), [(path, "!")])


def test_layers_are_skipped_as_by_diffusers(
    theirs: tuple[Path, diffusers.StableDiffusionXLPipeline], tmp_path: Path
) -> None:
    """The pooled vector stays that of all layers."""
    msd.convert(theirs[0], tmp_path / "out", recipe="float32", clip_skip=1)
    found = image(tmp_path / "out", "a red dog!").latents
    assert psnr(nhwc(wanted(theirs[1], "a red dog!", clip_skip=1)), found) >= 60
    assert psnr(nhwc(wanted(theirs[1], "a red dog!")), found) < 40


def test_one_layer_must_remain(
    theirs: tuple[Path, diffusers.StableDiffusionXLPipeline], tmp_path: Path
) -> None:
    said = "2 layers cannot be skipped: .* text encoder has 3, of which the last is skipped already"
    with pytest.raises(BadConfig, match=said):
        msd.convert(theirs[0], tmp_path / "out", clip_skip=2)


def test_a_tiny_autoencoder_takes_the_place_of_the_other(
    theirs: tuple[Path, diffusers.StableDiffusionXLPipeline], tmp_path: Path
) -> None:
    """TAESD-XL, as diffusers saves it; its latents are scaled by 1, as its config.json says."""
    diffusers.AutoencoderTiny(latent_channels=4, scaling_factor=1.0).save_pretrained(tmp_path / "taesdxl")
    job = open_job(theirs[0], Settings((), vae=[tmp_path / "taesdxl"]))
    config = job.checkpoint.configs["vae_decoder"]
    assert isinstance(config, TinyDecoderConfig)
    assert config.latent_channels == 4
    assert {"vae_encoder", "vae_decoder"} <= {*job.checkpoint.replaced}
