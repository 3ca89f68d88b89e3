"""Integers that swing in training, which are held still, and those that do not, which are free."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from msd.compress.encoding.recipe import Line
from msd.train.distill.fake_quantization import quantize_layers, release_layers, settle_layers
from msd.train.distill.swings import FIRST, LAST, SHARE, Swings

STEP = 0.25


def after(updates: int, of: Callable[[int], list[int]], planned: int = 400) -> Swings:
    """Return the swings after updates, from the integers after each of them."""
    swings = Swings(torch.tensor(of(0)), planned)
    for update in range(1, updates + 1):
        swings.add(torch.tensor(of(update)))
    return swings


def test_what_swings_is_held_at_its_mean_and_what_moves_on_is_free() -> None:
    swings = after(60, lambda i: [3 + (i % 4 == 2), -5 + i % 2, min(7, -8 + i), 2])
    assert swings.is_held.tolist() == [True, True, False, False]
    assert swings.hold(torch.tensor([-8, 7, 6, 5])).tolist()[0] == 3
    assert swings.hold(torch.tensor([-8.0, 7.0, 6.0, 5.0])).tolist()[2:] == [6.0, 5.0]


@pytest.mark.parametrize("every", [2, 3, 8, 40])
def test_the_fewer_updates_are_left_the_rarer_swings_are_held(every: int) -> None:
    """A weight that changes its integer every so many updates swings as often, from the third change on."""
    swings = after(400, lambda i: [i // every % 2])
    often, held_at = 0.0, None
    for update in range(1, 401):
        swung = update % every == 0 and update > every
        often = (1 - SHARE) * often + SHARE * swung
        if often > FIRST + (LAST - FIRST) * update / 400:
            held_at = update
            break
    assert bool(swings.is_held) == (held_at is not None)
    assert after(held_at or 1, lambda i: [i // every % 2]).is_held.item() == (held_at is not None)
    if held_at:
        assert not after(held_at - 2, lambda i: [i // every % 2]).is_held.item()


def test_a_held_weight_stays_whatever_comes() -> None:
    swings = after(60, lambda i: [i % 2])
    held = swings.hold(torch.tensor([7]))
    for _ in range(100):
        swings.add(torch.tensor([7]))
    assert torch.equal(swings.hold(torch.tensor([-8])), held)


def test_its_state_is_in_its_buffers() -> None:
    half = after(30, lambda i: [i % 2, i // 5 % 2, 4])
    again = Swings(torch.zeros(3), 400)
    again.load_state_dict(half.state_dict())
    for update in range(31, 90):
        for swings in (half, again):
            swings.add(torch.tensor([update % 2, update // 5 % 2, 4]))
    assert all(torch.equal(kept, again.state_dict()[name]) for name, kept in half.state_dict().items())


def layer_between(updates: int | None) -> torch.nn.Linear:
    """Return a layer of int4 weights whose first lies where two integers meet."""
    layer = torch.nn.Linear(3, 2, bias=False)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([[0.49, 1.0, -3.0], [2.0, 0.0, -1.0]]) * STEP)
    scales = {"a.weight": torch.full((2,), STEP)}
    quantize_layers(torch.nn.ModuleDict({"a": layer}), {"a.weight": Line("int4")}, scales, updates)
    return layer


def swing(layer: torch.nn.Linear, updates: int) -> list[float]:
    """Let the first weight lie on this and that side in turn; return its rounded value after each update."""
    network, found = torch.nn.ModuleDict({"a": layer}), []
    for update in range(updates):
        with torch.no_grad():
            layer.parametrizations.weight.original[0, 0] = (0.51 if update % 2 else 0.49) * STEP
        settle_layers(network)
        found.append(layer.weight[0, 0].item() / STEP)
    return found


def test_a_layer_in_training_holds_what_swings_and_gives_it_no_gradient() -> None:
    layer = layer_between(updates=100)
    assert len({*swing(layer, 40)[-10:]}) == 1
    layer(torch.ones(1, 3)).sum().backward()
    gradient = layer.parametrizations.weight.original.grad
    assert gradient.tolist() == [[0, 1, 1], [1, 1, 1]]
    said = layer.weight.detach().clone()
    release_layers(layer)
    assert torch.equal(layer.weight, said)


def test_without_a_number_of_updates_nothing_is_held() -> None:
    assert {*swing(layer_between(updates=None), 40)[-10:]} == {0.0, 1.0}


def test_weights_whose_scale_follows_them_are_not_held() -> None:
    layer = torch.nn.Linear(3, 2)
    quantize_layers(torch.nn.ModuleDict({"a": layer}), {"a.weight": Line("int8")}, updates=10)
    assert layer.parametrizations.weight[0].swings is None
    settle_layers(layer)
