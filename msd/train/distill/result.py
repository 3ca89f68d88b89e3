"""The student's checkpoint in diffusers' layout: its teacher's, with another U-Net and its own schedule."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from msd.bundle import ImageDefaults
from msd.conversion.sources.diffusers import DISTILLATION, INDEX, SCHEDULER
from msd.errors import OutputExists
from msd.files.publication import contents, publish, staged
from msd.files.targets import require_targets
from msd.files.unwritable import raises_unwritable
from msd.files.wording import counted
from msd.models.families import Family
from msd.models.families.stable_diffusion import UNET
from msd.train.distill.consistency import lcm_scheduler
from msd.train.distill.networks import Networks
from msd.train.distill.saving import says_unwritable
from msd.train.distill.settings import Goal
from msd.train.pytorch.narrowing import Narrowing

CARD, LORA = "README.md", "pytorch_lora_weights.safetensors"


@dataclass(frozen=True)
class DistilledCheckpoint:
    """A student and how its images are generated; `record` says how it was made.

    `narrowing` says what its U-Net lacks of its teacher's, and gets zeros for.
    """

    unet: Any
    scheduler: Mapping[str, Any]
    images: ImageDefaults
    record: Mapping[str, Any]
    narrowing: Narrowing = field(default_factory=Narrowing)

    @property
    def facts(self) -> dict[str, Any]:
        """What distillation.json says."""
        return {"images": asdict(self.images), **self.record}


def require_free(out: Path) -> None:
    """Raise OutputExists for a file or a folder with contents, and OutputUnwritable for a closed place."""
    if out.exists() and (not out.is_dir() or contents(out)):
        raise OutputExists(f"{out} exists; give a new folder")
    require_targets(out, [])


def scheduler_of(goal: Goal, config: Mapping[str, Any], prediction: str) -> dict[str, Any]:
    """Return the scheduler_config.json of a student, whose teacher's is `config`.

    A student of fewer steps was trained for DDIM's trailing timesteps.
    """
    if goal.lcm:
        return lcm_scheduler(config, prediction)
    if goal.steps is None:
        return dict(config)
    return {
        **config,
        "_class_name": "DDIMScheduler",
        "clip_sample": False,
        "prediction_type": prediction,
        "set_alpha_to_one": True,
        "timestep_spacing": "trailing",
    }


def write_lora(result: DistilledCheckpoint, out: Path) -> None:
    """Write what a student with LoRA learnt, as diffusers does, to the new folder `out`; OutputUnwritable."""
    from diffusers import StableDiffusionPipeline
    from peft import get_peft_model_state_dict

    layers = get_peft_model_state_dict(result.unet)
    with staged(out) as folder, says_unwritable(out):
        StableDiffusionPipeline.save_lora_weights(folder, unet_lora_layers=layers)
        _write_json(folder / DISTILLATION, result.facts)
        (folder / CARD).write_text(lora_card(out.name, result.images), "utf-8")
        publish(folder, out, LORA)


def write_result(teacher: Networks, result: DistilledCheckpoint, out: Path) -> None:
    """Write the student's checkpoint to the folder `out`, which is new; raises OutputUnwritable."""
    checkpoint = teacher.checkpoint
    weights = checkpoint.weight_files[UNET.name]
    with staged(out) as folder, raises_unwritable(out, folder):
        for name, path in checkpoint.files.items():
            if name not in weights and name != DISTILLATION:
                _copy(path, folder / name)
        _save_unet(teacher, result, folder / UNET.part.folder)
        _write_json(folder / SCHEDULER, result.scheduler)
        _write_json(folder / INDEX, _index(teacher, result.scheduler))
        _write_json(folder / DISTILLATION, result.facts)
        (folder / CARD).write_text(card(out.name, result.images, checkpoint.family), "utf-8")
        publish(folder, out, INDEX)


def _copy(path: Path, target: Path) -> None:
    """Copy a file; unlike shutil.copyfile, a full disk is no fault of `path`."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with path.open("rb") as source, target.open("xb") as copy:
        shutil.copyfileobj(source, copy)


def _stated(images: ImageDefaults) -> str:
    return f"{counted(images.steps, 'step')}, guidance {images.guidance:g}"


def card(name: str, images: ImageDefaults, family: Family) -> str:
    """Return a README.md that says how images of the checkpoint are generated."""
    return f"""# {name}

Distilled with `msd distill`: {_stated(images)}. distillation.json says how.

    msd-convert {name} -o converted
    msd generate converted --prompt "…" -o image.png

msd takes the steps and the guidance from here. diffusers' pipelines take them as arguments:

    pipe = {family.pipelines[0]}.from_pretrained("{name}")
    pipe("…", num_inference_steps={images.steps}, guidance_scale={images.guidance:g})
"""


def lora_card(name: str, images: ImageDefaults) -> str:
    """Return a README.md that says how a LoRA is merged and used."""
    return f"""# {name}

A latent consistency LoRA by `msd distill`: {_stated(images)}.
distillation.json says how it was made.

    msd-convert TEACHER --lora {name}/{LORA} --scheduler lcm -o converted

With diffusers: `pipe.load_lora_weights("{name}")` and LCMScheduler, with guidance_scale={images.guidance:g}.
"""


def _save_unet(teacher: Networks, result: DistilledCheckpoint, folder: Path) -> None:
    """Write a U-Net in the precision that its teacher is stored in, with the shapes of its teacher."""
    from diffusers import UNet2DConditionModel

    weights = teacher.checkpoint.weights[UNET.name]
    smallest = min(weights.values(), key=lambda tensor: tensor.size)
    stored = getattr(torch, smallest.read().dtype.name)
    shapes = {name: tensor.shape for name, tensor in weights.items()}
    whole = UNet2DConditionModel.from_config(result.unet.config)
    whole.load_state_dict(result.narrowing.widen(result.unet.state_dict(), shapes))
    with says_unwritable(folder):
        torch.nn.Module.to(whole, stored).save_pretrained(folder)


def _index(teacher: Networks, scheduler: Mapping[str, Any]) -> dict[str, Any]:
    index = json.loads((teacher.folder / INDEX).read_text("utf-8"))
    return {**index, "scheduler": ["diffusers", scheduler["_class_name"]]}


def _write_json(path: Path, values: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(values, indent=2) + "\n", "utf-8")
