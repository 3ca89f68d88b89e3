"""--vae and --preview-vae: which files replace a checkpoint's autoencoder, and which are refused."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner, Result
from safetensors.torch import load_file, save_file

from msd.bundle import file_facts, open_bundle
from msd.cli.convert import convert
from msd.conversion.sources.checkpoint import Checkpoint
from msd.conversion.sources.formats import open_checkpoint
from msd.conversion.sources.vae import add_preview, replace_vae
from msd.errors import BadCheckpoint, BadConfig
from msd.models.tiny_config import TinyDecoderConfig
from tests import checkpoints, controlnets, single_files, tiny_autoencoders, xl_checkpoints
from tests.late import diffusers
from tests.tiny_autoencoders import SHALLOW

ENCODER, DECODER = "vae_encoder", "vae_decoder"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folders and files with autoencoders, and the checkpoint "source"."""
    folder = tmp_path_factory.mktemp("autoencoders")
    checkpoints.write(folder / "source", checkpoints.TINY)
    checkpoints.write(folder / "other", checkpoints.TINY, seed=1)
    single_files.write(folder / "whole.safetensors", single_files.SECOND)
    taesd = tiny_autoencoders.write(folder / "taesd", **SHALLOW)
    for name in ("taesd_decoder.safetensors", "taesd_decoder.pth"):
        tiny_autoencoders.write_original(folder / name, taesd, "decoder")
    tiny_autoencoders.write_original(folder / "taesd_encoder.safetensors", taesd, "encoder")
    return folder


@pytest.fixture(scope="module")
def checkpoint(folder: Path) -> Checkpoint:
    return open_checkpoint(folder / "source")


def equal(checkpoint: Checkpoint, component: str, wanted: dict[str, torch.Tensor]) -> bool:
    """Whether the checkpoint's tensors are among those wanted."""
    return bool(checkpoint.weights[component]) and all(
        np.array_equal(tensor.load(), wanted[name].numpy().reshape(tensor.shape))
        for name, tensor in checkpoint.weights[component].items()
    )


@pytest.mark.parametrize(
    "name",
    ["taesd", "taesd/diffusion_pytorch_model.safetensors", "taesd_decoder.safetensors", "taesd_decoder.pth"],
)
def test_a_tiny_autoencoder_is_a_folder_or_a_file(name: str, folder: Path, checkpoint: Checkpoint) -> None:
    replaced = replace_vae(checkpoint, [folder / name])
    settings = json.loads((folder / "taesd" / "config.json").read_text())
    assert replaced.configs[DECODER] == TinyDecoderConfig.from_diffusers(settings, "vae")
    assert equal(replaced, DECODER, load_file(folder / "taesd" / "diffusion_pytorch_model.safetensors"))
    assert replaced.weights["unet"] is checkpoint.weights["unet"]


def test_a_file_with_one_half_replaces_that_half(folder: Path, checkpoint: Checkpoint) -> None:
    halves = [folder / f"taesd_{half}.safetensors" for half in ("encoder", "decoder")]
    one, both = replace_vae(checkpoint, halves[:1]), replace_vae(checkpoint, halves)
    whole = replace_vae(checkpoint, [folder / "taesd"])
    assert (one.replaced, both.replaced) == ((ENCODER,), (ENCODER, DECODER))
    assert one.weights[DECODER] is checkpoint.weights[DECODER]
    assert one.configs[ENCODER] == both.configs[ENCODER] == whole.configs[ENCODER]
    for half in (ENCODER, DECODER):
        assert both.weights[half].keys() == whole.weights[half].keys()
    assert {*checkpoint.files} - {*one.files} == set()
    own = {"vae/config.json", "vae/diffusion_pytorch_model.safetensors"}
    assert {*checkpoint.files} - {*both.files} == {*checkpoint.files} - {*whole.files} == own


def compvis(folder: Path, prefix: str, path: Path) -> Path:
    """Write the autoencoder of the single file alone, under names with `prefix`."""
    tensors = load_file(folder / "whole.safetensors")
    own = {name: tensor for name, tensor in tensors.items() if name.startswith("first_stage_model.")}
    save_file({prefix + name.removeprefix("first_stage_model."): own[name] for name in own}, path)
    return path


@pytest.mark.parametrize("prefix", ["", "first_stage_model."])
def test_a_file_in_compvis_s_layout_has_names_with_or_without_prefix(
    prefix: str, folder: Path, checkpoint: Checkpoint, tmp_path: Path
) -> None:
    replaced = replace_vae(checkpoint, [compvis(folder, prefix, tmp_path / "ft-mse.safetensors")])
    whole = open_checkpoint(folder / "whole.safetensors")
    assert replaced.configs[DECODER] == whole.configs[DECODER]
    assert replaced.weights[DECODER].keys() == whole.weights[DECODER].keys()
    name = "decoder.mid_block.attentions.0.to_q.weight"
    assert np.array_equal(replaced.weights[DECODER][name].load(), whole.weights[DECODER][name].load())
    assert replaced.configs[ENCODER] == whole.configs[ENCODER]
    assert replaced.weights[ENCODER].keys() == whole.weights[ENCODER].keys()


