"""Single files and autoencoders in the forms that programs gave them: float8, halves, keys that tell."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner, Result
from safetensors.torch import load_file, save_file

from msd.bundle import open_bundle
from msd.cli.convert import convert
from msd.conversion.sources.checkpoint import Checkpoint
from msd.conversion.sources.formats import open_checkpoint
from msd.conversion.sources.vae import add_preview, replace_vae
from msd.conversion.sources.weight_file import read_contents
from msd.errors import BadCheckpoint
from tests import checkpoints, single_files, tiny_autoencoders, xl_checkpoints
from tests.tiny_autoencoders import SHALLOW

Tensors = dict[str, torch.Tensor]
UNET, VAE, TEXT = "model.diffusion_model.", "first_stage_model.", "cond_stage_model."


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Tensors:
    """The tensors of a Stable Diffusion 1.x."""
    path = tmp_path_factory.mktemp("first") / "one.safetensors"
    return load_file(single_files.write(path, single_files.FIRST))


def save(path: Path, tensors: Tensors, **metadata: str) -> Path:
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, path, metadata or None)
    return path


def require_same(found: Checkpoint, wanted: Checkpoint) -> None:
    assert found.configs == wanted.configs
    for component, weights in wanted.weights.items():
        assert found.weights[component].keys() == weights.keys()
        for name, tensor in weights.items():
            np.testing.assert_array_equal(found.weights[component][name].load(), tensor.load(), name)


def test_a_projection_by_transformers_name_is_not_transposed(tmp_path: Path) -> None:
    """As diffusers' script for single files wrote it until 2024."""
    pipeline = xl_checkpoints.write(tmp_path / "folder", single=True)
    path = xl_checkpoints.write_single_file(tmp_path / "one.safetensors", pipeline)
    tensors, key = load_file(path), f"{xl_checkpoints.SECOND}text_projection"
    wanted = open_checkpoint(path)
    tensors[f"{key}.weight"] = tensors.pop(key).T
    require_same(open_checkpoint(save(tmp_path / "other.safetensors", tensors)), wanted)


FLOAT8 = (torch.float8_e4m3fn, torch.float8_e5m2)


@pytest.mark.parametrize("prefix", [UNET, TEXT, VAE])
@pytest.mark.parametrize("dtype", FLOAT8)
def test_a_part_in_float8(dtype: torch.dtype, prefix: str, first: Tensors, tmp_path: Path) -> None:
    narrow = {n: t.to(dtype) if n.startswith(prefix) and t.ndim > 1 else t for n, t in first.items()}
    wide = save(tmp_path / "wide.safetensors", {name: tensor.float() for name, tensor in narrow.items()})
    wanted = open_checkpoint(wide)
    require_same(open_checkpoint(save(tmp_path / "narrow.safetensors", narrow)), wanted)
    torch.save({"state_dict": narrow}, tmp_path / "narrow.anything")
    require_same(open_checkpoint(tmp_path / "narrow.anything"), wanted)


@pytest.mark.parametrize("scaled", ["scale_weight", "weight_scale"])
@pytest.mark.parametrize("dtype", FLOAT8)
def test_scaled_float8(scaled: str, dtype: torch.dtype, first: Tensors, tmp_path: Path) -> None:
    """As ComfyUI has it: a weight is its float8 number times the scale of its layer."""
    narrow, wide = dict(first), dict(first)
    linear = [name for name, t in first.items() if name.startswith(UNET) and t.ndim == 2]
    for n, name in enumerate(linear):
        scale = first[name].abs().max() / 200
        scale = scale if n % 2 else scale * torch.rand(len(first[name]), 1).add(0.5)
        layer = name.removesuffix(".weight")
        narrow |= {
            name: (first[name] / scale).to(dtype),
            f"{layer}.{scaled}": scale,
            f"{layer}.scale_input": torch.ones(()),
        }
        wide[name] = narrow[name].float() * scale
    assert len(linear) > 20
    narrow[f"{UNET}scaled_fp8"] = torch.empty(2, dtype=dtype)
    found = open_checkpoint(save(tmp_path / "narrow.safetensors", narrow))
    require_same(found, open_checkpoint(save(tmp_path / "wide.safetensors", wide)))


@pytest.mark.parametrize(
    ("weight", "scale"),
    [
        (torch.ones(4, 3, dtype=torch.uint8), torch.ones(4)),
        (torch.ones(4, 3, dtype=torch.float8_e5m2), torch.ones(4, 3)),
        (torch.ones(4, 3, dtype=torch.float8_e5m2), torch.ones(1, dtype=torch.int64)),
    ],
)
def test_other_scales(weight: torch.Tensor, scale: torch.Tensor, tmp_path: Path) -> None:
    path = save(tmp_path / "x.safetensors", {"a.weight": weight, "a.weight_scale": scale})
    with pytest.raises(BadCheckpoint, match=r"x.safetensors has a.weight of .* with a scale of the shape"):
        read_contents(path)


MARKS = {"v_pred": torch.tensor([]), "ztsnr": torch.tensor([])}


