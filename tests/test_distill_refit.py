"""What a recovery begins with: layers that read pruned units, refitted to what the whole network's say."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from msd.graph.parity import psnr
from msd.train.distill.distill import distill
from msd.train.distill.networks import Networks, open_networks
from msd.train.distill.passes import Points, output_of
from msd.train.distill.refit import readers_of, refit_layers
from msd.train.distill.settings import DistillationSettings, Training
from msd.train.distill.student import new_student
from msd.train.distill.training import TrainingProgress
from msd.train.pytorch.narrowing import narrowing_of
from tests.test_distill import observer, weights
from tests.test_distill_recovery import checkpoint, cut_units, every_unit_cut, recipe, settings

__all__ = ["checkpoint", "recipe", "settings"]


def noise(teacher: Networks, random: Any, size: int) -> Points:
    latents = torch.randn(size, *teacher.latent_shape, generator=random)
    timesteps = torch.randint(1000, (size,), generator=random)
    ids = teacher.token_ids(["red"] * size)
    return Points(latents=latents, timesteps=timesteps, ids=ids, scales=torch.ones(size))


def test_layers_are_refitted_to_what_the_whole_networks_say(
    checkpoint: Path, recipe: Path, tmp_path: Path
) -> None:
    """Convolutions, attention's last layers and feed-forward nets, of which every unit lacks a part."""
    teacher, pruning = open_networks(checkpoint, "cpu"), every_unit_cut(checkpoint)
    narrowing = narrowing_of(teacher.checkpoint, "unet", lambda g: cut_units(g, pruning))
    names = readers_of(narrowing, teacher.unet)
    readers = ("resnets.0.conv2", "to_out.0", "ff.net.2")
    assert {name for name, _ in teacher.unet.named_modules() if name.endswith(readers)} <= {*names}

    def error(unet: Any) -> float:
        points = noise(teacher, torch.Generator().manual_seed(77), 16)
        conditions = teacher.conditions(points.ids)
        with torch.no_grad():
            wanted, said = (output_of(each, points, conditions) for each in (teacher.unet, unet))
        return float((said - wanted).square().mean() / wanted.square().mean())

    narrow = narrowing.narrow(new_student(teacher.unet, False, Training()))
    before = error(narrow)

    def run(unet: Any, number: int) -> None:
        points = noise(teacher, torch.Generator().manual_seed(number), 8)
        output_of(unet, points, teacher.conditions(points.ids))

    errors = refit_layers(narrow, teacher.unet, names, run, 16, tmp_path)
    assert all(after <= was for was, after in errors.values())
    assert np.mean([after / was for was, after in errors.values()]) < 0.6
    assert error(narrow) < 0.8 * before
    assert not [*tmp_path.glob("*.samples")]


def test_a_unit_that_others_can_stand_in_for_is_no_loss(tmp_path: Path) -> None:
    """Each pruned channel has a twin that stays, so the refit finds the whole network again."""

    def network(width: int) -> Any:
        return torch.nn.ModuleDict(
            {
                "one": torch.nn.Conv2d(3, width, 3, padding=1),
                "two": torch.nn.Conv2d(width, 5, (3, 1), stride=2, padding=(1, 0), bias=False),
                "three": torch.nn.Linear(width, 4),
            }
        )

    torch.manual_seed(4)
    whole, narrow = network(8), network(4)
    with torch.no_grad():
        for which in ("weight", "bias"):
            half = getattr(narrow["one"], which)
            getattr(whole["one"], which).copy_(torch.cat([half, half]))
        narrow["two"].weight.copy_(whole["two"].weight[:, :4])
        narrow["three"].weight.copy_(whole["three"].weight[:, :4])
        narrow["three"].bias.copy_(whole["three"].bias)

    def run(network: Any, number: int) -> tuple[Any, Any]:
        x = torch.randn(2, 3, 9, 7, generator=torch.Generator().manual_seed(number))
        y = network["one"](x).sin()
        return network["two"](y), network["three"](y.permute(0, 2, 3, 1))

    refit_layers(narrow, whole, ["two", "three"], run, 8, tmp_path)
    for found, wanted in zip(run(narrow, 50), run(whole, 50), strict=True):
        assert psnr(wanted.detach().numpy(), found.detach().numpy()) > 60


def test_a_recovery_begins_refitted_and_keeps_that_until_it_ends(
    tmp_path: Path, checkpoint: Path, settings: DistillationSettings
) -> None:
    frozen = replace(settings, training=replace(settings.training, rate=1e-12, updates=22), save_every=100)
    seen = []

    def on_progress(progress: TrainingProgress) -> None:
        seen.extend(settings.state.glob("recover-*/*"))

    distill(checkpoint, tmp_path / "student", frozen, replace(observer(), on_progress=on_progress))
    assert "begun.safetensors" in {path.name for path in seen}
    assert not [*settings.state.glob("recover-*/*.samples"), *settings.state.glob("recover-*/begun*")]
    name = "up_blocks.0.resnets.0.conv2.weight"
    before, after = weights(checkpoint)[name], weights(tmp_path / "student")[name]
    assert not torch.allclose(before[:, after[0, :, 0, 0] != 0], after[:, after[0, :, 0, 0] != 0], rtol=1e-3)
