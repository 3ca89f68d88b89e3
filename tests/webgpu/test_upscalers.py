"""Upscalers as programs, beside LiteRT on the CPU, and an image that one enlarges."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image

from msd.bundle import open_bundle
from msd.cli import msd
from msd.gpu.compile import compile_file
from msd.gpu.session import Session
from msd.graph.parity import psnr
from msd.run.runners.interpreter import Interpreter
from msd.run.runners.random_inputs import random_inputs
from tests import upscalers
from tests.upscalers import Compact, Rrdb
from tests.webgpu_device import device

KINDS: upscalers.Kinds = {
    "large-4": (Rrdb, {"scale": 4, "features": 9, "growth": 5, "blocks": 1}),
    "large-2": (Rrdb, {"scale": 2, "features": 8, "growth": 4, "blocks": 1}),
    "compact-4": (Compact, {"scale": 4, "features": 12, "convs": 2}),
    "compact-2": (Compact, {"scale": 2, "features": 7, "convs": 3}),
}


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("upscalers")
    upscalers.write_sources(folder, KINDS)
    return folder


def run_msd(*words: object) -> str:
    result = CliRunner().invoke(msd, [*map(str, words)])
    assert result.exit_code == 0, result.output
    return result.output


@pytest.mark.parametrize("recipe", ["float32", "float16", "gpu-w8"])
@pytest.mark.parametrize("name", [*KINDS])
def test_its_numbers_are_the_cpus(source: Path, name: str, recipe: str) -> None:
    """Tiles of 24 by 40 pixels."""
    out = source / f"{name}-{recipe}"
    options = ["--upscaler", source / f"{name}.pth", "--component", "upscaler", "--recipe", recipe]
    run_msd("convert", source / "source", "-o", out, *options, "--height", 24, "--width", 40)
    path = open_bundle(out).path("upscaler")
    with Interpreter(path, float_weights=True) as reference:
        inputs = random_inputs(reference.inputs.values())
        wanted = reference.run(inputs)["enlarged"]
    program = compile_file(path, device().gpu)
    with Session(program, device()) as session:
        assert psnr(wanted, session.run(inputs)["enlarged"]) >= 100
    operations = {step.operation for step in program.steps}
    assert not operations & {"LEAKY_RELU", "PRELU"}, "slopes are parts of convolutions"


def test_generate_enlarges_on_webgpu(source: Path, tmp_path: Path) -> None:
    out = source / "whole"
    run_msd("convert", source / "source", "-o", out, "--upscaler", source / "compact-4.pth")
    arrays = []
    for backend in ("cpu", "webgpu"):
        image = tmp_path / f"{backend}.png"
        words = ["--steps", 2, "--upscale", 4, "--backend", backend, "-o", image]
        run_msd("generate", out, "-p", "a hill", *words)
        with Image.open(image) as opened:
            arrays.append(np.asarray(opened.convert("RGB"), np.float64))
    assert psnr(*arrays) >= 60


def test_its_dispatches_are_measured(source: Path) -> None:
    out = source / "measured"
    options = ["--upscaler", source / "compact-2.pth", "--component", "upscaler"]
    run_msd("convert", source / "source", "-o", out, *options)
    said = run_msd("kernels", out, "--component", "upscaler", "--repeats", 1)
    assert "convolution" in said
    assert "upscaler: 12 dispatches" in said
