"""Which units are found in the networks, and that taking them out is exact in all of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import cache

import numpy as np
import pytest

from msd.compress.pruning.channels import Seed
from msd.compress.pruning.removal import remove
from msd.compress.pruning.units import find_units
from msd.conversion.job import Job, open_job
from msd.conversion.settings import Settings
from msd.conversion.trace import traced_model, with_weights
from msd.graph.ir import Build, Graph, Tensor
from msd.graph.ir.weights import Array
from msd.models.demo import CHECKPOINT
from msd.models.structure_cache import structure_of
from tests.harness import assert_close, build, evaluate, normal, quantised
from tests.keras_cv_networks import transformer_block
from tests.pruned_graphs import attention, geglu
from tests.test_pruning_removal import muted
from tests.traced import random_weights


@cache
def job() -> Job:
    return open_job(CHECKPOINT, Settings(rules=()))


def demo(component: str) -> Graph:
    """A component of the demo checkpoint as it is traced, with its weights."""
    graph = traced_model(job(), component).main
    graph.remove_dead()
    return graph


def keras_cv() -> Graph:
    structure = structure_of(transformer_block())
    graph = with_weights(structure, random_weights(structure)).main
    graph.remove_dead()
    return graph


KINDS = {
    "text_encoder": {"heads": 3, "hidden": 3},
    "unet": {"channels": 23, "heads": 32, "hidden": 17},
    "vae_decoder": {"channels": 14, "hidden": 1},
}


@pytest.mark.parametrize("component", KINDS)
def test_the_demos_units(component: str) -> None:
    """Inner widths, heads and gated widths, one time embedding, and the stream that one upsampler reads."""
    found = find_units(demo(component))
    assert Counter(unit.kind for unit in found.units) == KINDS[component]
    names = [unit.name for unit in found.units]
    assert len(set(names)) == len(names)


def test_a_residual_blocks_unit() -> None:
    graph = demo("unet")
    unit = next(u for u in find_units(graph).units if u.name == "up_blocks.0.resnets.0.conv1")
    assert (unit.kind, unit.groups, unit.count, unit.width) == ("channels", 32, 3, 96)
    each = 192 * 9 + 1 + 257 + 2 + 96 * 9
    assert unit.parameters == 32 * each
    assert unit.kept_counts() == [1, 2, 3]
    assert unit.by_groups is not None
    assert unit.by_groups.count == 32


def test_residual_streams_are_no_units() -> None:
    """The widths that blocks hand on reach concatenations, or many layers."""
    found = find_units(demo("unet"))
    reasons = found.others
    assert "CONCATENATION" in reasons["down_blocks.0.resnets.0.conv2"]
    assert "CONCATENATION" in reasons["conv_in"]
    assert "noise, which the graph takes or returns" in reasons["conv_out"]
    assert "22 layers sum over it" in reasons["time_embedding.linear_2"]
    assert "6 layers sum over it" in reasons["down_blocks.0.attentions.0.proj_in"]


def seeds(graph: Graph) -> Iterator[tuple[Seed, Array]]:
    """Every unit that can go without a change elsewhere, whole groups of normalised ones, half of each."""
    generator = np.random.default_rng(7)
    for unit in find_units(graph).units:
        seed = unit.by_groups or unit.seed
        yield seed, np.sort(generator.permutation(seed.count)[: max(1, seed.count // 2)])[None]


def feeds(graph: Graph) -> dict[str, Array]:
    ints = np.arange(77, dtype=np.int32)[None] % 50
    return {
        name: ints if t.dtype == "INT32" else normal(*t.shape, seed=3)
        for name, t in graph.signatures[0].inputs.items()
    }


@pytest.mark.parametrize("component", [*KINDS, "keras-cv"])
def test_half_of_everything_out_of_a_network_is_as_good_as_unheard(component: str) -> None:
    """In float32 and over the whole depth; the networks' own numbers are of about size 1."""
    whole, pruned = [keras_cv() if component == "keras-cv" else demo(component) for _ in range(2)]
    given = feeds(whole)
    before = evaluate(whole, given)
    for seed, kept in list(seeds(whole)):
        muted(whole, seed, kept)
    for seed, kept in list(seeds(pruned)):
        remove(pruned, seed, kept)
    want = evaluate(whole, given)
    assert np.abs(want[0] - before[0]).max() > 0.05
    assert_close(evaluate(pruned, given), want, 2e-4)


@pytest.mark.parametrize(
    ("spell", "inputs", "because"),
    [
        (lambda new, x: geglu(new, x, 8), {"x": (1, 5, 6)}, "takes or returns"),
        (lambda new, x: new.SOFTMAX(layer(new, x)), {"x": (1, 5, 6)}, "SOFTMAX is taken over the units"),
        (lambda new, x: new.SUM(layer(new, x), [2]), {"x": (1, 5, 6)}, "SUM adds up or compares"),
        (lambda new, x: new.CONCATENATION(layer(new, x), x, axis=2), {"x": (1, 5, 6)}, "joins the unit"),
        (lambda new, x: layer(new, new.BROADCAST_TO(layer(new, x), [3, 5, 8])), {"x": (1, 5, 6)}, "returns"),
        (lambda new, x: new.GATHER(layer(new, x), [1, 2], axis=2), {"x": (1, 5, 6)}, "it reaches GATHER"),
    ],
)  # fmt: skip
def test_why_a_layers_output_is_no_unit(
    spell: object, inputs: dict[str, tuple[int, ...]], because: str
) -> None:
    found = find_units(build(spell, **inputs))  # type: ignore[arg-type]
    assert any(because in reason for reason in found.others.values()), found.others


def layer(new: Build, x: Tensor) -> Tensor:
    return new.BATCH_MATMUL(x, new.const(normal(x.shape[-1], 8)))


@pytest.mark.parametrize(
    ("heads", "size", "counts"), [(5, 3, [1, 2, 3, 4, 5]), (1, 16, None)], ids=["five heads", "one head"]
)
def test_heads(heads: int, size: int, counts: list[int] | None) -> None:
    graph = build(lambda new, x, c: attention(new, x, c, heads, size), x=(1, 7, 6), c=(1, 4, 9))
    found = [u for u in find_units(graph).units if u.kind == "heads"]
    assert [u.kept_counts() for u in found] == ([counts] if counts else [])
    assert [u.name for u in found] == (["attn"] if counts else [])


def test_widths_stay_slices_of_four() -> None:
    graph = build(lambda new, x: geglu(new, x, 14), x=(1, 5, 6))
    (unit,) = find_units(graph).units
    assert unit.kept_counts() == [4, 8, 12, 14]


def test_quantised_weights_and_open_shapes_are_left_alone() -> None:
    def spell(new: Build, x: Tensor) -> Tensor:
        hidden = new.FULLY_CONNECTED(x, quantised(8, 6), None)
        return new.FULLY_CONNECTED(new.RELU(hidden), new.const(normal(3, 8)), None)

    found = find_units(build(spell, x=(5, 6)))
    assert not found.units
    assert any("is quantised" in reason for reason in found.others.values())
