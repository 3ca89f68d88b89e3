"""ControlNets in Keras, and the U-Nets that they steer, compute what diffusers' do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from msd.conversion.sources.binding import bind
from msd.conversion.sources.weight_file import read_contents
from msd.errors import BadCheckpoint
from msd.graph.parity import psnr
from msd.models.config import ControlledUNetConfig, UNetConfig
from msd.models.control_config import ControlNetConfig
from msd.models.networks import Size
from msd.models.structure import VariableSpec
from tests import checkpoints, controlnets
from tests.drawings import nchw, nhwc
from tests.late import diffusers

Array = np.ndarray[Any, Any]
ENOUGH = 100.0
CASES = {
    "sd21": (checkpoints.SD21, controlnets.OF_SD15, 13),
    "sd15": (checkpoints.SD15, controlnets.OF_SD15, 13),
    "tiny": (checkpoints.TINY, controlnets.OF_TINY, 5),
}


class Steered:
    """A U-Net and its ControlNet, with the inputs and residuals of two rows."""

    def __init__(self, name: str, folder: Path) -> None:
        config, hints, self.count = CASES[name]
        torch.manual_seed(0)
        self.unet = diffusers.UNet2DConditionModel(**config["unet"]).eval()
        self.control = controlnets.write(folder / "control", self.unet, **hints)
        self.unet.save_pretrained(folder / "unet")
        self.config = ControlNetConfig.from_diffusers(dict(self.control.config), "controlnet")
        self.size = Size(rows=8, columns=16, length=5, batch=2, scale=self.config.hint_scale)
        random = np.random.default_rng(1)
        self.given = {
            name: random.standard_normal(shape, np.float32)
            for name, (shape, _) in self.config.inputs(self.size).items()
        }
        self.given["timestep"] = np.float32([981, 3])
        from msd.models.controlnet import controlnet

        self.found = {
            name: np.asarray(value)
            for name, value in loaded(controlnet(self.config, self.size, "c"), folder / "control")(
                self.given
            ).items()
        }

    def torch_inputs(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        given = self.given
        return nchw(given["latent"]), torch.tensor(given["timestep"]), torch.from_numpy(given["context"])


def loaded(model: Any, folder: Path) -> Any:
    """Return a Keras model with the weights in a folder, of which nothing is left over."""
    weights = read_contents(folder / "diffusion_pytorch_model.safetensors").tensors
    bound = bind("it", {v.path: VariableSpec(v.path, tuple(v.shape)) for v in model.variables}, weights)
    assert bound.unexpected == ()
    for variable in model.variables:
        variable.assign(bound.weights[variable.path].load())
    return model


@pytest.fixture(scope="module", params=CASES)
def steered(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Steered:
    return Steered(request.param, tmp_path_factory.mktemp(request.param))


@torch.no_grad()
def test_residuals_are_diffusers_times_their_scales(steered: Steered) -> None:
    hint = nchw(steered.given["hint"]) * 0.5 + 0.5
    *below, middle = steered.control(*steered.torch_inputs(), hint, return_dict=False)
    residuals = [*below[0], middle]
    assert len(residuals) == len(steered.found) == steered.count
    shapes = steered.config.residuals(steered.size)
    for i, residual in enumerate(residuals):
        wanted = nhwc(residual) * steered.given["scale"][:, i].reshape(-1, 1, 1, 1)
        assert shapes[f"control_{i}"][0] == wanted.shape
        assert psnr(wanted, steered.found[f"control_{i}"]) >= ENOUGH


@torch.no_grad()
def test_a_unet_adds_residuals_where_diffusers_does(steered: Steered, tmp_path: Path) -> None:
    steered.unet.save_pretrained(tmp_path)
    config = ControlledUNetConfig.of(UNetConfig.from_diffusers(dict(steered.unet.config), "unet"))
    from msd.models.unet import unet

    model = loaded(unet(config, steered.size, "u"), tmp_path)
    shared = {name: steered.given[name] for name in ("latent", "timestep", "context")}
    found = np.asarray(model(shared | steered.found)["noise"])
    *below, middle = (nchw(steered.found[f"control_{i}"]) for i in range(steered.count))
    wanted = steered.unet(
        *steered.torch_inputs(),
        down_block_additional_residuals=below,
        mid_block_additional_residual=middle,
    ).sample
    assert psnr(nhwc(wanted), found) >= ENOUGH
    without = steered.unet(*steered.torch_inputs()).sample
    assert psnr(nhwc(without), found) < 60


def test_a_scale_of_zero_makes_zeros(steered: Steered, tmp_path: Path) -> None:
    steered.control.save_pretrained(tmp_path)
    from msd.models.controlnet import controlnet

    model = loaded(controlnet(steered.config, steered.size, "c"), tmp_path)
    made = model({**steered.given, "scale": np.zeros_like(steered.given["scale"])})
    assert not any(np.any(np.asarray(each)) for each in made.values())


def test_blocks_that_differ_within_a_level_are_refused() -> None:
    torch.manual_seed(0)
    unet = diffusers.UNet2DConditionModel(**checkpoints.TINY["unet"])
    config = dict(controlnets.make(unet, 1, **controlnets.OF_TINY).config)
    uneven = {"layers_per_block": 2, "transformer_layers_per_block": [[2, 1], [1, 1]]}
    with pytest.raises(BadCheckpoint, match=r"transformer_layers_per_block.*one number for each level"):
        ControlNetConfig.from_diffusers({**config, **uneven}, "controlnet")
