"""Weights that pass through integers on their way into a layer: those of the encoder, and their gradients."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from msd.compress.encoding.quantize import encoder
from msd.compress.encoding.recipe import Line
from msd.graph.ir.weights import Weights
from msd.train.distill import fake_quantization
from msd.train.distill.fake_quantization import FakeQuantization, integers, quantize_layers, release_layers


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
    assert torch.allclose(learnt.grad, 3 * x.sum(0).expand_as(whole), rtol=1e-5, atol=1e-5)
    release_layers(layer)
    assert torch.equal(layer.weight, whole)


def moved_layer(line: Line, by: float) -> torch.nn.Linear:
    """Return a layer whose largest weight of each row, and others, changed in training, after it."""
    layer = torch.nn.Linear(50, 6)
    quantize_layers(torch.nn.ModuleDict({"a": layer}), {"a.weight": line})
    with torch.no_grad():
        layer.parametrizations.weight.original.mul_(by).add_(0.01)
    return layer


@pytest.mark.parametrize("by", [0.3, 0.8, 1.2])
@pytest.mark.parametrize("granularity", ["channel", "tensor"])
def test_a_scale_that_is_searched_stays_and_the_encoder_finds_it_again(granularity: str, by: float) -> None:
    layer = moved_layer(Line("int4", granularity=granularity), by)
    scale = layer.parametrizations.weight[0].scale.clone()
    said = layer.weight.detach().clone()
    release_layers(layer)
    assert torch.equal(layer.weight, said)
    stored, found = encoder("int4", granularity, "auto")(Weights.of(said.numpy()))
    again = stored * (found[:, None] if granularity == "channel" else found)
    assert np.allclose(again, said.numpy(), rtol=1e-6, atol=0)
    steps = said / (scale[:, None] if granularity == "channel" else scale)
    assert torch.allclose(steps, steps.round(), atol=1e-4)


def test_a_scale_of_the_largest_weight_follows_it() -> None:
    layer = moved_layer(Line("int8"), 1.2)
    assert layer.parametrizations.weight[0].scale is None
    largest = layer.parametrizations.weight.original.abs().amax(1)
    assert torch.allclose(layer.weight.abs().amax(1), largest)


def test_no_gradient_moves_a_clipped_weight_further() -> None:
    weight = torch.tensor([[9.0, 7.4, -8.4, -9.0, 0.3]], requires_grad=True)
    rounded = FakeQuantization(Line("int4"), torch.tensor([1.0]))(weight)
    assert rounded.tolist() == [[7, 7, -8, -8, 0]]
    rounded.sum().backward()
    assert weight.grad is not None
    assert weight.grad.tolist() == [[0, 1, 1, 0, 1]]
