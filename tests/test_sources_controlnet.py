"""ControlNets are read from folders and from files of both layouts; what does not fit is refused in words."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from msd.conversion.job import Job, open_job
from msd.conversion.settings import Settings
from msd.conversion.sources.controlnet import parse
from msd.errors import BadCheckpoint, BadConfig
from msd.models.config import ControlledUNetConfig
from tests import checkpoints, controlnets, xl_checkpoints
from tests.late import diffusers

Write: TypeAlias = "Callable[[Path, diffusers.ControlNetModel], Path]"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a checkpoint "sd15" and its ControlNet "canny"."""
    folder = tmp_path_factory.mktemp("controlnets")
    unet = checkpoints.write(folder / "sd15", checkpoints.SD15)["unet"]
    controlnets.write(folder / "canny", unet, **controlnets.OF_SD15)
    return folder


@pytest.fixture(scope="module")
def canny(folder: Path) -> diffusers.ControlNetModel:
    return diffusers.ControlNetModel.from_pretrained(folder / "canny")


def opened(folder: Path, *given: tuple[Path, str | None], **settings: Any) -> Job:
    return open_job(folder / "sd15", Settings(rules=(), controlnets=given, **settings))


def write_half(path: Path, controlnet: diffusers.ControlNetModel) -> Path:
    controlnet.half().save_pretrained(path, variant="fp16")
    controlnet.float()
    return path


def write_named_by_diffusers(path: Path, controlnet: diffusers.ControlNetModel) -> Path:
    save_file(controlnet.state_dict(), path)
    return path


def write_bare(path: Path, controlnet: diffusers.ControlNetModel) -> Path:
    return controlnets.write_file(path, controlnet, prefix="")


