"""keras-cv 0.9's own Stable Diffusion 2.1 is traced, and fully delegated when rewritten by the same rules."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import ai_edge_litert.interpreter
import pytest

import graph_rewrites
from msd.conversion.trace import with_weights
from msd.graph.ir import Op
from msd.graph.parity import psnr
from msd.graph.rewrite import apply
from msd.measure.judging import judge
from msd.models.structure import Structure
from msd.models.trace import trace
from msd.run.runners.interpreter import Interpreter
from tests import keras_cv_networks as networks
from tests.traced import Traced, random_weights, trace_random

LEAST = 100.0
"""Decibels between the graph as traced and as rewritten; clipped GELU included, which is exact here."""

MOST = 2060
"""Operations of the U-Net."""

CASES = {
    "text_encoder": networks.text_encoder(layers=2),
    "unet": networks.unet(narrower=10, fewer_blocks=1),
    "decoder": networks.decoder(one_in=4),
}
"""The text encoder and the decoder are of full width: small machines cannot compile all of the U-Net's."""


def written(name: str) -> tuple[Callable[[], Any], dict[str, tuple[tuple[int, ...], str]]]:
    """Return keras-cv's own network at full size and its inputs, for 128 × 64 pixels."""
    from keras_cv.models.stable_diffusion import Decoder
    from keras_cv.src.models.stable_diffusion.diffusion_model import DiffusionModelV2
    from keras_cv.src.models.stable_diffusion.text_encoder import TextEncoderV2

    latent, context = ((1, 16, 8, 4), "float32"), ((1, 77, 1024), "float32")
    tokens = ((1, 77), "int32")
    return {
        "text_encoder": (
            lambda: TextEncoderV2(77, download_weights=False),
            {"tokens": tokens, "positions": tokens},
        ),
        "unet": (
            lambda: DiffusionModelV2(128, 64, 77, download_weights=False),
            {"latent": latent, "timestep_embedding": ((1, 320), "float32"), "context": context},
        ),
        "vae_decoder": (
            lambda: Decoder(128, 64, download_weights=False),
            {"latent": latent},
        ),
    }[name]


@cache
def structure_of(name: str) -> Structure:
    """Return the traced structure of a network at full size: the U-Net's takes a minute."""
    return trace(*written(name))


@pytest.mark.parametrize(
    ("name", "variables", "output"),
    [
        ("text_encoder", 372, (1, 77, 1024)),
        ("unet", 686, (1, 16, 8, 4)),
        ("vae_decoder", 140, (1, 128, 64, 3)),
    ],
)
def test_the_whole_networks_are_traced(name: str, variables: int, output: tuple[int, ...]) -> None:
    structure = structure_of(name)
    assert len(structure.flatbuffer) < 1 << 20
    assert structure.inputs == tuple(written(name)[1])
    assert len(structure.variables) == len({v.path for v in structure.variables.values()}) == variables
    interpreter = ai_edge_litert.interpreter.Interpreter(model_content=structure.flatbuffer)
    assert not any(op["op_name"].startswith("Flex") for op in interpreter._get_ops_details())
    (detail,) = interpreter.get_output_details()
    assert tuple(detail["shape"]) == output


@cache
def traced(name: str) -> Traced:
    return trace_random(CASES[name], networks.VOCABULARY)


@pytest.mark.parametrize("name", CASES)
def test_every_operation_is_taken_and_the_numbers_stay(name: str, tmp_path: Path) -> None:
    graph = traced(name)
    graph.write(tmp_path / "traced.tflite")
    graph.write(tmp_path / "rewritten.tflite", graph_rewrites.load())
    (wanted,) = Interpreter(tmp_path / "traced.tflite").run(graph.inputs).values()
    (found,) = Interpreter(tmp_path / "rewritten.tflite").run(graph.inputs).values()
    assert psnr(wanted, found) >= LEAST
    verdict = judge(tmp_path / "rewritten.tflite", inputs=graph.inputs)
    assert verdict.ok, verdict.objections


def test_the_whole_unet_has_no_other_operations() -> None:
    """The verdict on the narrow U-Net is that on the full one: each of its operations was there in small."""
    structure = structure_of("unet")
    full, small = with_weights(structure, random_weights(structure)), traced("unet").model()
    for model in (full, small):
        apply(model.main, graph_rewrites.load())
    assert set(map(form, full.main.ops)) == set(map(form, small.main.ops))
    assert max(len(t.shape) for t in full.main.tensors()) == 4
    assert len(full.main.ops) <= MOST


def form(op: Op) -> tuple[object, ...]:
    """Return what delegates look at but for sizes: kind, version, attributes, and each tensor's rank."""
    operands = ((t.dtype, len(t.shape), t.data is None) for t in op.operands)
    attrs = {name: value for name, value in op.attrs.items() if name not in ("new_shape", "num_splits")}
    return op.kind, op.version, str(attrs), *operands
