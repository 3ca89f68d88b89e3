"""What is left computes what it should: a unit taken out is a unit that the next layer no longer hears."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional

from msd.compress.pruning.channels import Seed, follow
from msd.compress.pruning.relations import tensor_at
from msd.compress.pruning.removal import remove
from msd.compress.pruning.units import Unit, find_units
from msd.graph.ir import Build, Graph, Tensor
from msd.graph.ir.weights import Array
from tests.harness import Spell, assert_close, build, evaluate, feeds_for, normal
from tests.pruned_graphs import attention, dense, geglu, resnet, sliced_geglu, two_convolutions

TOLERANCE = 1e-5


def muted(graph: Graph, seed: Seed, kept: Array) -> None:
    """Let the layer that sums over the unit not hear what is not kept."""
    closure = follow(graph, seed)
    (consumer,) = closure.consumers
    (constant,) = [
        t for t in (tensor_at(*use) for use in closure.constants) if t in _behind(consumer.inputs[1])
    ]
    layout = next(lay for use, lay in closure.constants.items() if tensor_at(*use) is constant)

    def change(array: Array) -> Array:
        view = array.reshape(layout.shape).copy()
        for group in range(layout.groups):
            gone = [i for i in range(layout.count) if i not in kept[group]]
            view[:, group, gone] = 0
        return view.reshape(array.shape)

    constant.data = constant.weights.map("muted", change)


def _behind(tensor: Tensor | None) -> set[Tensor]:
    assert tensor is not None
    made = tensor.producer
    return {tensor} if made is None else set().union(*map(_behind, made.operands))


def only_unit(graph: Graph) -> Unit:
    units = find_units(graph).units
    assert len(units) == 1, units
    return units[0]


def check_muted(spell: Spell, seed_of: Callable[[Unit], Seed], kept: Any, **inputs: tuple[int, ...]) -> Graph:
    """The pruned graph computes what the whole one does when its consumer is deaf to what went."""
    whole, pruned = build(spell, **inputs), build(spell, **inputs)
    feeds = feeds_for(whole, scale=1.0)
    untouched = evaluate(whole, feeds)
    muted(whole, seed_of(only_unit(whole)), np.asarray(kept))
    remove(pruned, seed_of(only_unit(pruned)), np.asarray(kept))
    want = evaluate(whole, feeds)
    assert np.abs(want[0] - untouched[0]).max() > 0.01, "nothing went"
    assert_close(evaluate(pruned, feeds), want, TOLERANCE, str(pruned))
    return pruned


def drawn(count: int) -> st.SearchStrategy[list[int]]:
    """Some of `count` indices, not all."""
    some = st.sets(st.integers(0, count - 1), min_size=1, max_size=count - 1)
    return some.map(sorted)


@settings(max_examples=8)
@given(drawn(12), st.sampled_from([geglu, sliced_geglu]))
def test_hidden_units_of_a_gated_net(kept: list[int], net: Any) -> None:
    graph = check_muted(lambda new, x: net(new, x, 12), lambda u: u.seed, [kept], x=(1, 5, 6))
    assert [op.outputs[0].shape[-1] for op in graph.ops if op.kind == "BATCH_MATMUL"] == [2 * len(kept), 6]


@settings(max_examples=8)
@given(drawn(5), st.booleans())
def test_heads_of_attention(kept: list[int], turned: bool) -> None:
    graph = check_muted(
        lambda new, x, c: attention(new, x, c, 5, 3, turned),
        lambda u: u.seed,
        [kept],
        x=(1, 7, 6),
        c=(1, 4, 9),
    )
    products = [op.outputs[0].shape for op in graph.ops if op.kind == "SOFTMAX"]
    assert products == [(1, len(kept), 7, 4)]


@settings(max_examples=8)
@given(drawn(6))
def test_whole_groups_of_a_normalisation(kept: list[int]) -> None:
    def by_groups(unit: Unit) -> Seed:
        assert unit.by_groups is not None
        return unit.by_groups

    check_muted(lambda new, x, t: resnet(new, x, t, 6), by_groups, [kept], x=(1, 4, 3, 24), t=(1, 7))


@settings(max_examples=8)
@given(drawn(8))
def test_channels_between_two_convolutions(kept: list[int]) -> None:
    """Through an activation, resizing and padding; the bias that both convolutions have is each its own."""
    check_muted(lambda new, x: two_convolutions(new, x, 8), lambda u: u.seed, [kept], x=(1, 4, 3, 5))


def test_channels_of_each_group_normalise_what_remains() -> None:
    """Against the same block built with the fewer channels: torch, to which the groups are a number."""
    graph = build(lambda new, x, t: resnet(new, x, t, 6), x=(1, 4, 3, 24), t=(1, 7))
    kept = np.array([[0, 1], [1, 3], [0, 3], [2, 3], [0, 2], [1, 2]])
    remove(graph, only_unit(graph).seed, kept)
    channels = (kept + 4 * np.arange(6)[:, None]).reshape(-1)
    x, t = normal(1, 4, 3, 24, seed=3), normal(1, 7, seed=4)

    def conv(y: Any, weights: Array, bias: Array) -> Any:
        return functional.conv2d(
            y, torch.tensor(weights.transpose(3, 2, 0, 1)), torch.tensor(bias), padding=1
        )

    def numbers(*shape: int, seed: int) -> Array:
        return normal(*shape, seed=seed)

    y = torch.tensor(x.transpose(0, 3, 1, 2))
    first = numbers(3, 3, 24, 24, seed=10) * np.float32(0.2)
    h = conv(functional.silu(y), first[..., channels], numbers(24, seed=11)[channels])
    shift = t @ (numbers(7, 24, seed=20) * np.float32(7**-0.5)) + numbers(24, seed=21)
    h = h + torch.tensor(shift[0, channels])[None, :, None, None]
    gamma, beta = (numbers(24, seed=30) + 1)[channels], numbers(24, seed=31)[channels]
    h = functional.silu(functional.group_norm(h, 6, torch.tensor(gamma), torch.tensor(beta), 1e-5))
    second = numbers(3, 3, 24, 24, seed=40) * np.float32(0.2)
    want = y + conv(h, second[:, :, channels], numbers(24, seed=41))
    got = evaluate(graph, {"x": x, "t": t})
    assert_close(got, [want.numpy().transpose(0, 2, 3, 1)], TOLERANCE)


def test_what_is_not_pruned_is_the_same_object() -> None:
    """Nothing but the block's own constants is described anew."""
    graph = build(lambda new, x: geglu(new, geglu(new, x, 8), 12), x=(1, 5, 6))
    before = {t: t.data for t in graph.tensors() if t.data is not None}
    first, second = find_units(graph).units
    remove(graph, second.seed, np.array([[0, 3, 4, 7]]))
    mine = {tensor_at(*use) for use in first.closure.constants}
    assert all(t.data is before[t] for t in mine)
    assert {t for t in before if t.data is not before[t]} == {tensor_at(*u) for u in second.closure.constants}


