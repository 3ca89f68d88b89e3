"""A device keeps the pipelines that it has made, and gives one out again for the same shader."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Event
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


def test_a_shader_that_another_thread_is_compiling_is_awaited(
    opened: OpenDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiles: list[str] = []
    begun, go_on = Event(), Event()

    def compile_slowly(device: OpenDevice, wanted: ComputePipeline) -> tuple[Any, Any]:
        compiles.append(wanted.name)
        begun.set()
        assert go_on.wait(60)
        return object(), object()

    monkeypatch.setattr(OpenDevice, "_make", compile_slowly)
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(opened.pipeline, shader(1.0))
        assert begun.wait(60)
        second = pool.submit(opened.pipeline, shader(1.0))
        go_on.set()
        assert first.result() is second.result()
    assert compiles == ["set"]


def refusing(refusals: list[Exception]) -> Callable[..., tuple[Any, Any]]:
    """Return what makes a pipeline after all `refusals` were raised."""

    def make(device: OpenDevice, wanted: ComputePipeline) -> tuple[Any, Any]:
        if refusals:
            raise refusals.pop()
        return object(), object()

    return make


def test_a_shader_that_was_refused_is_tried_again(
    opened: OpenDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(OpenDevice, "_make", refusing([ValueError("no such type")]))
    with pytest.raises(ValueError, match="no such type"):
        opened.pipeline(shader(1.0))
    made = opened.pipeline(shader(1.0))
    assert opened.pipeline(shader(1.0)) is made