@pytest.mark.parametrize("name", ["other", "other/vae", "other/vae/diffusion_pytorch_model.safetensors"])
def test_another_checkpoint_s_may_be_used(name: str, folder: Path, checkpoint: Checkpoint) -> None:
    replaced = replace_vae(checkpoint, [folder / name])
    assert replaced.configs == checkpoint.configs
    others = load_file(folder / "other" / "vae" / "diffusion_pytorch_model.safetensors")
    assert equal(replaced, DECODER, others)
    assert not equal(checkpoint, DECODER, others)


@pytest.mark.parametrize(
    "changes",
    [{"layers_per_block": 2}, {"block_out_channels": [12, 20]}, {"mid_block_add_attention": False}],
    ids=str,
)
def test_a_file_of_another_shape_is_what_its_folder_is(
    changes: dict[str, Any], checkpoint: Checkpoint, tmp_path: Path
) -> None:
    """Its shapes tell, and not the checkpoint's own configuration."""
    vae = diffusers.AutoencoderKL(**{**checkpoints.TINY["vae"], **changes})
    vae.save_pretrained(tmp_path)
    by_folder = replace_vae(checkpoint, [tmp_path])
    by_file = replace_vae(checkpoint, [tmp_path / "diffusion_pytorch_model.safetensors"])
    assert by_file.configs == by_folder.configs != checkpoint.configs
    for component in ENCODER, DECODER:
        assert by_file.weights[component].keys() == by_folder.weights[component].keys()
        assert equal(by_file, component, vae.state_dict())


@pytest.mark.parametrize(
    "changes",
    [{"scaling_factor": 0.25}, {"norm_num_groups": 2}, {"shift_factor": 0.5}, {"latents_mean": [0.0] * 4}],
    ids=str,
)
@pytest.mark.parametrize("variant", [None, "fp16"])
def test_the_config_json_beside_a_file_of_diffusers_counts_as_in_its_folder(
    changes: dict[str, Any], variant: str | None, checkpoint: Checkpoint, tmp_path: Path
) -> None:
    """Beside a file of another name it may be another's."""
    diffusers.AutoencoderKL(**{**checkpoints.TINY["vae"], **changes}).save_pretrained(
        tmp_path, variant=variant
    )
    (file,) = tmp_path.glob("diffusion_pytorch_model.*")
    found = []
    for path in tmp_path, file:
        try:
            found.append(replace_vae(checkpoint, [path]).configs)
        except BadCheckpoint as problem:
            found.append(str(problem).replace(str(path), "VAE"))
    assert found[0] == found[1] != checkpoint.configs
    renamed = file.rename(tmp_path / "mine.safetensors")
    assert replace_vae(checkpoint, [renamed]).configs == checkpoint.configs


def test_a_tiny_autoencoder_s_file_has_the_scale_of_the_config_json_beside_it(
    checkpoint: Checkpoint, tmp_path: Path
) -> None:
    tiny_autoencoders.write(tmp_path, **SHALLOW, scaling_factor=0.5)
    by_file = replace_vae(checkpoint, [tmp_path / "diffusion_pytorch_model.safetensors"])
    assert by_file.configs == replace_vae(checkpoint, [tmp_path]).configs
    assert by_file.configs[DECODER].scaling_factor == 0.5
    assert by_file.weight_files[DECODER] == ("vae/config.json", "vae/diffusion_pytorch_model.safetensors")


def test_a_preview_decoder_is_beside_the_checkpoint_s_own(folder: Path, checkpoint: Checkpoint) -> None:
    both = add_preview(checkpoint, folder / "taesd")
    assert {*both.weights} - {*checkpoint.weights} == {"preview_decoder"}
    assert both.weights[DECODER] is checkpoint.weights[DECODER]
    assert {*both.files} > {*checkpoint.files}
    assert both.replaced == ("preview_decoder",)


def flux(folder: Path) -> Path:
    """A file like Flux's autoencoder: CompVis's layout, 16 channels."""
    tensors = load_file(compvis(folder.parent, "", folder / "ae.safetensors"))
    kernel = tensors["decoder.conv_in.weight"]
    tensors["decoder.conv_in.weight"] = kernel.repeat(1, 4, 1, 1)
    save_file(tensors, folder / "ae.safetensors")
    return folder / "ae.safetensors"


