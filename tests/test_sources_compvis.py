"""What a single file does not say is found elsewhere or assumed aloud; what it is instead is said too."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from msd.conversion.sources.checkpoint import Checkpoint
from msd.conversion.sources.compvis.prediction import cells
from msd.conversion.sources.formats import open_checkpoint
from msd.errors import BadCheckpoint
from tests import checkpoints, single_files

Tensors = dict[str, torch.Tensor]
UNET, VAE, TEXT = "model.diffusion_model.", "first_stage_model.", "cond_stage_model."


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Tensors:
    """The tensors of a Stable Diffusion 1.x."""
    path = tmp_path_factory.mktemp("first") / "one.safetensors"
    return load_file(single_files.write(path, single_files.FIRST, "float16"))


@pytest.fixture(scope="module")
def second(tmp_path_factory: pytest.TempPathFactory) -> Tensors:
    """The tensors of a Stable Diffusion 2.x."""
    path = tmp_path_factory.mktemp("second") / "one.safetensors"
    return load_file(single_files.write(path, single_files.SECOND, "float16"))


@pytest.fixture(scope="module")
def inpainting(tmp_path_factory: pytest.TempPathFactory) -> Tensors:
    """The tensors of a Stable Diffusion 2 for inpainting."""
    path = tmp_path_factory.mktemp("inpainting") / "one.safetensors"
    return load_file(single_files.write(path, single_files.INPAINTING, "float16"))


def save(tmp_path: Path, tensors: Tensors, **metadata: str) -> Path:
    path = tmp_path / "own.safetensors"
    named = {name.replace("modelspec_", "modelspec."): value for name, value in metadata.items()}
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, path, named or None)
    return path


def predicted(checkpoint: Checkpoint) -> tuple[Any, Any, tuple[int, int]]:
    scheduler = checkpoint.scheduler
    return (
        scheduler["prediction_type"],
        scheduler["_prediction_type_because"],
        checkpoint.configs["unet"].size,
    )


VELOCITY = (
    'model:\n  target: ldm.X\n  params:\n    # parameterization: "eps"\n    parameterization: "v"  # why\n'
)
NOISE = "model:\n  target: ldm.X\n  params:\n    linear_start: 0.00085\n"
SCALED = "model:\n  params:\n    scaling_config:\n      target: sgm.denoiser_scaling.{}Scaling\n"
"""As Stability AI's generative-models say it."""


def test_a_second_that_does_not_tell_is_assumed_to_predict_velocity(second: Tensors, tmp_path: Path) -> None:
    kind, because, size = predicted(open_checkpoint(save(tmp_path, second)))
    assert (kind, size) == ("v_prediction", (96, 96))
    assert because.startswith("assumed, as in diffusers")


def test_others_predict_noise(first: Tensors, inpainting: Tensors, tmp_path: Path) -> None:
    for tensors in (first, inpainting):
        kind, because, size = predicted(open_checkpoint(save(tmp_path, tensors)))
        assert (kind, size) == ("epsilon", (64, 64))
        assert because == "as Stable Diffusion 1.x, XL and inpainting do"


@pytest.mark.parametrize(
    ("metadata", "kind"),
    [
        ({"modelspec_prediction_type": "epsilon"}, "epsilon"),
        ({"modelspec_prediction_type": "v"}, "v_prediction"),
        ({"modelspec_prediction_type": "V-Prediction"}, "v_prediction"),
        ({"modelspec_predict_key": "epsilon"}, "epsilon"),
        ({"modelspec_predict_key": "v"}, "v_prediction"),
        ({"modelspec_architecture": "stable-diffusion-v2-768-v"}, "v_prediction"),
        ({"modelspec_architecture": "stable-diffusion-v2-512/lora"}, "epsilon"),
    ],
)
def test_metadata_counts(metadata: dict[str, str], kind: str, second: Tensors, tmp_path: Path) -> None:
    found = predicted(open_checkpoint(save(tmp_path, second, **metadata)))
    assert found[0] == kind
    assert found[1].startswith("its metadata")
    assert found[2] == ((64, 64) if kind == "epsilon" else (96, 96))


