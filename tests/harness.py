"""What a test of a rewrite claims, one function for each kind of claim. Numbers come from LiteRT itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from msd.graph import tflite
from msd.graph.ir import NUMPY, Build, Graph, Model, Op, Quant, Signature, Tensor
from msd.graph.ir.weights import Array
from msd.graph.rewrite import Ledger, Rewrite, Target, apply
from msd.run.runners.interpreter import Interpreter

Feeds = Mapping[str, Array]
Spell = Callable[..., Tensor | tuple[Tensor, ...]]
"""Spells a graph: takes a Build and the input tensors by name, returns the output or outputs."""


@dataclass(frozen=True)
class Ints:
    """The shape of an int32 input, which is fed numbers from 0 to 4."""

    shape: tuple[int, ...]


def build(spell: Spell, **inputs: tuple[int, ...] | Ints) -> Graph:
    """Return the graph that `spell(new, **inputs)` makes, with one signature: out, or out0, out1 …"""
    new = Build()
    tensors = {name: _input(name, given) for name, given in inputs.items()}
    made = spell(new, **tensors)
    outputs = made if isinstance(made, tuple) else (made,)
    names = [f"out{i}" for i in range(len(outputs))] if isinstance(made, tuple) else ["out"]
    graph = Graph(tensors.values(), outputs, new.ops)
    graph.signatures = [Signature("serving_default", dict(tensors), dict(zip(names, outputs, strict=True)))]
    graph.verify()
    return graph


def _input(name: str, given: tuple[int, ...] | Ints) -> Tensor:
    return Tensor(name, given.shape, "INT32") if isinstance(given, Ints) else Tensor(name, given)


def feeds_for(graph: Graph, seed: int = 0, scale: float = 8.0) -> dict[str, Array]:
    """Return inputs that cross the thresholds of activations: normal with standard deviation `scale`."""
    generator = np.random.default_rng(seed)
    feeds: dict[str, Array] = {}
    for t in graph.inputs:
        if t.dtype == "INT32":
            feeds[t.name] = generator.integers(0, 5, t.shape).astype(np.int32)
        else:
            feeds[t.name] = generator.normal(0, scale, t.shape).astype(np.float32)
    return feeds


def evaluate(graph: Graph, feeds: Feeds) -> list[Array]:
    """Return the outputs of `graph`, written to a file and run by LiteRT on the CPU."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "graph.tflite"
        tflite.write(Model([graph]), path)
        results = Interpreter(path, threads=1).run(feeds)
    return [results[name] for name in graph.signatures[0].outputs]


def assert_close(got: Sequence[Array], want: Sequence[Array], tolerance: float, text: str = "") -> None:
    """Numbers differ by no more than `tolerance` times the largest of them (or times 1)."""
    for a, b in zip(got, want, strict=True):
        assert np.isfinite(b).all(), f"the numbers to compare with are not finite\n{text}"
        largest = max(1.0, float(np.abs(b).max(initial=0)))
        np.testing.assert_allclose(a, b, rtol=0, atol=tolerance * largest, err_msg=text)


def structure(graph: Graph) -> list[Any]:
    """Return the graph up to names and the values of constants: what structural equality compares."""
    number = {t: i for i, t in enumerate(t for t in graph.tensors() if t.data is None)}

    def operand(t: Tensor | None) -> Any:
        if t is None or t.data is None:
            return t and number[t]
        return t.dtype, t.shape, t.values().tolist() if t.dtype != "FLOAT32" else None

    def row(o: Op) -> Any:
        attrs = sorted((k, str(v)) for k, v in o.attrs.items())
        results = [(number[t], t.dtype, t.shape) for t in o.outputs]
        return o.kind, o.version, attrs, [operand(t) for t in o.inputs], results

    return [*map(row, graph.ops), [number[t] for t in graph.outputs if t.data is None]]


def interface(graph: Graph) -> list[Any]:
    """Return what a caller sees: inputs, outputs and signatures with names, shapes and dtypes."""
    ports = [(t.name, t.shape, t.dtype) for t in (*graph.inputs, *graph.outputs)]
    signatures = [
        (s.key, {k: t.name for k, t in s.inputs.items()}, {k: t.name for k, t in s.outputs.items()})
        for s in graph.signatures
    ]
    return [ports, signatures]