def wide(folder: Path) -> Path:
    """TAESD3 or TAEF1: a tiny autoencoder of 16 channels, as its author publishes it."""
    vae = tiny_autoencoders.make(**SHALLOW, latent_channels=16)
    return tiny_autoencoders.write_original(folder / "taef1_decoder.safetensors", vae, "decoder")


def wide_by_diffusers(folder: Path) -> Path:
    vae = diffusers.AutoencoderKL(**checkpoints.TINY["vae"], latent_channels=16)
    vae.save_pretrained(folder)
    return folder / "diffusion_pytorch_model.safetensors"


def asymmetric(folder: Path) -> Path:
    tiny_autoencoders.write(folder, **SHALLOW)
    (folder / "config.json").write_text('{"_class_name": "AsymmetricAutoencoderKL"}')
    return folder


def deeper(folder: Path) -> Path:
    tiny_autoencoders.write(folder, **SHALLOW, upsampling_scaling_factor=4)
    return folder


def lora(folder: Path) -> Path:
    save_file({"lora_unet_conv_in.alpha": torch.ones(1)}, folder / "lora.safetensors")
    return folder / "lora.safetensors"


def cut(folder: Path) -> Path:
    vae = tiny_autoencoders.original(tiny_autoencoders.make(**SHALLOW), "decoder")
    save_file(
        {name: tensor for name, tensor in vae.items() if name != "1.weight"}, folder / "cut.safetensors"
    )
    return folder / "cut.safetensors"


def encoder(folder: Path) -> Path:
    return folder.parent / "taesd_encoder.safetensors"


CHANNELS = (
    "does not fit source: unet/config.json says out_channels = 4, but {}/config.json says "
    "latent_channels = 16; they must be equal"
)
REFUSED: list[tuple[Callable[[Path], Path], str]] = [
    (flux, CHANNELS.format("vae")),
    (wide, CHANNELS.format("vae")),
    (wide_by_diffusers, CHANNELS.format("vae")),
    (asymmetric, "_class_name = 'AsymmetricAutoencoderKL', but only 'AutoencoderKL' or 'AutoencoderTiny' is"),
    (deeper, "the VAE encoder has 2 pixels along the side of a latent cell, but the VAE decoder has 4"),
    (
        lora,
        "lora.safetensors is no autoencoder; give a folder of diffusers' AutoencoderKL or AutoencoderTiny",
    ),
    (cut, "cut.safetensors lacks decoder.layers.0.weight"),
    (lambda folder: folder / "none", "none does not exist; give a folder of diffusers'"),
    (lambda folder: folder, "has no readable config.json"),
]


@pytest.mark.parametrize(("write", "said"), REFUSED, ids=lambda value: getattr(value, "__name__", ""))
def test_what_is_no_fitting_autoencoder_is_refused(
    write: Callable[[Path], Path], said: str, folder: Path, checkpoint: Checkpoint
) -> None:
    inside = folder / f"refused-{len(said)}"
    inside.mkdir(exist_ok=True)
    with pytest.raises(BadCheckpoint, match=re.escape(said)):
        replace_vae(checkpoint, [write(inside)])


@pytest.mark.parametrize(
    ("write", "said"),
    [
        (wide, CHANNELS.format("preview_vae")),
        (encoder, "taesd_encoder.safetensors has no weights of the preview decoder"),
        (
            lambda folder: folder.parent / "source",
            "_class_name = 'AutoencoderKL', but only 'AutoencoderTiny' is",
        ),
        (wide_by_diffusers, "_class_name = 'AutoencoderKL', but only 'AutoencoderTiny' is supported"),
        (
            lambda folder: wide_by_diffusers(folder).rename(folder / "wide.safetensors"),
            "it is an AutoencoderKL without a config.json",
        ),
    ],
)
def test_previews_need_a_tiny_decoder(
    write: Callable[[Path], Path], said: str, folder: Path, checkpoint: Checkpoint
) -> None:
    inside = folder / f"preview-{len(said)}"
    inside.mkdir(exist_ok=True)
    with pytest.raises(BadCheckpoint, match=re.escape(said)):
        add_preview(checkpoint, write(inside))


def test_keras_cv_s_own_networks_keep_their_decoder(folder: Path, checkpoint: Checkpoint) -> None:
    with pytest.raises(BadConfig, match="cannot replace a network of keras-cv; leave out --source"):
        replace_vae(dataclasses.replace(checkpoint, networks="keras-cv"), [folder / "taesd"])


def run(*args: object) -> Result:
    return CliRunner().invoke(convert, [str(a) for a in args], terminal_width=300)


