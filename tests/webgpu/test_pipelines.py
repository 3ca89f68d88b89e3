"""A device keeps the pipelines that it has made, and gives one out again for the same shader."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from msd.gpu import device as device_module
from msd.gpu.device import OpenDevice
from msd.gpu.program import ComputePipeline
from tests.webgpu_device import device

SHADER = """
@group(0) @binding(0) var<storage, read_write> numbers: array<f32>;
@compute @workgroup_size(1) fn main() { numbers[0] = NUMBER; }
"""


def shader(number: float, name: str = "set", bindings: tuple[str, ...] = ("storage",)) -> ComputePipeline:
    return ComputePipeline(name, SHADER.replace("NUMBER", str(number)), bindings)


@pytest.fixture
def opened() -> OpenDevice:
    """A device that has made nothing."""
    return replace(device(), _made={})


def test_the_same_shader_is_compiled_once(opened: OpenDevice) -> None:
    assert opened.pipeline(shader(1.0)) is opened.pipeline(shader(1.0, "of another name"))


def test_another_shader_is_another_pipeline(opened: OpenDevice) -> None:
    first, second = opened.pipeline(shader(1.0)), opened.pipeline(shader(2.0))
    assert first[0] is not second[0]


def test_the_bindings_belong_to_a_pipeline(opened: OpenDevice) -> None:
    once = opened.pipeline(shader(1.0))
    assert opened.pipeline(shader(1.0, bindings=("storage", "uniform"))) is not once


def test_the_oldest_go_where_there_are_too_many(opened: OpenDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_module, "KEPT", 2)
    made: dict[float, Any] = {number: opened.pipeline(shader(number)) for number in (1.0, 2.0, 3.0)}
    assert opened.pipeline(shader(3.0)) is made[3.0]
    assert opened.pipeline(shader(2.0)) is made[2.0]
    assert opened.pipeline(shader(1.0)) is not made[1.0]