def check_rewrite(
    rules: Sequence[Rewrite],
    before: Spell,
    after: Spell,
    *,
    tolerance: float = 1e-5,
    target: Target | None = None,
    feeds: Feeds | None = None,
    **inputs: tuple[int, ...] | Ints,
) -> Ledger:
    """`before` becomes `after`: every rule fires, numbers and interface stay, a second run does nothing.

    Numbers are compared before structure. `tolerance` is a fraction of the largest number.
    """
    graph, wanted = build(before, **inputs), build(after, **inputs)
    fed = {**feeds_for(graph), **(feeds or {})}
    numbers, ports, text = evaluate(graph, fed), interface(graph), str(graph)
    ledger = apply(graph, rules, target)
    for name, entry in ledger.entries.items():
        assert entry.fired, f"{name} did not fire: {entry.skipped}\n{graph}"
    assert_close(evaluate(graph, fed), numbers, tolerance, f"\n{text}\n=>\n{graph}")
    assert structure(graph) == structure(wanted), f"\n--- got\n{graph}\n--- want\n{wanted}"
    assert interface(graph) == ports
    assert not apply(graph, rules, target).fired, "a second run changed the graph again"
    return ledger


def check_no_rewrite(
    rules: Sequence[Rewrite],
    before: Spell | Graph,
    because: str,
    *,
    target: Target | None = None,
    **inputs: tuple[int, ...] | Ints,
) -> None:
    """`before` stays as it is, and the ledger says why."""
    graph = before if isinstance(before, Graph) else build(before, **inputs)
    text = str(graph)
    ledger = apply(graph, rules, target)
    assert not ledger.fired
    assert str(graph) == text
    reasons = [reason for entry in ledger.entries.values() for reason in entry.skipped.values()]
    assert any(because in reason for reason in reasons), reasons


def check_untouched(
    rules: Sequence[Rewrite],
    before: Spell,
    *,
    target: Target | None = None,
    **inputs: tuple[int, ...] | Ints,
) -> None:
    """`before` stays as it is; the pattern does not fit, so there is no reason to give."""
    graph = build(before, **inputs)
    text = str(graph)
    assert not apply(graph, rules, target).fired
    assert str(graph) == text


def normal(*shape: int, seed: int = 1) -> Array:
    """Return standard normal float32 numbers."""
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def quantised(*shape: int, dtype: str = "INT8") -> Tensor:
    """Return an int8 constant with one scale for each slice of its first axis."""
    rows = shape[0]
    values = np.random.default_rng(5).integers(-127, 128, shape).astype(NUMPY[dtype])
    tensor = Build().const(values, "quantised")
    tensor.quant = Quant(np.full(rows, 0.1, np.float32), np.zeros(rows, np.int64))
    return tensor


def conv(new: Build, x: Tensor, outputs: int, kernel: tuple[int, int] = (1, 1), **attrs: Any) -> Tensor:
    """Return a CONV_2D with random weights; unstrided and padded to the same size unless `attrs` say else."""
    weights = normal(outputs, *kernel, x.shape[3], seed=outputs), normal(outputs, seed=outputs + 1)
    defaults = {"padding": "SAME", "stride_h": 1, "stride_w": 1}
    return new.CONV_2D(x, *map(new.const, weights), **{**defaults, **attrs})


def dense(new: Build, x: Tensor, outputs: int, **attrs: Any) -> Tensor:
    """Return a FULLY_CONNECTED with random weights that keeps the rank unless `attrs` say else."""
    weights = normal(outputs, x.shape[-1], seed=outputs), normal(outputs, seed=outputs + 1)
    return new.FULLY_CONNECTED(x, *map(new.const, weights), **{"keep_num_dims": True, **attrs})


def strided_slice(
    new: Build,
    x: Tensor,
    begin: list[int],
    end: list[int],
    step: list[int],
    shape: tuple[int, ...],
    **attrs: int,
) -> Tensor:
    """Return a STRIDED_SLICE of `shape`, which the engine does not follow."""
    y = Tensor(f"strided{len(new.ops)}", shape, x.dtype)
    new.ops.append(Op("STRIDED_SLICE", [x, *map(new.const, (begin, end, step))], [y], attrs))
    return y


def fingerprint(graph: Graph) -> list[Any]:
    """Return what each output is as a formula, and how many operators of each kind there are.

    It sees neither names nor the order of independent operators, nor the values of float constants.
    """
    formulas: dict[Tensor, int] = {}

    def formula(t: Tensor | None) -> int:
        if t is None or t.data is None:
            return 0 if t is None else formulas[t]
        return hash((t.dtype, t.shape, None if t.dtype == "FLOAT32" else t.values().tobytes()))

    for t in graph.inputs:
        formulas[t] = hash(t.name)
    for o in graph.ops:
        attrs = tuple(sorted((k, str(v)) for k, v in o.attrs.items()))
        operands = hash((o.kind, o.version, attrs, tuple(map(formula, o.inputs))))
        for i, t in enumerate(o.outputs):
            formulas[t] = hash((operands, i, t.shape))
    return [[formula(t) for t in graph.outputs], sorted(o.kind for o in graph.ops)]