def test_the_manifest_says_where_the_autoencoder_is_from(folder: Path, tmp_path: Path) -> None:
    command = (folder / "source", "-o", tmp_path / "out", "--component", DECODER)
    done = run(*command, "--vae", folder / "taesd_decoder.pth", "--preview-vae", folder / "taesd")
    assert done.exit_code == 0, done.output
    source = open_bundle(tmp_path / "out").manifest.source
    weights = ("config.json", "diffusion_pytorch_model.safetensors")
    assert source.replaced == {
        DECODER: ("vae/taesd_decoder.pth",),
        "preview_decoder": tuple(f"preview_vae/taesd/{name}" for name in weights),
    }
    assert source.files["vae/taesd_decoder.pth"] == file_facts(folder / "taesd_decoder.pth")
    assert "vae/diffusion_pytorch_model.safetensors" not in source.files
    refused = run(*command)
    assert refused.exit_code == 1
    assert "holds a conversion with vae/taesd_decoder.pth, preview_vae/taesd/config.json" in refused.stderr


def test_a_preview_decoder_may_be_added_to_a_bundle(folder: Path, tmp_path: Path) -> None:
    command = (folder / "source", "-o", tmp_path / "out", "--component", DECODER)
    assert run(*command).exit_code == 0
    before = open_bundle(tmp_path / "out").manifest.components
    done = run(*command, "--preview-vae", folder / "taesd")
    assert done.exit_code == 0, done.output
    assert open_bundle(tmp_path / "out").manifest.components.items() > before.items()
    assert "Nothing to convert" in run(*command, "--preview-vae", folder / "taesd").output
    other = run(*command, "--preview-vae", folder / "taesd", "--recipe", "float32")
    assert "holds another conversion of this checkpoint (recipe gpu-w8" in other.stderr


@pytest.mark.parametrize("own", [True, False])
def test_latents_scaled_as_another_family_s_are_said(own: bool, folder: Path, tmp_path: Path) -> None:
    """In its own folder and by --vae; a scale that is no family's is its maker's affair."""
    said = "the autoencoder's scaling_factor, 0.13025, is that of Stable Diffusion XL, and that of Stable"
    for scale, count in ((0.13025, 1), (0.2, 0)):
        config = checkpoints.vary(checkpoints.TINY, vae={"scaling_factor": scale})
        path = tmp_path / str(scale)
        checkpoints.write(path, config)
        source, options = (path, ()) if own else (folder / "source", ("--vae", path))
        done = run(source, "-o", tmp_path / "out", "--dry-run", *options)
        assert (done.exit_code, done.stderr.count(said)) == (0, count), done.output
    without = run(source, "-o", tmp_path / "out", "--dry-run", *options, "--component", "unet")
    assert said not in without.stderr


def test_the_reverse_is_said(folder: Path, tmp_path: Path) -> None:
    xl_checkpoints.write(tmp_path / "xl")
    whole = run(tmp_path / "xl", "-o", tmp_path / "out", "--dry-run")
    assert "scaling_factor" not in whole.stderr
    replaced = run(tmp_path / "xl", "-o", tmp_path / "out", "--dry-run", "--vae", folder / "other")
    assert "0.18215, is that of Stable Diffusion 1.x and 2.x, and that of Stable Diffusion XL is 0.13025" in (
        replaced.stderr
    )


def test_one_that_a_later_one_replaces_whole_is_said(folder: Path, tmp_path: Path) -> None:
    """And not one of which a half is left, nor the same one twice."""
    said = f"warning: --vae {folder / 'taesd'} is not used: a later --vae replaces all that it has\n"
    command = (folder / "source", "-o", tmp_path / "out", "--dry-run", "--vae", folder / "taesd", "--vae")
    for other, count in (("other", 1), ("taesd_decoder.safetensors", 0), ("taesd", 0)):
        done = run(*command, folder / other)
        assert (done.exit_code, done.stderr.count(said)) == (0, count), done.output


def test_a_controlnet_s_refusal_names_the_autoencoder_that_was_replaced(folder: Path, tmp_path: Path) -> None:
    unet = diffusers.UNet2DConditionModel(**checkpoints.TINY["unet"])
    controlnets.write(tmp_path / "edges", unet, **controlnets.OF_TINY)
    levels = {"block_out_channels": [8, 12, 12]}
    for key, block in (("down", "DownEncoder"), ("up", "UpDecoder")):
        levels[f"{key}_block_types"] = [f"{block}Block2D"] * 3
    diffusers.AutoencoderKL(**{**checkpoints.TINY["vae"], **levels}).save_pretrained(tmp_path / "deep")
    command = (folder / "source", "-o", tmp_path / "out", "--dry-run", "--controlnet", tmp_path / "edges")
    assert run(*command).exit_code == 0
    done = run(*command, "--vae", tmp_path / "deep")
    assert done.exit_code == 1
    assert "edges does not fit source with --vae: controlnet_edges has 2 pixels along the side" in done.stderr