FORMS: dict[str, Write] = {
    "half": write_half,
    "control_v11p.safetensors": controlnets.write_file,
    "control_sd15.pth": controlnets.write_file,
    "bare.safetensors": write_bare,
    "diffusion_pytorch_model.safetensors": write_named_by_diffusers,
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_same_network(
    form: str, folder: Path, canny: diffusers.ControlNetModel, tmp_path: Path
) -> None:
    path = FORMS[form](tmp_path / form, canny)
    job, usual = opened(folder, (path, "x")), opened(folder, (folder / "canny", "x"))
    assert job.checkpoint.configs["controlnet_x"] == usual.checkpoint.configs["controlnet_x"]
    found = job.checkpoint.weights["controlnet_x"]
    assert {*found} == {*canny.state_dict()}
    for name, tensor in canny.state_dict().items():
        np.testing.assert_allclose(found[name].load(), tensor, rtol=1e-3, atol=1e-7, err_msg=name)


@pytest.mark.parametrize(
    "changes",
    [
        {"attention_head_dim": 1},
        {"norm_num_groups": 4},
        {"controlnet_conditioning_channel_order": "bgr"},
        {"global_pool_conditions": True},
    ],
    ids=str,
)
def test_the_config_json_beside_a_file_of_diffusers_counts_as_in_its_folder(
    changes: dict[str, Any], folder: Path, tmp_path: Path
) -> None:
    """What makes it another network than its shapes say, and what is refused."""
    path = Path(shutil.copytree(folder / "canny", tmp_path / "canny"))
    config = json.loads((path / "config.json").read_text())
    (path / "config.json").write_text(json.dumps({**config, **changes}))
    found = []
    for given in path, path / "diffusion_pytorch_model.safetensors":
        try:
            found.append(opened(folder, (given, "x")).checkpoint.configs["controlnet_x"])
        except BadCheckpoint as problem:
            found.append(str(problem).replace(str(given), "it"))
    assert found[0] == found[1] != opened(folder, (folder / "canny", "x")).checkpoint.configs["controlnet_x"]


def test_the_authors_names_are_those_that_diffusers_reads(
    canny: diffusers.ControlNetModel, tmp_path: Path
) -> None:
    from diffusers.loaders.single_file_utils import convert_controlnet_checkpoint

    stored = load_file(controlnets.write_file(tmp_path / "file.safetensors", canny))
    read = convert_controlnet_checkpoint(stored, canny.config)
    assert {*read} == {*canny.state_dict()}
    assert all(torch.allclose(read[n].float(), t, 1e-3, 1e-7) for n, t in canny.state_dict().items())


def test_a_checkpoint_has_a_component_for_each_controlnet(folder: Path) -> None:
    job = opened(folder, (folder / "canny", None), (folder / "canny", "depth"))
    controls = ("controlnet_canny", "controlnet_depth")
    assert job.components == ("text_encoder", *controls, "unet", "vae_decoder")
    assert isinstance(job.checkpoint.configs["unet"], ControlledUNetConfig)
    assert job.networks["unet"].inputs["control_12"] == ((1, 2, 2, 64), "float32")
    assert job.networks["controlnet_canny"].inputs["hint"] == ((1, 128, 128, 3), "float32")
    assert {*job.checkpoint.replaced} == {*controls}
    assert "controlnet_canny/config.json" in job.checkpoint.files
    assert [job.family.component(name).title for name in controls] == ["ControlNet canny", "ControlNet depth"]


@pytest.mark.parametrize("name", ["control_v11p_sd15_inpaint", "control_v11p_sd15_canny"])
def test_the_one_that_repaints_is_said_to_want_pictures_that_no_file_has(
    name: str, folder: Path, tmp_path: Path
) -> None:
    shutil.copytree(folder / "canny", tmp_path / name)
    said = (
        f"{tmp_path / name} repaints, by its name: it wants -1, below black, where the picture is repainted,"
        " which no file has; in Python, give Control('x', hint) with -3 there"
    )
    remarks = opened(folder, (tmp_path / name, "x")).checkpoint.remarks
    assert (said in remarks) == name.endswith("inpaint")


@pytest.mark.parametrize("form", ["folder", "control_v11p.safetensors"])
@pytest.mark.parametrize("fused", [False, True])
def test_an_untrained_controlnet_is_said_to_steer_nothing(
    form: str, fused: bool, folder: Path, tmp_path: Path
) -> None:
    unet = diffusers.UNet2DConditionModel.from_pretrained(folder / "sd15" / "unet")
    untrained = diffusers.ControlNetModel.from_unet(unet, **controlnets.OF_SD15)
    path = tmp_path / form

    def written() -> Path:
        if form == "folder":
            untrained.save_pretrained(path)
            return path
        return controlnets.write_file(path, untrained)

    said = f"{written()} steers nothing: its zero convolutions are all 0, as before a ControlNet's training"
    assert said in opened(folder, (path, "x"), fuse_control=fused).checkpoint.remarks
    with torch.no_grad():
        untrained.controlnet_mid_block.bias[3] = 1e-3
    written()
    assert said not in opened(folder, (path, "x"), fuse_control=fused).checkpoint.remarks


def test_without_controlnets_the_networks_are_as_they_were(folder: Path) -> None:
    job = opened(folder)
    assert type(job.checkpoint.configs["unet"]).__name__ == "UNetConfig"
    assert {*job.networks["unet"].inputs} == {"latent", "timestep", "context"}
    assert job.family.controls == ()


def test_a_path_may_be_followed_by_a_name(tmp_path: Path) -> None:
    assert parse("a/b.pth") == (Path("a/b.pth"), None)
    assert parse("a/b.pth:canny") == (Path("a/b.pth"), "canny")
    (tmp_path / "a:b").mkdir()
    assert parse(str(tmp_path / "a:b")) == (tmp_path / "a:b", None)
    with pytest.raises(BadConfig, match="a ControlNet cannot be called 'with space'"):
        parse("a:with space")


def unet_of(**changes: Any) -> diffusers.UNet2DConditionModel:
    return diffusers.UNet2DConditionModel(**{**checkpoints.SD15["unet"], **changes})


OTHERS: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "cross-attention": (
        {"cross_attention_dim": 40},
        {},
        "controlnet_other has cross_attention_dim = 40, but the U-Net's is 48",
    ),
    "widths": (
        {"block_out_channels": [16, 32, 48, 80]},
        {},
        r"block_out_channels = \(16, 32, 48, 80\), but the U-Net's is \(16, 32, 48, 64\)",
    ),
    "depth": (
        {"layers_per_block": 1},
        {},
        r"layers_per_block = \(1, 1, 1, 1\), but the U-Net's is \(2, 2, 2, 2\)",
    ),
    "latents": ({"in_channels": 9}, {}, "in_channels = 9, but the U-Net's is 4"),
    "hints": (
        {},
        {"conditioning_embedding_out_channels": (8, 12)},
        "has 2 pixels along the side of a latent cell .* but the VAE decoder has 8",
    ),
    "pooled hints": (
        {},
        {"global_pool_conditions": True},
        "says global_pool_conditions = True, but only False",
    ),
    "channels in another order": (
        {},
        {"controlnet_conditioning_channel_order": "bgr"},
        "= 'bgr', but only 'rgb'",
    ),
    "an unknown setting": ({}, {"control_kind": 3}, "says control_kind = 3, but its meaning is unknown"),
}