@pytest.mark.parametrize("name", ["stable-diffusion-v1", "stable-diffusion-xl-v1-base"])
def test_an_architecture_does_not_outweigh_what_the_file_says(
    name: str, first: Tensors, tmp_path: Path
) -> None:
    """As ComfyUI saves fine-tunes for velocity, which have the architecture of those for noise."""
    empty = {"v_pred": torch.empty(0)}
    path = save(tmp_path, {**first, **empty}, modelspec_architecture=name)
    found = open_checkpoint(path)
    assert predicted(found)[:2] == ("v_prediction", "its key v_pred says so")
    assert found.remarks == ()
    path = save(tmp_path, first, modelspec_architecture=name)
    assert predicted(open_checkpoint(path))[0] == "epsilon"
    path.with_suffix(".yaml").write_text(VELOCITY)
    assert predicted(open_checkpoint(path))[0] == "v_prediction"


def test_metadata_and_a_key_that_differ_are_said(first: Tensors, tmp_path: Path) -> None:
    path = save(tmp_path, {**first, "v_pred": torch.empty(0)}, modelspec_prediction_type="epsilon")
    found = open_checkpoint(path)
    assert predicted(found)[:2] == ("epsilon", "its metadata says so")
    (remark,) = found.remarks
    assert remark.startswith("the file's metadata say that its U-Net predicts noise, which counts")
    assert open_checkpoint(path, "epsilon").remarks == ()
    path = save(tmp_path, {**first, "v_pred": torch.empty(0)})
    path.with_suffix(".yaml").write_text(VELOCITY.replace('"v"', '"eps"'))
    (remark,) = open_checkpoint(path).remarks
    assert remark.startswith("the file's key v_pred says that its U-Net predicts velocity, which counts, and")


def test_a_lora_beside_the_weights_is_left_out_aloud(first: Tensors, tmp_path: Path) -> None:
    leftovers = {f"lora_unet_conv_in.{end}": torch.ones(1, 1) for end in ("lora_down.weight", "alpha")}
    found, plain = (open_checkpoint(save(tmp_path, {**first, **each})) for each in (leftovers, {}))
    assert {c: {*tensors} for c, tensors in found.weights.items()} == {
        c: {*tensors} for c, tensors in plain.weights.items()
    }
    (remark,) = found.remarks
    assert "and 1 more, which are of a LoRA that is not merged into it: left out" in remark
    inside = {"model.diffusion_model.out.2.lora_up.weight": torch.ones(1, 1)}
    with pytest.raises(BadCheckpoint, match=r"holds model\.diffusion_model\.out\.2\.lora_up\.weight, which"):
        open_checkpoint(save(tmp_path, {**first, **inside}))


@pytest.mark.parametrize("other", ["edm", "flow", "x0"])
def test_metadata_of_another_prediction_is_refused(other: str, second: Tensors, tmp_path: Path) -> None:
    path = save(tmp_path, second, modelspec_prediction_type=other)
    with pytest.raises(BadCheckpoint, match=f"says modelspec.prediction_type = '{other}', and only epsilon"):
        open_checkpoint(path)
    assert predicted(open_checkpoint(path, "epsilon"))[0] == "epsilon"


def test_metadata_may_say_velocity_of_a_first_too(first: Tensors, tmp_path: Path) -> None:
    found = predicted(open_checkpoint(save(tmp_path, first, modelspec_prediction_type="v")))
    assert (found[0], found[2]) == ("v_prediction", (64, 64))


def test_a_resolution_is_width_by_height(second: Tensors, tmp_path: Path) -> None:
    # The autoencoder of the test has two levels: two pixels a cell.
    path = save(tmp_path, second, modelspec_resolution="96x160")
    assert open_checkpoint(path).configs["unet"].size == (80, 48)
    for senseless in ("0x8", "1x2", "axb", "768", "99999999x8"):
        assert cells({"modelspec.resolution": senseless}, 768, 8) == [96, 96]


def test_a_yaml_beside_it_counts(second: Tensors, tmp_path: Path) -> None:
    path = save(tmp_path, second)
    yaml = path.with_suffix(".yaml")
    texts = [(VELOCITY, "v_prediction"), (NOISE, "epsilon")]
    texts += [(SCALED.format("V"), "v_prediction"), (SCALED.format("Eps"), "epsilon")]
    for text, kind in texts:
        yaml.write_text(text)
        assert predicted(open_checkpoint(path))[:2] == (kind, "own.yaml beside it says so")
    yaml.write_text("parameterization: v\n")
    assert predicted(open_checkpoint(path))[1].startswith("assumed")
    yaml.write_bytes(b"model: \xff\n")
    refuse(path, "own.yaml, which is beside the checkpoint: 'utf-8' codec")
    yaml.write_text(VELOCITY.replace('"v"', '"x0"'))
    refuse(path, "own.yaml says parameterization: x0, and only eps and v are supported")


