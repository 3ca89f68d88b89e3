"""Kernels in float16, which SwiftShader lacks: whole networks on Mesa's lavapipe, where it is installed.

Dawn refuses the lavapipe of Debian 12, so wgpu-native runs them, in a process as users' files run.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from msd.graph import tflite
from msd.graph.ir import Model
from msd.graph.parity import psnr
from msd.run.runners import adapter
from msd.run.runners.backends.webgpu import WebGpuProcess
from msd.run.runners.interpreter import Interpreter
from msd.run.runners.random_inputs import random_inputs
from msd.run.runners.runner import Conditions, VulkanAdapter
from tests.harness import build
from tests.webgpu_device import LAVAPIPE, needs_lavapipe
from tests.webgpu_programs import constant_attention

LEAST, MOST = 55.0, 95.0
"""Decibels to float32 on the CPU: of float16, and what float16 cannot reach."""


@needs_lavapipe
@pytest.mark.parametrize("recipe", ["gpu-w8", "gpu-w4", "float16"])
@pytest.mark.parametrize("component", ["text_encoder", "unet", "vae_decoder"])
def test_networks(component: str, recipe: str, demo: Callable[[str], Path]) -> None:
    check(demo(recipe) / f"{component}.tflite")


@needs_lavapipe
def test_attention_with_constant_keys_and_values(tmp_path: Path) -> None:
    path = tmp_path / "attention.tflite"
    tflite.write(Model([build(constant_attention, q=(2, 7, 8))]), path)
    check(path)


def check(path: Path) -> None:
    """Hold a file's results in float16 against LiteRT's in float32."""
    with Interpreter(path, float_weights=True) as cpu:
        inputs = random_inputs(cpu.inputs.values())
        expected = cpu.run(inputs)
    environment = {
        "VK_ICD_FILENAMES": str(LAVAPIPE),
        "VK_DRIVER_FILES": str(LAVAPIPE),
        **adapter._library_path(),
    }
    lavapipe = VulkanAdapter("llvmpipe", "CPU", "Mesa", half_floats=True, environment=environment)
    with WebGpuProcess(path, Conditions(precision="fp16", gpu_api="wgpu", adapter=lavapipe)) as gpu:
        found = gpu.run(inputs)
    for name, values in found.items():
        assert LEAST <= psnr(expected[name], values) <= MOST, name
