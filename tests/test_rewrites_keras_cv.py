"""keras-cv 0.9's own Stable Diffusion 2.1, rewritten by the same rules, is taken whole by the delegate."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

import graph_rewrites
from msd.ir import Op
from msd.judging import judge
from msd.parity import psnr
from msd.rewrite import apply
from msd.runners.interpreter import Interpreter
from tests import keras_cv_networks as networks
from tests.traced import Traced, trace_random

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
    full, small = trace_random(networks.unet(), networks.VOCABULARY).model(), traced("unet").model()
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