@pytest.mark.parametrize(("step", "kind"), [(875000, "epsilon"), (140000, "v_prediction")])
def test_the_step_of_the_base_counts(step: int, kind: str, second: Tensors, tmp_path: Path) -> None:
    for tensor in (torch.tensor(step), torch.tensor([float(step)])):
        path = save(tmp_path, {**second, "global_step": tensor})
        assert predicted(open_checkpoint(path))[0] == kind


def test_what_is_asked_for_counts_most(second: Tensors, tmp_path: Path) -> None:
    path = save(tmp_path, second, modelspec_prediction_type="v")
    assert predicted(open_checkpoint(path, "epsilon")) == ("epsilon", "as asked for", (64, 64))
    checkpoints.write(tmp_path / "folder", checkpoints.TINY)
    folder = open_checkpoint(tmp_path / "folder", "v_prediction")
    assert folder.scheduler["prediction_type"] == "v_prediction"
    assert folder.scheduler["beta_end"] == 0.012


def refuse(path: Path, message: str) -> None:
    with pytest.raises(BadCheckpoint, match=re.escape(message)) as caught:
        open_checkpoint(path)
    assert len(str(caught.value).splitlines()) == 1


ZERO = torch.zeros(1)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "lora_unet_down_blocks_0_attentions_0_proj_in.lora_down.weight",
            "is a LoRA, not a checkpoint",
        ),
        (
            "unet.up_blocks.0.attentions.0.proj_in.lora_A.weight",
            "give the checkpoint, and this file with --lora",
        ),
        ("lycoris_x.hada_w1_a", "is a LoRA"),
        (
            "conditioner.embedders.0.transformer.x",
            "has no U-Net (model.diffusion_model.*) and no VAE",
        ),
        ("conditioner.embedders.0.model.x", "is Stable Diffusion XL's refiner"),
        ("model.diffusion_model.joint_blocks.0.x", "is a Stable Diffusion 3, and only"),
        ("joint_blocks.0.x", "is a Stable Diffusion 3, and only"),
        ("model.diffusion_model.double_blocks.0.x", "is a Flux, and only"),
        ("double_blocks.0.x", "is a Flux, and only"),
        ("single_transformer_blocks.0.attn.to_q.weight", "is a Flux, and only"),
        ("model.diffusion_model.clip_txt_mapper.weight", "is a Stable Cascade, and only"),
        ("effnet_mapper.0.weight", "is a Stable Cascade, and only"),
        ("blocks.0.attn.qkv.weight", "is a diffusion transformer, as PixArt, AuraFlow and Wan are"),
        ("model.double_layers.0.attn.w1q.weight", "is a diffusion transformer"),
        ("model.diffusion_model.layers.0.attention.qkv.weight", "is a diffusion transformer"),
        ("transformer_blocks.0.attn1.to_q.weight", "is a diffusion transformer"),
        ("conditioner.embedders.0.open_clip.model.visual.proj", "is a Stable Video Diffusion"),
        ("emb_params", "is a textual inversion, not a checkpoint; give the checkpoint, and this file with"),
        ("clip_g", "this file with --embedding"),
        ("taesd_decoder.1.weight", "is a tiny autoencoder; give the checkpoint, and this file with --vae"),
        ("3.conv.0.weight", "this file with --vae or --preview-vae"),
        ("model.1.sub.0.RDB1.conv1.0.weight", "enlarges images; give the checkpoint, and this file with"),
        ("image_proj.proj.weight", "is an IP-Adapter, which is not supported"),
        ("body.0.block1.weight", "is a T2I-Adapter, which is not supported"),
        ("model.diffusion_model.down_blocks.0.x", "has model.diffusion_model.down_blocks.0.x and no"),
        ("encoder.block.0.layer.0.SelfAttention.q.weight", "is a text encoder alone, with no U-Net"),
        ("control_model.input_blocks.0.0.weight", "is a ControlNet, not a checkpoint"),
        ("controlnet_cond_embedding.conv_in.weight", "is a ControlNet"),
        ("down_blocks.0.motion_modules.0.x", "is an AnimateDiff"),
        ("edm_mean", "has a U-Net trained by EDM, as Playground v2.5 and CosXL are"),
        ("edm_vpred.sigma_max", "has a U-Net trained by EDM"),
        ("depth_model.x", "reads a depth map, which is not supported"),
        ("low_scale_model.x", "is an upscaler, which is not supported"),
        (
            "model.diffusion_model.label_emb.0.0.weight",
            "has a U-Net with other conditions than text (label_emb)",
        ),
        (
            "model.diffusion_model.time_embed.cond_proj.weight",
            "has a U-Net with guidance embeddings (cond_proj), as latent consistency models have",
        ),
        ("mid_block.resnets.0.x", "is one network as diffusers or transformers saves it; give the folder"),
        ("decoder.up_blocks.0.x", "is one network as diffusers or transformers saves it"),
        (
            "input_blocks.0.0.weight",
            "is a U-Net alone, with no VAE and no text encoder; give a whole checkpoint, or one and this"
            " as its --unet",
        ),
        (
            "decoder.conv_in.weight",
            "is a VAE alone, with no U-Net and no text encoder; give a whole checkpoint, or one and this"
            " as its --vae",
        ),
        (
            "transformer.resblocks.0.x",
            "is a text encoder alone, with no U-Net and no VAE; give a whole checkpoint",
        ),
        (
            "something",
            "contains no part of a Stable Diffusion; it should have U-Net (model.diffusion_model.*), VAE",
        ),
    ],
)
def test_other_kinds_of_files(name: str, message: str, tmp_path: Path) -> None:
    refuse(save(tmp_path, {name: ZERO}), message)


