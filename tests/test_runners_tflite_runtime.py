"""TensorFlow Lite 2.14 as a backend: the real library, in a process of its own, against LiteRT's."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import numpy as np
import pytest

from msd.bundle import open_bundle
from msd.errors import BadModelFile, DelegateFailed
from msd.graph.parity import psnr
from msd.run.runners.backends.tflite_runtime import TfliteRuntime
from msd.run.runners.engine import Engine
from msd.run.runners.interpreter import Interpreter
from msd.run.runners.random_inputs import random_inputs
from msd.run.runners.registry import find_backend
from msd.run.runners.runner import Conditions
from msd.run.runtime.components import open_component
from msd.run.runtime.pipeline import Pipeline
from tests import tiny_models
from tests.int8_layers import save_layer
from tests.old_runtime import needs_old_runtime

pytestmark = needs_old_runtime

OLD = Engine(find_backend("tflite-runtime"), Conditions(threads=2))


def test_a_picture_is_litert_s(bundle_folder: Path) -> None:
    bundle = open_bundle(bundle_folder)
    new, old = (
        Pipeline(bundle, backend).generate("two dogs", steps=3) for backend in ("cpu", "tflite-runtime")
    )
    assert np.abs(old.latents - new.latents).max() <= 1e-5 * np.abs(new.latents).max()
    assert old.metadata["backend"] == "tflite-runtime"


@pytest.mark.parametrize(("float_weights", "least"), [(True, 120.0), (False, 35.0)])
def test_the_int8_u_net_runs_there(float_weights: bool, least: float, demo_int8: Path) -> None:
    """With float weights in float32 arithmetic; without, each library rounds inputs in its own way."""
    path = open_bundle(demo_int8).path("unet")
    wanted = Conditions(threads=2, float_weights=float_weights)
    with Interpreter(path, float_weights=True) as new, TfliteRuntime(path, wanted) as old:
        inputs = random_inputs(new.inputs.values(), 3)
        distance = psnr(new.run(inputs)["noise"], old.run(inputs)["noise"])
    assert distance >= least


def test_the_int8_text_encoder_is_refused_in_a_sentence(demo_int8: Path) -> None:
    bundle = open_bundle(demo_int8)
    wanted = (
        r"tflite-runtime 2\.14 cannot run .*text_encoder\.tflite: it has no EMBEDDING_LOOKUP of version 4; "
        "it runs files of the recipes cpu-w8, float16 and float32$"
    )
    with pytest.raises(BadModelFile, match=wanted), open_component(bundle, "text_encoder", OLD):
        pass


def test_what_is_wrong_with_a_file_is_said(tmp_path: Path) -> None:
    with TfliteRuntime(tiny_models.save("copy_only", tmp_path), Conditions()) as session:
        with pytest.raises(BadModelFile, match=r"takes x0 as float32\[1, 9, 7, 4\]"):
            session.run({"x0": np.zeros((1, 9, 7, 5), np.float32)})
        os.kill(session._child.process.pid, signal.SIGSEGV)
        with pytest.raises(
            DelegateFailed, match=r"was lost with .*copy_only\.tflite: .* crashed with SIGSEGV"
        ):
            session.run({"x0": np.zeros(tiny_models.SHAPE, np.float32)})


def test_a_file_for_the_cpu_stays_with_the_runtime_that_was_asked_for() -> None:
    assert OLD.on("cpu") == OLD
    assert Engine(find_backend("gpu")).on("cpu").backend == find_backend("cpu")


@pytest.mark.parametrize(
    ("kind", "scales", "dtype", "misread"),
    [
        ("FULLY_CONNECTED", 12, "INT8", True),
        ("FULLY_CONNECTED", 12, "INT4", True),
        ("BATCH_MATMUL", 12, "INT8", True),
        ("EMBEDDING_LOOKUP", 12, "INT8", True),
        ("FULLY_CONNECTED", 1, "INT8", False),
        ("FULLY_CONNECTED", 1, "INT4", False),
        ("BATCH_MATMUL", 1, "INT8", False),
        ("CONV_2D", 12, "INT8", False),
        ("DEPTHWISE_CONV_2D", 16, "INT8", False),
    ],
)
def test_scales_that_it_would_take_for_0_are_refused(
    kind: str, scales: int, dtype: str, misread: bool, tmp_path: Path
) -> None:
    """At version 1 nothing tells 2.14 of several scales; where it is not refused, it has LiteRT's numbers."""
    path = save_layer(tmp_path, kind, scales, dtype)
    if misread:
        with pytest.raises(
            BadModelFile, match=rf"it takes the 12 scales of the {dtype.lower()} weights w of {kind} for 0"
        ):
            TfliteRuntime(path, Conditions(float_weights=False))
        return
    with Interpreter(path) as new, TfliteRuntime(path, Conditions(float_weights=False)) as old:
        inputs = random_inputs(new.inputs.values(), 3)
        assert psnr(new.run(inputs)["y"], old.run(inputs)["y"]) >= 30