def test_keys_that_tell_what_is_predicted(first: Tensors, tmp_path: Path) -> None:
    both = open_checkpoint(save(tmp_path / "a.safetensors", {**first, **MARKS})).scheduler
    assert (both["prediction_type"], both["rescale_betas_zero_snr"], both["timestep_spacing"]) == (
        "v_prediction", True, "trailing",
    )  # fmt: skip
    assert both["_prediction_type_because"] == "its key v_pred says so"
    one = open_checkpoint(save(tmp_path / "b.safetensors", {**first, "v_pred": torch.tensor([])}))
    assert one.scheduler["prediction_type"] == "v_prediction"
    assert "rescale_betas_zero_snr" not in one.scheduler
    torch.save({"state_dict": {**first, **MARKS}}, tmp_path / "c.ckpt")
    assert open_checkpoint(tmp_path / "c.ckpt").scheduler == both


def test_an_option_outweighs_the_keys_aloud(first: Tensors, tmp_path: Path) -> None:
    found = open_checkpoint(save(tmp_path / "a.safetensors", {**first, **MARKS}), "epsilon")
    assert found.scheduler["prediction_type"] == "epsilon"
    assert "rescale_betas_zero_snr" not in found.scheduler
    (remark,) = found.remarks
    assert remark.startswith(
        "the file's key ztsnr says that its last timestep is noise alone, which is left out"
    )


def alphas(end: float = 0.012, zero_snr: bool = False) -> torch.Tensor:
    """Return the products of a schedule, as diffusers computes them."""
    from diffusers import DDIMScheduler

    scheduler = DDIMScheduler(
        beta_start=0.00085, beta_end=end, beta_schedule="scaled_linear", rescale_betas_zero_snr=zero_snr
    )
    return scheduler.alphas_cumprod


@pytest.mark.parametrize(
    ("stored", "marks", "ends"),
    [
        (alphas, {}, None),
        (lambda: alphas().half(), {}, None),
        (lambda: alphas()[:500], {}, None),
        (lambda: alphas(0.02), {}, "0.0002, and the schedule that is used at 0.0047"),
        (lambda: alphas(zero_snr=True), {}, "0.0000, and the schedule that is used at 0.0047"),
        (lambda: alphas(zero_snr=True), MARKS, None),
        (alphas, MARKS, "0.0047, and the schedule that is used at 0.0000"),
    ],
)
def test_a_stored_schedule_that_is_not_used_is_told(
    stored: Callable[[], torch.Tensor], marks: Tensors, ends: str | None, first: Tensors, tmp_path: Path
) -> None:
    tensors = {**first, **marks, "alphas_cumprod": stored()}
    found = open_checkpoint(save(tmp_path / "a.safetensors", tensors)).remarks
    assert [re.findall("end at (.*): they are left out", remark) for remark in found] == (
        [[ends]] if ends else []
    )


