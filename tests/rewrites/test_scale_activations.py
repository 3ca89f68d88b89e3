"""Activations that float16 does not hold."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

import graph_rewrites
from graph_rewrites.lower_normalization import lower_group_norm
from graph_rewrites.scale_activations import AIM, LARGE, SCALED, scale_activations
from graph_rewrites.spell_once import spell_squared_difference
from msd.graph.ir import Build, Graph, Tensor
from msd.graph.ir.weights import Array, Weights
from msd.graph.rewrite import Target, apply
from msd.graph.rewrite.spelling import FORMS, spelling_of
from tests.half import in_half, overflowed
from tests.harness import Spell, assert_close, build, evaluate, interface, normal
from tests.rewrites.test_lower_normalization import constants, group_norm

SHAPE = (2, 6, 10, 8)
CONV = {"padding": "SAME", "stride_h": 1, "stride_w": 1}


def learnt(new: Build, x: Tensor, outputs: int, times: float, name: str, **attrs: str) -> Tensor:
    """Return a layer whose weights come from a checkpoint."""
    kernel, bias = normal(outputs, 3, 3, x.shape[3], seed=outputs) * times, normal(outputs, seed=2) * times
    both = [
        new.const(Weights(a.shape, a.dtype, lambda a=a: a, name), name)  # type: ignore[misc]
        for a in (kernel.astype(np.float32), bias.astype(np.float32))
    ]
    result: Tensor = new.CONV_2D(x, *both, **{**CONV, **attrs})
    result.name = name
    return result


def decoder(new: Build, x: Tensor, loud: float = 3e4, act: str = "NONE") -> Tensor:
    """A stream of two sums: one small, then one with a loud layer; each is normalised; then an image."""
    stream = learnt(new, x, 12, 0.1, "in")
    for i, times in enumerate((0.2, loud)):
        gamma, beta = constants(12)
        unit = group_norm(4, gamma, beta, 1e-6)(new, stream)
        hidden = new.MUL(unit, new.LOGISTIC(unit))
        stream = new.ADD(stream, learnt(new, hidden, 12, times, f"layer{i}", fused_activation_function=act))
        stream.name = f"sum{i}"
    stream = learnt(new, stream, 8, 0.05, "shortcut")
    unit = group_norm(2, *constants(8), 1e-6)(new, stream)
    return learnt(new, unit, 3, 0.05, "image")


def lowered(spell: Spell, **forms: str) -> Graph:
    graph = build(spell, x=SHAPE)
    target = Target(spelling=spelling_of("", forms))
    apply(graph, [r for r in graph_rewrites.load() if r.name != "scale_activations"], target)
    return graph


def reached(graph: Graph, feeds: Mapping[str, Array]) -> dict[str, float]:
    """Return the largest magnitude of each result that the trace named."""
    outputs, signatures = graph.outputs, graph.signatures
    named = [o.outputs[0] for o in graph.ops if "~" not in o.outputs[0].name]
    probe = Graph(graph.inputs, named, graph.ops)
    probe.signatures = [type(signatures[0])("probe", signatures[0].inputs, {t.name: t for t in named})]
    found = evaluate(probe, feeds)
    assert graph.outputs is outputs
    return {t.name: float(np.abs(values).max()) for t, values in zip(named, found, strict=True)}


@pytest.mark.parametrize("mean", FORMS["group_mean"])
@pytest.mark.parametrize("variance", FORMS["group_variance"])
def test_streams_are_scaled_exactly(mean: str, variance: str) -> None:
    graph = lowered(decoder, group_mean=mean, group_variance=variance)
    feeds, ports, before = {"x": normal(*SHAPE)}, interface(graph), len(graph.ops)
    wanted, measured = evaluate(graph, feeds), reached(graph, {"x": normal(*SHAPE)})
    assert measured["sum1"] > 65504
    assert measured["sum0"] < LARGE < measured["shortcut"]
    ledger = apply(graph, [scale_activations], Target(largest=measured))
    assert (ledger.entries["scale_activations"].fired, len(graph.ops)) == (2, before)
    assert_close(evaluate(graph, feeds), wanted, 1e-6)
    assert interface(graph) == ports
    now = reached(graph, feeds)
    assert AIM / 2 <= now[f"sum1{SCALED}"] <= AIM
    assert AIM / 2 <= now[f"shortcut{SCALED}"] <= AIM
    assert not apply(graph, [scale_activations], Target(largest=measured)).fired


def test_float16_holds_the_scaled_image() -> None:
    """Without, sums are infinite and the image is no number; with, it is as exact as float16 is."""
    graph, feeds = lowered(decoder), {"x": normal(*SHAPE)}
    (wanted,), measured = evaluate(graph, feeds), reached(graph, {"x": normal(*SHAPE)})
    before = in_half(graph, feeds)
    assert "ADD" in overflowed(before)
    assert not np.isfinite(before[graph.outputs[0]]).all()
    apply(graph, [scale_activations], Target(largest=measured))
    after = in_half(graph, feeds)
    assert overflowed(after) == []
    assert np.abs(after[graph.outputs[0]] - wanted).max() < 0.01 * np.abs(wanted).max()


def test_an_epsilon_stays_above_zero() -> None:
    """A group of zeros beside loud ones is zero in float16 too, and not NaN."""

    def one_is_silent(new: Build, x: Tensor) -> Tensor:
        scale = np.ones((8, 1, 1, 8), np.float32) * np.float32(3e4)
        scale[:2] = 0
        stream = new.CONV_2D(x, new.const(scale), new.const(np.zeros(8, np.float32)), **CONV)
        stream.name = "stream"
        return group_norm(4, *constants(8), 1e-6)(new, stream)

    graph = build(one_is_silent, x=SHAPE)
    apply(graph, [spell_squared_difference, lower_group_norm])
    apply(graph, [scale_activations], Target(largest={"stream": 5e5}))
    assert overflowed(in_half(graph, {"x": normal(*SHAPE)})) == []


def unmeasured(new: Build, x: Tensor) -> Tensor:
    return decoder(new, x)


@pytest.mark.parametrize("largest", [{}, {"sum1": LARGE}, {"sum1": float("inf")}, {"other": 1e6}])
def test_what_is_small_or_unmeasured_stays(largest: dict[str, float]) -> None:
    graph = lowered(decoder)
    text = str(graph)
    assert not apply(graph, [scale_activations], Target(largest=largest)).fired
    assert str(graph) == text


@pytest.mark.parametrize("reader", ["LOGISTIC", "output", "RELU"])
def test_not_where_something_else_reads_it(reader: str) -> None:
    """Of which a power of two does not come out again."""

    def spell(new: Build, x: Tensor) -> Tensor | tuple[Tensor, ...]:
        attrs = {"fused_activation_function": "RELU"} if reader == "RELU" else {}
        stream = learnt(new, x, 12, 3e4, "stream", **attrs)
        unit = group_norm(4, *constants(12), 1e-6)(new, stream)
        return unit if reader == "RELU" else (unit, stream if reader == "output" else new.LOGISTIC(stream))

    graph = lowered(spell)
    text = str(graph)
    assert not apply(graph, [scale_activations], Target(largest={"stream": 1e6})).fired
    assert str(graph) == text
