"""Where the training of int4 weights begins: nearer to what the layers said than the nearest integers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import graph_rewrites
from msd.bundle import open_bundle
from msd.calibration.generated_inputs import Calibration
from msd.conversion.convert import Settings, convert
from msd.distill.compensation import compensate_layers
from msd.distill.distill import distill
from msd.distill.fake_quantization import integers, quantize_layers
from msd.distill.networks import open_networks
from msd.distill.settings import DistillationSettings, Goal, TeacherData, Training
from msd.distill.training import TrainingProgress
from msd.encoding.recipe import Line, find_recipe
from msd.ir.weights import Array
from msd.pytorch.modules import network_call
from msd.rounding import moments
from msd.rounding.compensate import InputPart, compensated
from msd.sources.diffusers import open_folder, read_json
from tests.checkpoints import TINY, vary, write
from tests.on_cpu import normal
from tests.test_distill import observer, weights
from tests.test_distill_recovery import decibels, inputs_of

RUNS = 8
INT4 = Line("int4")


def network(bias: bool = True) -> Any:
    torch.manual_seed(3)
    return torch.nn.Sequential(
        torch.nn.Conv2d(5, 12, (3, 2), stride=(1, 2), padding=(1, 0), bias=bias),
        torch.nn.SiLU(),
        torch.nn.Flatten(),
        torch.nn.Linear(12 * 7 * 3, 9, bias=bias),
    )


def images(number: int) -> Any:
    """Return images whose channels depend on each other, and have a mean."""
    mixed = normal(120, 7 * 6, 5, seed=number) @ normal(5, 5, seed=100) + normal(5, seed=101)
    return torch.from_numpy(np.ascontiguousarray(mixed.swapaxes(1, 2)).reshape(120, 5, 7, 6))


def run(layers: Any, number: int) -> Any:
    return layers(images(number))


def error(found: Any, wanted: Any, layer: int) -> float:
    """Return the squared error of a layer on other images than those it was rounded on."""
    x = images(RUNS + 1) if layer == 0 else wanted[:3](images(RUNS + 1))
    with torch.no_grad():
        return float((found[layer](x) - wanted[layer](x)).square().mean())


@pytest.mark.parametrize("products", [1 << 30, 1])
@pytest.mark.parametrize("bias", [True, False])
def test_layers_begin_nearer_than_the_nearest_integers(
    bias: bool, products: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether the products of all layers fit into memory together, or of one at a time."""
    monkeypatch.setattr(moments, "PRODUCTS", products)
    whole, nearest, begun = network(bias), network(bias), network(bias)
    lines = {"0.weight": INT4, "3.weight": INT4}
    quantize_layers(nearest, lines)
    seen: list[tuple[int, int]] = []
    scales = compensate_layers(begun, lines, run, RUNS, lambda *numbers: seen.append(numbers))
    assert seen == [(1, 2), (2, 2)]
    quantize_layers(begun, lines, scales)
    assert scales.keys() == lines.keys()
    for layer in (0, 3):
        assert error(begun, whole, layer) < 0.7 * error(nearest, whole, layer)


def test_weights_keep_what_they_were_within_the_cells_of_the_compensated_integers() -> None:
    whole, begun = network(), network()
    scale = compensate_layers(begun, {"3.weight": INT4}, run, RUNS)["3.weight"]
    x = np.concatenate([whole[:3](images(i)).detach().numpy() for i in range(RUNS)])
    weights: Array = whole[3].weight.detach().numpy()
    part = InputPart(np.arange(x.shape[1]), np.cov(x.T.astype(np.float64), bias=True), float(np.mean(x**2)))
    wanted = compensated(weights, [part], x.mean(axis=0), "int4")
    found, _ = integers(begun[3].weight, INT4, scale)
    assert np.allclose(scale.numpy(), wanted.scale)
    assert (found.numpy() == wanted.stored).mean() > 0.995
    assert np.allclose(begun[3].bias.detach(), whole[3].bias.detach() + wanted.mean, atol=1e-4)
    kept = begun[3].weight == whole[3].weight
    assert 0.3 < float(kept.float().mean()) < 0.98
    assert torch.equal(begun[0].weight, whole[0].weight)


def test_scales_that_follow_the_weights_have_nothing_to_begin_with() -> None:
    whole, begun = network(), network()
    lines = {"0.weight": Line("int8"), "3.weight": Line("int4", algorithm="min-max")}
    assert compensate_layers(begun, lines, run, RUNS) == {}
    assert all(map(torch.equal, whole.parameters(), begun.parameters()))


@pytest.fixture
def settings(tmp_path: Path) -> DistillationSettings:
    write(tmp_path / "teacher", vary(TINY, unet={"sample_size": [4, 6]}))
    prompts = tmp_path / "prompts.txt"
    prompts.write_text("red\nreed\n", "utf-8")
    return DistillationSettings(
        data=TeacherData(prompts, 2, seed=3),
        goal=Goal(recover="gpu-w4"),
        state=tmp_path / "state",
        training=Training(updates=22, batch=2, rate=1e-3, warmup=1),
        rules=graph_rewrites.load(),
        save_every=19,
    )


def test_the_file_of_a_network_trained_in_int4_is_that_network(
    settings: DistillationSettings, tmp_path: Path
) -> None:
    """With a calibration and without: the encoder finds the scales of training, nothing is rounded again."""
    student = tmp_path / "student"
    distill(tmp_path / "teacher", student, settings, observer())
    asked = Settings(graph_rewrites.load(), find_recipe("gpu-w4"), ("unet",))
    convert(tmp_path / "teacher", tmp_path / "nearest", asked)
    convert(student, tmp_path / "plain", asked)
    (tmp_path / "inputs" / "unet").mkdir(parents=True)
    np.savez(tmp_path / "inputs" / "unet" / "0.npz", **inputs_of(open_bundle(tmp_path / "nearest")))
    convert(student, tmp_path / "calibrated", replace(asked, calibration=Calibration(tmp_path / "inputs")))
    call = network_call(open_folder(student), "unet", read_json(student, "unet/config.json"), "cpu")
    embed = open_networks(tmp_path / "teacher", "cpu").unet.time_proj
    close = {name: decibels(tmp_path / name, call, embed) for name in ("plain", "calibrated", "nearest")}
    assert min(close["plain"], close["calibrated"]) > 60, close
    assert close["nearest"] < 40, close


def test_an_interrupted_training_in_int4_goes_on_with_its_scales(
    settings: DistillationSettings, tmp_path: Path
) -> None:
    def interrupt(progress: TrainingProgress) -> None:
        if progress.update == 20:
            raise KeyboardInterrupt

    distill(tmp_path / "teacher", tmp_path / "whole", settings, observer())
    stopped, watched = replace(settings, state=tmp_path / "other"), replace(observer(), on_progress=interrupt)
    with pytest.raises(KeyboardInterrupt):
        distill(tmp_path / "teacher", tmp_path / "again", stopped, watched)
    distill(tmp_path / "teacher", tmp_path / "again", stopped, observer())
    whole, again = (weights(tmp_path / name) for name in ("whole", "again"))
    assert all(torch.equal(whole[name], again[name]) for name in whole)