@pytest.mark.parametrize("case", OTHERS)
def test_a_controlnet_of_another_model_is_refused(case: str, folder: Path, tmp_path: Path) -> None:
    of_unet, of_control, sentence = OTHERS[case]
    hint = {"conditioning_embedding_out_channels": of_control.get("conditioning_embedding_out_channels")}
    controlnets.write(
        tmp_path / "other", unet_of(**of_unet), **(hint if all(hint.values()) else controlnets.OF_SD15)
    )
    config = json.loads((tmp_path / "other" / "config.json").read_text())
    (tmp_path / "other" / "config.json").write_text(json.dumps({**config, **of_control}))
    with pytest.raises(BadCheckpoint, match=f"other does not fit sd15: .*{sentence}"):
        opened(folder, (tmp_path / "other", None))


@pytest.mark.parametrize("case", ["cross-attention", "widths", "depth", "latents", "hints"])
def test_a_file_of_another_model_is_refused_by_its_shapes(case: str, folder: Path, tmp_path: Path) -> None:
    of_unet, of_control, sentence = OTHERS[case]
    made = controlnets.make(unet_of(**of_unet), 0, **(of_control or controlnets.OF_SD15))
    path = controlnets.write_file(tmp_path / "other.safetensors", made)
    with pytest.raises(BadCheckpoint, match=f"other.safetensors does not fit sd15: .*{sentence}"):
        opened(folder, (path, None))


def test_a_controlnet_of_stable_diffusion_xl_is_refused_for_1_5(folder: Path, tmp_path: Path) -> None:
    unet = xl_checkpoints.write(tmp_path / "xl").unet
    controlnets.write(tmp_path / "other", unet, conditioning_embedding_out_channels=(4, 8))
    with pytest.raises(BadCheckpoint, match="addition_embed_type = text_time, but the U-Net's is None"):
        opened(folder, (tmp_path / "other", None))


def test_what_is_no_controlnet_is_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(BadCheckpoint, match=r"nothing does not exist; give a folder"):
        opened(folder, (tmp_path / "nothing", None))
    save_file({"a.weight": torch.ones(2)}, tmp_path / "a.safetensors")
    with pytest.raises(BadCheckpoint, match=r"a\.safetensors is no ControlNet; give a folder"):
        opened(folder, (tmp_path / "a.safetensors", None))
    with pytest.raises(
        BadCheckpoint, match=r"config.json says _class_name = 'UNet2DConditionModel', but only"
    ):
        opened(folder, (folder / "sd15" / "unet", None))


