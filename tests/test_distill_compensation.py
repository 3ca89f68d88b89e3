"""Where the training of int4 weights begins: nearer to what the layers said than the nearest integers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from msd.compress.encoding.recipe import Line
from msd.compress.rounding import moments
from msd.compress.rounding.compensate import InputPart, compensated
from msd.graph.ir.weights import Array
from msd.train.distill.compensation import compensate_layers
from msd.train.distill.fake_quantization import integers, quantize_layers
from tests.on_cpu import normal

RUNS = 8
INT4 = Line("int4")


def network(bias: bool = True) -> Any:
    torch.manual_seed(3)
    return torch.nn.Sequential(
        torch.nn.Conv2d(5, 12, (3, 2), stride=(1, 2), padding=(1, 0), bias=bias),
        torch.nn.SiLU(),
        torch.nn.Flatten(),
        torch.nn.Linear(12 * 7 * 3, 9, bias=bias),
    )


def images(number: int) -> Any:
    """Return images whose channels depend on each other, and have a mean."""
    mixed = normal(120, 7 * 6, 5, seed=number) @ normal(5, 5, seed=100) + normal(5, seed=101)
    return torch.from_numpy(np.ascontiguousarray(mixed.swapaxes(1, 2)).reshape(120, 5, 7, 6))


def run(layers: Any, number: int) -> Any:
    return layers(images(number))


def error(found: Any, wanted: Any, layer: int) -> float:
    """Return the squared error of a layer on other images than those it was rounded on."""
    x = images(RUNS + 1) if layer == 0 else wanted[:3](images(RUNS + 1))
    with torch.no_grad():
        return float((found[layer](x) - wanted[layer](x)).square().mean())


@pytest.mark.parametrize("products", [1 << 30, 1])
@pytest.mark.parametrize("bias", [True, False])
def test_layers_begin_nearer_than_the_nearest_integers(
    bias: bool, products: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether the products of all layers fit into memory together, or of one at a time."""
    monkeypatch.setattr(moments, "PRODUCTS", products)
    whole, nearest, begun = network(bias), network(bias), network(bias)
    lines = {"0.weight": INT4, "3.weight": INT4}
    quantize_layers(nearest, lines)
    seen: list[tuple[int, int]] = []
    scales = compensate_layers(begun, lines, run, RUNS, lambda *numbers: seen.append(numbers))
    assert seen == [(1, 2), (2, 2)]
    quantize_layers(begun, lines, scales)
    assert scales.keys() == lines.keys()
    for layer in (0, 3):
        assert error(begun, whole, layer) < 0.7 * error(nearest, whole, layer)


def test_weights_keep_what_they_were_within_the_cells_of_the_compensated_integers() -> None:
    whole, begun = network(), network()
    scale = compensate_layers(begun, {"3.weight": INT4}, run, RUNS)["3.weight"]
    x = np.concatenate([whole[:3](images(i)).detach().numpy() for i in range(RUNS)])
    weights: Array = whole[3].weight.detach().numpy()
    part = InputPart(np.arange(x.shape[1]), np.cov(x.T.astype(np.float64), bias=True), float(np.mean(x**2)))
    wanted = compensated(weights, [part], x.mean(axis=0), "int4")
    found, _ = integers(begun[3].weight, INT4, scale)
    assert np.allclose(scale.numpy(), wanted.scale)
    assert (found.numpy() == wanted.stored).mean() > 0.995
    assert np.allclose(begun[3].bias.detach(), whole[3].bias.detach() + wanted.mean, atol=1e-4)
    kept = begun[3].weight == whole[3].weight
    assert 0.3 < float(kept.float().mean()) < 0.98
    assert torch.equal(begun[0].weight, whole[0].weight)


def test_scales_that_follow_the_weights_have_nothing_to_begin_with() -> None:
    whole, begun = network(), network()
    lines = {"0.weight": Line("int8"), "3.weight": Line("int4", algorithm="min-max")}
    assert compensate_layers(begun, lines, run, RUNS) == {}
    assert all(map(torch.equal, whole.parameters(), begun.parameters()))