def run(*args: object) -> Result:
    return CliRunner().invoke(convert, [str(a) for a in args], terminal_width=300)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint of diffusers', an autoencoder of its own, and one of another's."""
    folder = tmp_path_factory.mktemp("folder")
    checkpoints.write(folder / "whole", checkpoints.TINY)
    checkpoints.write(folder / "other", checkpoints.TINY, seed=1)
    shutil.copytree(folder / "whole", folder / "without", ignore=lambda *_: ["vae"])
    return folder


def test_a_folder_without_an_autoencoder_takes_another(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    refused = run(folder / "without", "-o", out, "--dry-run")
    assert refused.exit_code == 1
    assert "without has no readable vae/config.json" in refused.stderr
    done = run(folder / "without", "-o", out, "--vae", folder / "other", "--component", "vae_decoder")
    assert done.exit_code == 0, done.output
    assert {*open_bundle(out).manifest.source.replaced} == {"vae_decoder"}
    given = replace_vae(open_checkpoint(folder / "without", vae_is_given=True), [folder / "other" / "vae"])
    require_same(given, replace_vae(open_checkpoint(folder / "whole"), [folder / "other" / "vae"]))


def test_a_single_file_without_an_autoencoder_takes_another(first: Tensors, tmp_path: Path) -> None:
    whole = save(tmp_path / "whole.safetensors", first)
    bare = save(tmp_path / "bare.ckpt", {n: t for n, t in first.items() if not n.startswith(VAE)})
    own = {n.removeprefix(VAE): t for n, t in first.items() if n.startswith(VAE)}
    with pytest.raises(BadCheckpoint, match=r"has no VAE \(first_stage_model\.\*\); give one with --vae, or"):
        open_checkpoint(bare)
    for n, vae in enumerate((own, {f"vae.{name}": tensor for name, tensor in own.items()})):
        given = save(tmp_path / f"vae{n}.pt", vae)
        require_same(replace_vae(open_checkpoint(bare, vae_is_given=True), [given]), open_checkpoint(whole))
    half = tiny_autoencoders.write_original(
        tmp_path / "taesd_encoder.pth", tiny_autoencoders.make(**SHALLOW), "encoder"
    )
    with pytest.raises(BadCheckpoint, match=r"bare has no VAE decoder, and .*_encoder.pth has none either"):
        replace_vae(open_checkpoint(bare, vae_is_given=True), [half])


def test_an_autoencoder_by_diffusers_without_its_configuration(first: Tensors, tmp_path: Path) -> None:
    """Its shapes tell all but the public numbers."""
    public = single_files.FIRST["vae"] | {"norm_num_groups": 32}
    checkpoints.write(tmp_path / "wide", checkpoints.vary(checkpoints.TINY, vae=public))
    bare = save(tmp_path / "bare.safetensors", {n: t for n, t in first.items() if not n.startswith(VAE)})
    folder = tmp_path / "wide" / "vae"
    opened = open_checkpoint(bare, vae_is_given=True)
    by_shapes = replace_vae(opened, [folder / "diffusion_pytorch_model.safetensors"])
    require_same(by_shapes, replace_vae(opened, [folder]))


@pytest.mark.parametrize("form", ["bin", "bf16", "fp8", "sharded"])
def test_an_autoencoder_of_any_form(form: str, folder: Path, tmp_path: Path) -> None:
    vae = shutil.copytree(folder / "other" / "vae", tmp_path / "vae")
    file = vae / "diffusion_pytorch_model.safetensors"
    tensors = {name: tensor.clone() for name, tensor in load_file(file).items()}
    if form == "fp8":
        tensors = {name: tensor.to(torch.float8_e5m2) for name, tensor in tensors.items()}
    file.unlink()
    if form == "bin":
        torch.save({"state_dict": tensors}, file.with_suffix(".bin"))
    elif form == "sharded":
        names = sorted(tensors)
        for n in (0, 1):
            part = {name: tensors[name] for name in names[n::2]}
            save(vae / f"diffusion_pytorch_model-0000{n + 1}-of-00002.safetensors", part)
    else:
        save(vae / f"diffusion_pytorch_model.{form}.safetensors", tensors)
    found = replace_vae(open_checkpoint(folder / "whole"), [vae])
    for half in ("vae_encoder", "vae_decoder"):
        for name, weights in found.weights[half].items():
            wanted = tensors[name].float().numpy().reshape(weights.shape)
            np.testing.assert_array_equal(weights.load(), wanted)


@pytest.mark.parametrize("prefix", ["", "taesd_"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.float8_e4m3fn])
def test_both_halves_of_a_taesd_in_one_file(
    dtype: torch.dtype, prefix: str, folder: Path, tmp_path: Path
) -> None:
    vae = tiny_autoencoders.make(**SHALLOW)
    halves = {half: tiny_autoencoders.original(vae, half) for half in ("encoder", "decoder")}
    both = {
        f"{prefix}{half}.{n}": t.to(dtype) for half, tensors in halves.items() for n, t in tensors.items()
    }
    torch.save(both, tmp_path / "taesd.safetensors")
    found = replace_vae(open_checkpoint(folder / "whole"), [tmp_path / "taesd.safetensors"])
    preview = add_preview(open_checkpoint(folder / "whole"), tmp_path / "taesd.safetensors")
    wanted = {name: t.to(dtype).float().numpy() for name, t in vae.state_dict().items()}
    for weights in (*(found.weights[f"vae_{half}"] for half in halves), preview.weights["preview_decoder"]):
        assert weights
        for name, each in weights.items():
            np.testing.assert_array_equal(each.load(), wanted[name])


def test_weights_beyond_float16_are_said(folder: Path, tmp_path: Path) -> None:
    source = shutil.copytree(folder / "whole", tmp_path / "source")
    file = source / "vae" / "diffusion_pytorch_model.safetensors"
    tensors = {name: tensor.clone() for name, tensor in load_file(file).items()}
    large = "decoder.mid_block.resnets.0.conv1.weight"
    assert tensors[large].numel() >= 1024
    tensors[large][0, 0, 0, 0] = -1e6
    save(file, tensors)
    command = (source, "-o", tmp_path / "out", "--component", "vae_decoder", "--recipe")
    done = run(*command, "float16", "--json")
    said = (
        f"vae_decoder has weights beyond float16's largest number, 65504, which they are stored as: {large};"
        " --recipe float32 keeps them"
    )
    assert json.loads(done.stdout)["conversion"]["remarks"] == [said]
    assert f"warning: {said}" in done.stderr
    assert open_bundle(tmp_path / "out").manifest.conversion.remarks == (said,)
    whole = run(*command, "float32", "--force")
    assert whole.exit_code == 0, whole.output
    assert not open_bundle(tmp_path / "out").manifest.conversion.remarks


def test_several_variants_are_said_once(folder: Path, tmp_path: Path) -> None:
    source = shutil.copytree(folder / "whole", tmp_path / "source")
    file = source / "vae" / "diffusion_pytorch_model.safetensors"
    for variant in ("fp16", "bf16"):
        shutil.copy(file, file.with_name(f"diffusion_pytorch_model.{variant}.safetensors"))
    file.unlink()
    done = run(source, "-o", tmp_path / "out", "--dry-run", "--json")
    (remark,) = json.loads(done.stdout)["remarks"]
    assert re.search(r"model\.fp16\.safetensors is read, and .*model\.bf16\.safetensors is not", remark)
    assert done.stderr.count("warning: ") == 1