@pytest.mark.parametrize(
    ("key", "what"),
    [
        ("lora_controlnet", "is a Control-LoRA"),
        ("difference", "is a ControlNet less a U-Net's weights, as its key difference says"),
        ("task_embedding", "is a ControlNet-Union"),
    ],
)
def test_a_controlnet_of_another_kind_is_refused(
    key: str, what: str, folder: Path, canny: diffusers.ControlNetModel, tmp_path: Path
) -> None:
    """All but the Control-LoRA have every tensor of a ControlNet, so that nothing else is amiss."""
    shutil.copytree(folder / "canny", tmp_path / "canny")
    of_authors = controlnets.write_file(tmp_path / "own.safetensors", canny)
    of_diffusers = tmp_path / "canny" / "diffusion_pytorch_model.safetensors"
    for path in (of_authors, of_diffusers):
        save_file({**load_file(path), key: torch.ones(1)}, path)
    for given in (of_authors, of_diffusers, of_diffusers.parent):
        with pytest.raises(BadCheckpoint, match=f"{given.name} {what}, which is not supported; give a"):
            opened(folder, (given, None))


@pytest.mark.parametrize("image", ["", "Img2Img", "Inpaint"])
@pytest.mark.parametrize("count", [1, 2])
def test_a_whole_pipeline_has_its_controlnets_beside(
    image: str, count: int, folder: Path, canny: diffusers.ControlNetModel, tmp_path: Path
) -> None:
    base = diffusers.StableDiffusionPipeline.from_pretrained(folder / "sd15", safety_checker=None)
    control = canny if count == 1 else diffusers.MultiControlNetModel([canny] * count)
    kind = getattr(diffusers, f"StableDiffusionControlNet{image}Pipeline")
    kind(**base.components, controlnet=control, requires_safety_checker=False).save_pretrained(tmp_path)
    plain, usual = (open_job(each, Settings(rules=())) for each in (tmp_path, folder / "sd15"))
    assert plain.checkpoint.configs == usual.checkpoint.configs
    names = "controlnet and controlnet_1" if count == 2 else "controlnet"
    given = tmp_path / "controlnet"
    said = f"of {tmp_path}'s {names}, those are converted that are given, as by --controlnet {given}"
    assert said in plain.checkpoint.remarks
    steered = open_job(tmp_path, Settings(rules=(), controlnets=((given, None),)))
    assert {*steered.checkpoint.weights["controlnet_controlnet"]} == {*canny.state_dict()}
    if count == 2:
        with pytest.raises(BadCheckpoint, match="has controlnet and controlnet_1; give one of these folders"):
            opened(folder, (tmp_path, None))
    else:
        assert "controlnet_x" in opened(folder, (tmp_path, "x")).checkpoint.weights


def test_a_hint_of_one_layer_is_refused(
    folder: Path, canny: diffusers.ControlNetModel, tmp_path: Path
) -> None:
    path = controlnets.write_file(tmp_path / "own.safetensors", canny)
    hint, first = "control_model.input_hint_block.", "control_model.input_hint_block.0."
    kept = {n: t for n, t in load_file(path).items() if not n.startswith(hint) or n.startswith(first)}
    save_file(kept, path)
    with pytest.raises(BadCheckpoint, match=r"has 1 layer in control_model\.input_hint_block, and a"):
        opened(folder, (path, None))


def test_a_tensor_that_no_controlnet_has_is_refused(
    folder: Path, canny: diffusers.ControlNetModel, tmp_path: Path
) -> None:
    path = controlnets.write_file(tmp_path / "more.safetensors", canny)
    save_file({**load_file(path), "control_model.input_blocks.1.5.weight": torch.ones(1)}, path)
    with pytest.raises(BadCheckpoint, match=r"holds control_model\.input_blocks\.1\.5\.weight"):
        opened(folder, (path, None))


def test_names_are_refused_where_they_are_equal_or_impossible(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(BadConfig, match="two ControlNets are called canny; give PATH:NAME"):
        opened(folder, (folder / "canny", None), (folder / "canny", "canny"))
    (tmp_path / "___").mkdir()
    with pytest.raises(BadConfig, match="gives no name for its ControlNet; give PATH:NAME"):
        opened(folder, (tmp_path / "___", None))