@pytest.mark.parametrize(
    ("prefix", "message"),
    [
        (UNET, "has no U-Net (model.diffusion_model.*); give a whole checkpoint"),
        (VAE, "has no VAE (first_stage_model.*); give"),
        (TEXT, "has no text encoder (cond_stage_model.*); give"),
    ],
)
def test_a_part_is_missing(prefix: str, message: str, first: Tensors, tmp_path: Path) -> None:
    refuse(save(tmp_path, {n: t for n, t in first.items() if not n.startswith(prefix)}), message)


@pytest.mark.parametrize(("channels", "message"), [(5, "it reads a depth map"), (7, "it is an upscaler")])
def test_other_inputs(channels: int, message: str, first: Tensors, tmp_path: Path) -> None:
    convolution = {f"{UNET}input_blocks.0.0.weight": torch.zeros(32, channels, 3, 3)}
    refuse(save(tmp_path, {**first, **convolution}), f"has a U-Net of {channels} input channels: {message}")


def test_instructions_come_in_eight_channels(first: Tensors, tmp_path: Path) -> None:
    convolution = {f"{UNET}input_blocks.0.0.weight": torch.zeros(32, 8, 3, 3)}
    assert open_checkpoint(save(tmp_path, {**first, **convolution})).configs["unet"].in_channels == 8


DROP = None
IN, OUT = f"{UNET}input_blocks", f"{UNET}output_blocks"
TO_K = f"{UNET}middle_block.1.transformer_blocks.0.attn2.to_k.weight"
BAD = [
    ({f"{IN}.1.0.in_layers.7.weight": ZERO}, "in_layers.7.weight, which no Stable Diffusion 1.x"),
    ({f"{IN}.1.1.transformer_blocks.0.fuser.x": ZERO}, "fuser.x, which no Stable Diffusion"),
    ({f"{IN}.1.1.transformer_blocks.0.attn2.to_q.bias": ZERO}, "to_q.bias, which no"),
    ({f"{UNET}anything": ZERO}, f"holds {UNET}anything, which no"),
    ({f"{VAE}decoder.up.0.upsample.conv.weight": ZERO}, "decoder.up.0.upsample.conv.weight, which no"),
    ({f"{VAE}decoder.up.1.attn.0.q.weight": ZERO}, "decoder.up.1.attn.0.q.weight, which no"),
    ({f"{VAE}decoder.up.1.block.3.conv1.weight": ZERO}, "has depths of the VAE that differ, but"),
    ({f"{VAE}decoder.up.0.block.0.conv1.weight": DROP}, f"lacks {VAE}decoder.up.0.block.0.conv1.weight"),
    ({f"{VAE}decoder.conv_in.weight": DROP}, f"lacks {VAE}decoder.conv_in.weight, which every"),
    ({f"{VAE}decoder.conv_in.weight": ZERO}, "decoder.conv_in.weight of the shape [1]; 4 axes were expected"),
    ({f"{UNET}middle_block.1.proj_in.weight": DROP}, "lacks model.diffusion_model.middle_block.1.proj_in"),
    ({f"{OUT}.9.0.in_layers.0.weight": ZERO}, "[2, 2, 2] layers on its levels on the"),
    ({f"{OUT}.6.1.transformer_blocks.1.norm1.bias": ZERO}, "depths of transformers on one level"),
    ({f"{OUT}.0.1.transformer_blocks.0.norm1.bias": ZERO}, "attentions on one level that differ"),
    ({TO_K: torch.zeros(96, 65)}, "cross_attention_dim = 65"),
    ({f"{UNET}out.2.weight": torch.zeros(5, 32, 3, 3)}, "would be refused as a diffusers folder too: unet"),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "message"), BAD)