def test_sources_say_where_pruned_weights_come_from() -> None:
    graph = build(lambda new, x: geglu(new, x, 8), x=(1, 5, 6))
    unit = only_unit(graph)
    remove(graph, unit.seed, np.array([[0, 3, 4, 7]]))
    weights = [tensor_at(*use).weights for use in unit.closure.constants]
    assert {w.sources for w in weights} == {
        ("ff.net.0.proj.weight",),
        ("ff.net.0.proj.bias.weight",),
        ("ff.net.2.weight",),
    }
    assert all("4 of 8 units" in w.history for w in weights)


@pytest.mark.parametrize("kept", [[[0, 0]], [[1, 0]], [[0, 8]], [[-1, 2]], [[]], [[0], [1]]])
def test_indices_that_are_not_the_units(kept: list[list[int]]) -> None:
    graph = build(lambda new, x: geglu(new, x, 8), x=(1, 5, 6))
    with pytest.raises(ValueError, match="not indices of 1 groups of 8"):
        remove(graph, only_unit(graph).seed, np.array(kept))


def test_units_are_removed_one_after_the_other() -> None:
    """The second layer of three loses rows for one unit and columns for the next."""

    def spell(new: Build, x: Tensor) -> Tensor:
        hidden = new.RELU(dense(new, x, 8, "one", 1))
        hidden = new.RELU(dense(new, hidden, 12, "two", 3))
        return dense(new, hidden, 5, "three", 5)

    whole, pruned = build(spell, x=(1, 5, 6)), build(spell, x=(1, 5, 6))
    kept = [np.array([[0, 2, 3, 7]]), np.array([[1, 2, 3, 4, 8, 9, 10, 11]])]
    for graph, change in ((whole, muted), (pruned, remove)):
        for unit, indices in zip(find_units(graph).units, kept, strict=True):
            change(graph, unit.seed, indices)
    feeds = feeds_for(whole, scale=1.0)
    assert_close(evaluate(pruned, feeds), evaluate(whole, feeds), TOLERANCE)
