"""What is no checkpoint, or a spoilt one, is refused by what it is, with what to do."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from msd.conversion.sources.diffusers import open_folder
from msd.conversion.sources.formats import open_checkpoint
from msd.conversion.sources.lora_file import open_adapter
from msd.conversion.sources.unet import replace_unet
from msd.errors import BadCheckpoint
from tests import checkpoints
from tests.late import diffusers


def refuse(path: Path, message: str) -> None:
    with pytest.raises(BadCheckpoint, match=re.escape(message)) as caught:
        open_checkpoint(path)
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ('{"_class_name": "ControlNetModel"}', "above it, or a checkpoint and this as its --controlnet"),
        ('{"_class_name": "UNet2DConditionModel"}', "above it, or a checkpoint and this as its --unet"),
        ('{"_class_name": "AutoencoderKL"}', "above it, or a checkpoint and this as its --vae"),
        ('{"_class_name": "AutoencoderTiny"}', "a checkpoint and this as its --vae or --preview-vae"),
        ('{"_class_name": "T2IAdapter"}', "c.ckpt, the weights of one T2IAdapter, which is not supported"),
        (
            '{"architectures": ["CLIPTextModel"]}',
            "as one part of a checkpoint does: give the folder above it",
        ),
        ("[", "as one part of a checkpoint does: give the folder above it"),
    ],
)
def test_one_network_s_folder_is_told_the_option_that_takes_it(
    config: str, said: str, tmp_path: Path
) -> None:
    save_file({"a": torch.ones(1)}, tmp_path / "c.ckpt")
    (tmp_path / "config.json").write_text(config)
    with pytest.raises(BadCheckpoint, match=re.escape(said) + r"\Z"):
        open_checkpoint(tmp_path)


def test_an_ip_adapter_of_torch_is_refused_by_name(tmp_path: Path) -> None:
    """Its author's files have a dictionary for each of its parts."""
    parts = {
        "image_proj": {"proj.weight": torch.zeros(1)},
        "ip_adapter": {"1.to_k_ip.weight": torch.zeros(1)},
    }
    torch.save(parts, tmp_path / "ip-adapter_sd15.bin")
    refuse(tmp_path / "ip-adapter_sd15.bin", "is an IP-Adapter, which is not supported")
    with pytest.raises(BadCheckpoint, match=r"is an IP-Adapter: it has image_proj\.proj\.weight"):
        open_adapter(tmp_path / "ip-adapter_sd15.bin")


def test_a_checkpoint_saved_with_a_lora_on_its_layers_is_refused_by_that(tmp_path: Path) -> None:
    """Diffusers saves the layers of the U-Net under other names, and of the text encoder the LoRA alone."""
    import peft

    checkpoints.write(tmp_path / "tiny", checkpoints.TINY)
    pipeline = diffusers.StableDiffusionPipeline.from_pretrained(tmp_path / "tiny", safety_checker=None)
    layers = peft.LoraConfig(r=2, target_modules=["to_q", "q_proj"])
    for network in (pipeline.unet, pipeline.text_encoder):
        network.add_adapter(layers)
    pipeline.save_pretrained(tmp_path / "saved")
    cure = ": it was saved with a LoRA on its layers, not merged; call unload_lora_weights() of diffusers"
    refuse(tmp_path / "saved", f"text_encoder has adapter_config.json and no config.json{cure}")
    shutil.rmtree(tmp_path / "saved/text_encoder")
    shutil.copytree(tmp_path / "tiny/text_encoder", tmp_path / "saved/text_encoder")
    refuse(tmp_path / "saved", f"attn1.to_q.base_layer.weight{cure}")
    with pytest.raises(BadCheckpoint, match=r"saved has down_blocks\..+\.base_layer\.weight: it was saved"):
        replace_unet(open_folder(tmp_path / "tiny"), tmp_path / "saved")
    pipeline.unload_lora_weights()
    pipeline.save_pretrained(tmp_path / "unloaded")
    found, wanted = (open_folder(tmp_path / name).weights["unet"] for name in ("unloaded", "tiny"))
    assert found.keys() == wanted.keys()
    assert all((found[name].load() == tensor.load()).all() for name, tensor in wanted.items())
