"""Whole networks: converted checkpoints as programs, and an image, beside LiteRT on the CPU."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image

import graph_rewrites
from msd.bundle import open_bundle
from msd.cli import msd
from msd.compress.encoding.recipe import find_recipe
from msd.conversion.convert import Settings, convert
from msd.gpu import assemble
from msd.gpu.assemble import CONSTANT_BYTES
from msd.gpu.compile import compile_file
from msd.gpu.program import Program
from msd.gpu.session import Session
from msd.graph.parity import psnr
from msd.run.runners.interpreter import Interpreter
from msd.run.runners.random_inputs import random_inputs
from tests import checkpoints
from tests.webgpu_device import device

NETWORKS = ("text_encoder", "unet", "vae_decoder")
RANDOM = {"sd15": checkpoints.SD15, "sd21": checkpoints.SD21}


@pytest.fixture(scope="module")
def converted(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """`converted(name)`: a random checkpoint that diffusers wrote, converted to int8."""
    folder = tmp_path_factory.mktemp("random")

    def bundle(name: str) -> Path:
        out = folder / f"{name}-int8"
        if not out.exists():
            checkpoints.write(folder / name, RANDOM[name])
            convert(folder / name, out, Settings(graph_rewrites.load(), find_recipe("gpu-w8")))
        return out

    return bundle


def check(path: Path) -> Program:
    """Hold a file's program against LiteRT's CPU in float32: at least 100 dB."""
    with Interpreter(path, float_weights=True) as reference:
        inputs = random_inputs(reference.inputs.values())
        wanted = reference.run(inputs)
    program = compile_file(path, device().gpu)
    with Session(program, device()) as session:
        for name, result in session.run(inputs).items():
            assert psnr(wanted[name], result) >= 100, f"{name}: {psnr(wanted[name], result):.1f} dB"
    return program


@pytest.mark.parametrize("limit", [1 << 13, 1 << 16, 1 << 31])
def test_constants_in_many_buffers_are_those_in_one(
    converted: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    path = converted("sd15") / "text_encoder.tflite"
    with Interpreter(path) as reference:
        inputs = random_inputs(reference.inputs.values())
    results = []
    for constant_bytes in (CONSTANT_BYTES, 5000):
        monkeypatch.setattr(assemble, "CONSTANT_BYTES", constant_bytes)
        program = compile_file(path, device().gpu)
        few = replace(device(), wgpu=WithLimits(device().wgpu, {"max-buffer-size": limit}))
        with Session(program, few) as session:
            results.append(session.run(inputs))
    assert len(program.constant_buffers) > 10
    for name, result in results[0].items():
        assert np.array_equal(result, results[1][name]), name


class WithLimits:
    """A device of wgpu that says to have other limits."""

    def __init__(self, wgpu: Any, limits: dict[str, int]) -> None:
        self._wgpu, self.limits = wgpu, limits

    def __getattr__(self, name: str) -> Any:
        return getattr(self._wgpu, name)


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("checkpoint", sorted(RANDOM))
def test_networks_of_random_checkpoints(
    checkpoint: str, network: str, converted: Callable[[str], Path]
) -> None:
    check(open_bundle(converted(checkpoint)).path(network))


def test_the_demo_text_encoder(demo_int8: Path) -> None:
    program = check(demo_int8 / "text_encoder.tflite")
    assert len(program.steps) <= 40


def test_the_demo_unet_has_a_quarter_of_its_operations_as_dispatches(demo_int8: Path) -> None:
    program = compile_file(demo_int8 / "unet.tflite", device().gpu)
    assert len(program.steps) <= 500
    assert len(program.pipelines) <= 60
    assert program.buffers[0] <= 1.05 * program.least_arena


@pytest.mark.slow
@pytest.mark.parametrize("network", ["unet", "vae_decoder"])
def test_the_demo_networks(network: str, demo_int8: Path) -> None:
    """Half a minute each: SwiftShader multiplies slowly."""
    check(demo_int8 / f"{network}.tflite")


def test_an_image_is_the_one_that_the_cpu_generates(converted: Callable[[str], Path], tmp_path: Path) -> None:
    arrays = []
    for backend in ("cpu", "webgpu"):
        image = tmp_path / f"{backend}.png"
        words = ["generate", str(converted("sd15")), "--prompt", "fox", "--seed", "3", "--steps", "2"]
        result = CliRunner().invoke(msd, [*words, "--backend", backend, "-o", str(image)])
        assert result.exit_code == 0, result.output
        with Image.open(image) as opened:
            arrays.append(np.asarray(opened.convert("RGB"), np.float64))
    assert psnr(*arrays) >= 60


@pytest.mark.usefixtures("on_swiftshader")
def test_a_gpu_without_float16_is_named_where_it_was_asked_for(
    converted: Callable[[str], Path], tmp_path: Path
) -> None:
    """On stderr, once, and in the image's metadata; SwiftShader has no shader-f16."""
    words = ["generate", str(converted("sd15")), "--prompt", "fox", "--steps", "1", "--backend", "webgpu"]
    result = CliRunner().invoke(msd, [*words, "--precision", "fp16", "-o", str(tmp_path / "a.png"), "--json"])
    assert result.exit_code == 0, result.output
    said = f"{device().name} computes in fp32 instead of fp16"
    assert [line for line in result.stderr.splitlines() if "fp16" in line] == [f"warning: {said}"]
    assert said in json.loads(result.stdout)["remarks"]