def test_senseless_shapes(changes: Any, message: str, first: Tensors, tmp_path: Path) -> None:
    changed = {n: t for n, t in {**first, **changes}.items() if t is not DROP}
    refuse(save(tmp_path, changed), message)


EMBEDDINGS = f"{TEXT}transformer.text_model.embeddings.token_embedding.weight"
BLOCK = f"{TEXT}model.transformer.resblocks"


def test_text_encoders_that_are_not_known(first: Tensors, second: Tensors, tmp_path: Path) -> None:
    bert = {(n.replace(".text_model.", ".bert.") if n.startswith(TEXT) else n): t for n, t in first.items()}
    refuse(save(tmp_path, bert), "has a text encoder that is neither CLIP nor OpenCLIP")
    narrow = {**first, EMBEDDINGS: torch.zeros(49408, 72)}
    refuse(save(tmp_path, narrow), "has a text encoder 72 wide; a multiple of 64 was expected")
    lost = {n: t for n, t in first.items() if "position_embedding" not in n}
    refuse(save(tmp_path, lost), "lacks the text encoder's embeddings.position_embedding.weight, which every")
    small = {**first, EMBEDDINGS: torch.zeros(49407, 64)}
    refuse(save(tmp_path, small), "with 49407 tokens, but CLIP has 49408")
    deep = {**second, f"{BLOCK}.24.ln_1.weight": ZERO}
    refuse(save(tmp_path, deep), "has an OpenCLIP of more than the 24 layers")
    strange = {**second, f"{BLOCK}.3.ln_9.weight": ZERO}
    refuse(save(tmp_path, strange), f"holds {TEXT}model.transformer.resblocks.3.ln_9.weight, which no")
    uneven = {**second, f"{BLOCK}.3.attn.in_proj_bias": torch.zeros(7)}
    refuse(save(tmp_path, uneven), "in_proj_bias of [7], which is not three projections")


def test_an_ending_in_capitals(first: Tensors, tmp_path: Path) -> None:
    path = save(tmp_path, first)
    assert open_checkpoint(path.rename(tmp_path / "A.SAFETENSORS")).kind == "single file"


def test_paths_that_are_no_checkpoint(tmp_path: Path) -> None:
    refuse(
        tmp_path / "none", "does not exist; give a folder with a model_index.json or keras-cv's .h5 files, or"
    )
    (tmp_path / "a.gguf").touch()
    refuse(tmp_path / "a.gguf", "a.gguf cannot be read as weights: it is empty")
    (tmp_path / "a.gguf").write_bytes(b"GGUF\3\0\0\0")
    refuse(
        tmp_path / "a.gguf",
        "a.gguf cannot be read as weights: it is a GGUF file, whose weights are",
    )
    (tmp_path / "a.bin").write_bytes(b"<!DOCTYPE html><html>")
    refuse(
        tmp_path / "a.bin",
        "a.bin cannot be read as weights: it is a web page, as a download gives that wants",
    )
    (tmp_path / "a.txt").write_bytes(b"a cat")
    refuse(tmp_path / "a.txt", "a.txt is not a file of weights: it begins as neither safetensors nor torch")
    (tmp_path / "a.ckpt").mkdir()
    refuse(tmp_path / "a.ckpt", "a.ckpt has no readable model_index.json; it is empty")
    (tmp_path / "a.ckpt" / "b.md").touch()
    refuse(tmp_path / "a.ckpt", "a.ckpt has no readable model_index.json; it holds b.md")
    save_file({"a": torch.ones(1)}, tmp_path / "a.ckpt" / "c.ckpt")
    refuse(tmp_path / "a.ckpt", "model_index.json; it holds c.ckpt: give that file")
    (tmp_path / "a.ckpt" / "config.json").touch()
    refuse(tmp_path / "a.ckpt", "it holds c.ckpt, as one part of a checkpoint does: give the folder above it")
