"""Weights that pass through integers on their way into a layer: those of the encoder, and their gradients."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from msd.distill import fake_quantization
from msd.distill.fake_quantization import FakeQuantization, integers, quantize_layers, release_layers
from msd.encoding.quantize import encoder
from msd.encoding.recipe import Line
from msd.ir.weights import Weights


@pytest.mark.parametrize(
    ("store", "algorithm", "granularity"),
    [("int8", "auto", "channel"), ("int8", "min-max", "tensor"), ("int4", "min-max", "channel")],
)
def test_the_integers_are_the_encoders_to_the_bit(store: str, algorithm: str, granularity: str) -> None:
    weight = torch.randn(37, 5, 3, 3, generator=torch.Generator().manual_seed(2))
    weight *= torch.logspace(-12, 3, 37).view(-1, 1, 1, 1)
    weight[4] = 0
    weight[7, 0] = torch.tensor([0.5, 1.5, 2.5]).repeat(3, 1) * weight[7].abs().max() / 127
    line = Line(store, granularity=granularity, algorithm=algorithm)
    stored, scale = integers(weight, line)
    wanted, wanted_scale = encoder(store, granularity, algorithm)(Weights.of(weight.numpy()))
    assert np.array_equal(scale.numpy(), wanted_scale)
    assert np.array_equal(stored.numpy(), wanted)
    rounded = FakeQuantization(line)(weight.contiguous(memory_format=torch.channels_last))
    shape = (-1, 1, 1, 1) if granularity == "channel" else (1, 1, 1, 1)
    assert np.array_equal(rounded.numpy(), wanted.astype(np.float32) * wanted_scale.reshape(shape))


@pytest.mark.parametrize(("store", "algorithm"), [("int4", "auto"), ("int8", "mse"), ("int8", "rms")])
def test_scales_that_sum_squares_are_the_encoders_to_rounding(store: str, algorithm: str) -> None:
    weight = torch.randn(64, 50, generator=torch.Generator().manual_seed(3)) ** 3
    _, scale = integers(weight, Line(store, algorithm=algorithm))
    _, wanted = encoder(store, "channel", algorithm)(Weights.of(weight.numpy()))
    assert np.isclose(scale.numpy(), wanted, rtol=1e-6).mean() > 0.98


@pytest.mark.parametrize("at_once", [1, 5 * 64 * 50, 26 * 64 * 50])
def test_scales_do_not_depend_on_how_many_clips_are_tried_at_once(
    at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    weight = torch.randn(64, 50, generator=torch.Generator().manual_seed(3)) ** 3
    stored, scale = integers(weight, Line("int4"))
    assert not torch.equal(scale, weight.abs().amax(1) / 7)
    monkeypatch.setattr(fake_quantization, "AT_ONCE", at_once)
    again, same = integers(weight, Line("int4"))
    assert torch.equal(stored, again)
    assert torch.equal(scale, same)


def test_the_gradient_passes_the_rounding() -> None:
    layer = torch.nn.Linear(6, 40, bias=False)
    whole, x = layer.weight.detach().clone(), torch.randn(3, 6)
    quantize_layers(torch.nn.ModuleDict({"a": layer}), {"a.weight": Line("int8")})
    assert not torch.equal(layer.weight, whole)
    (layer(x) * 3).sum().backward()
    learnt = layer.parametrizations.weight.original
    assert torch.allclose(learnt.grad, 3 * x.sum(0).expand_as(whole), rtol=1e-5)
    release_layers(layer)
    assert torch.equal(layer.weight, whole)
