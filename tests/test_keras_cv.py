"""keras-cv 0.9's own Stable Diffusion 2.1, rewritten by the same rules, is taken whole by the delegate."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

import graph_rewrites
from msd.delegate import judge
from msd.interpreter import Interpreter
from msd.parity import psnr
from msd.rewrite import apply
from tests import keras_cv_networks as networks
from tests.traced import Traced, trace_random

LEAST = 100.0
"""Decibels between the graph as traced and as rewritten; clipped GELU included, which is exact here."""

MOST = 2060
"""Operations of the U-Net."""

CASES = {
    "text_encoder": networks.text_encoder(layers=2),
    "unet": networks.unet(narrower=5),
    "decoder": networks.decoder(one_in=3),
}
"""The text encoder and the decoder are of full width, the U-Net is of full depth."""


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


def test_the_full_width_makes_the_same_operations() -> None:
    """So the verdict on the narrow U-Net, which a small machine can compile, is that on the full one."""
    full, narrow = trace_random(networks.unet(), networks.VOCABULARY).model(), traced("unet").model()
    for model in (full, narrow):
        apply(model.main, graph_rewrites.load())
    assert [op.kind for op in full.main.ops] == [op.kind for op in narrow.main.ops]
    assert max(len(t.shape) for t in full.main.tensors()) == 4
    assert len(full.main.ops) <= MOST
