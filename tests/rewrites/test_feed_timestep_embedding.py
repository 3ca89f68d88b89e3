"""The sinusoids of a timestep become an input."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graph_rewrites.feed_timestep_embedding import NAME, feed_timestep_embedding
from msd.graph.ir import Build, Graph, Tensor
from msd.graph.ir.weights import Array
from msd.graph.rewrite import apply
from tests.harness import Spell, assert_close, build, check_untouched, dense, evaluate, interface

HALF = 4
FREQUENCIES = (10000.0 ** (-np.arange(HALF) / HALF)).astype(np.float32)
TIMESTEPS = np.float32([987.0, 1.0])


def sinusoids(
    new: Build,
    timestep: Tensor,
    cosine_first: bool = True,
    column: bool = True,
    flip: bool = False,
    **attrs: Any,
) -> Tensor:
    t = new.RESHAPE(timestep, [timestep.size, 1]) if column else timestep
    operands = (t, new.const(FREQUENCIES.reshape(1, HALF)))
    angles = new.MUL(*(operands[::-1] if flip else operands))
    waves = [new.COS(angles), new.SIN(angles)]
    return new.CONCATENATION(*(waves if cosine_first else waves[::-1]), **{"axis": -1, **attrs})


def embedded(cosine_first: bool) -> Array:
    angles = TIMESTEPS[:, None] * FREQUENCIES
    waves = [np.cos(angles), np.sin(angles)]
    return np.concatenate(waves if cosine_first else waves[::-1], axis=1)


@pytest.mark.parametrize("cosine_first", [False, True])
@pytest.mark.parametrize("column", [False, True])
@pytest.mark.parametrize("flip", [False, True])
def test_the_embedding_is_fed(cosine_first: bool, column: bool, flip: bool) -> None:
    def before(new: Build, x: Tensor, timestep: Tensor) -> Tensor:
        return new.ADD(dense(new, sinusoids(new, timestep, cosine_first, column, flip), 5), x)

    graph = build(before, x=(2, 5), timestep=(2,) if column else (2, 1))
    x = np.ones((2, 5), np.float32)
    want = evaluate(graph, {"x": x, "timestep": TIMESTEPS.reshape(graph.inputs[1].shape)})
    ledger = apply(graph, [feed_timestep_embedding])
    assert ledger.fired == 1
    assert_close(evaluate(graph, {"x": x, NAME: embedded(cosine_first)}), want, 1e-4)
    wanted = build(
        lambda new, x, timestep_embedding: new.ADD(dense(new, timestep_embedding, 5), x),
        x=(2, 5),
        **{NAME: (2, 8)},
    )
    assert [o.kind for o in graph.ops] == [o.kind for o in wanted.ops]
    assert interface(graph)[0][:2] == interface(wanted)[0][:2]
    assert set(graph.signatures[0].inputs) == {"x", NAME}
    assert not apply(graph, [feed_timestep_embedding]).fired


def also(spell: Any) -> Spell:
    """The sinusoids, and beside them what `spell` makes of the timestep and the sinusoids."""

    def before(new: Build, timestep: Tensor) -> tuple[Tensor, ...]:
        waves = sinusoids(new, timestep)
        return dense(new, waves, 5), spell(new, timestep, waves)

    return before


@pytest.mark.parametrize(
    "other",
    [
        lambda new, timestep, waves: new.MUL(timestep, 2.0),
        lambda new, timestep, waves: new.TANH(new.ops[0].outputs[0]),
        lambda new, timestep, waves: new.TANH(new.ops[1].outputs[0]),
        lambda new, timestep, waves: new.ops[2].outputs[0],
        lambda new, timestep, waves: waves,
    ],
    ids=["timestep", "column", "angles", "cosines", "result"],
)
def test_not_when_something_is_also_used_elsewhere(other: Any) -> None:
    check_untouched([feed_timestep_embedding], also(other), timestep=(2,))


def test_not_when_the_timestep_is_an_output() -> None:
    graph = build(lambda new, timestep: dense(new, sinusoids(new, timestep), 5), timestep=(2,))
    graph.outputs.append(graph.inputs[0])
    assert not apply(graph, [feed_timestep_embedding]).fired


@pytest.mark.parametrize("attrs", [{"axis": 0}, {"fused_activation_function": "RELU"}])
def test_not_joined_otherwise(attrs: dict[str, Any]) -> None:
    check_untouched(
        [feed_timestep_embedding],
        lambda new, timestep: new.TANH(sinusoids(new, timestep, **attrs)),
        timestep=(2,),
    )


def test_not_of_what_was_computed() -> None:
    def before(new: Build, timestep: Tensor) -> Tensor:
        return dense(new, sinusoids(new, new.ABS(timestep)), 5)

    check_untouched([feed_timestep_embedding], before, timestep=(2,))


@pytest.mark.parametrize("kinds", [("COS", "COS"), ("SIN", "TANH")])
def test_not_other_waves(kinds: tuple[str, str]) -> None:
    def before(new: Build, timestep: Tensor) -> Tensor:
        angles = new.MUL(new.RESHAPE(timestep, [2, 1]), new.const(FREQUENCIES))
        return new.TANH(new.CONCATENATION(*(getattr(new, kind)(angles) for kind in kinds), axis=1))

    check_untouched([feed_timestep_embedding], before, timestep=(2,))


def test_of_two_timesteps_the_first_is_fed() -> None:
    """There is one name for it, and two inputs may not share one."""

    def before(new: Build, timestep: Tensor, size: Tensor) -> Tensor:
        return new.ADD(dense(new, sinusoids(new, timestep), 5), dense(new, sinusoids(new, size), 5))

    graph: Graph = build(before, timestep=(2,), size=(2,))
    assert apply(graph, [feed_timestep_embedding]).fired == 1
    assert [t.name for t in graph.inputs] == [NAME, "size"]
    graph.verify()
