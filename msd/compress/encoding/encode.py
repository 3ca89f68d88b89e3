"""Applies a recipe to a graph: marks on the tensors how the writer encodes them.

The writer computes the values. Integers are read directly by their operator, the storage format that GPU
delegates support, or through a DEQUANTIZE if the recipe asks for it; float16 always has a DEQUANTIZE, which
delegates remove. Operator versions are the lowest that allow the encoding
(tensorflow/lite/tools/versioning/op_version.cc) and that delegates support (docs/recipes.md).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import partial

import numpy as np

from msd.compress.encoding.quantize import COMPENSATED, Encode, encoder, plain_algorithm
from msd.compress.encoding.recipe import BITS, FILTERS, INTEGERS, Line, Recipe
from msd.compress.encoding.trunk import trunk
from msd.errors import BadConfig
from msd.graph.ir import Build, Graph, Op, Quant, Tensor
from msd.graph.ir.float_weights import VERSIONS
from msd.graph.ir.weights import Array, Weights
from msd.graph.ledger import StoredWeights

SMALLEST = 1024
"""Weights with fewer elements stay float32 in any recipe: encoding them saves nothing."""

FILTER_VERSION = {"CONV_2D": {"channel": 5, "tensor": 2}, "EMBEDDING_LOOKUP": {"channel": 4, "tensor": 3}}
"""The operator versions for integer weights with one scale per slice of axis 0, and with one scale."""


@dataclass(frozen=True)
class Encoding:
    """The result of `encode`.

    `stored` is the number of constants by TFLite's dtype; `matched` the lines of the recipe, from 0, that
    matched a weight; `names` the checkpoint's tensors that lines could match; `weights` how the large ones
    are stored, the kind with the most first. `clipped` are the checkpoint's tensors that float16 cannot hold,
    once the file is written: their values are known only then.
    """

    stored: Mapping[str, int]
    matched: frozenset[int]
    names: tuple[str, ...] = ()
    weights: tuple[StoredWeights, ...] = ()
    clipped: set[str] = field(default_factory=set)


Lines = Mapping[Tensor, Line]
Rounder = Callable[[Graph, Lines], Mapping[Tensor, Encode]]
"""Rounds weights of a graph; returns how the writer gets the integers of each."""


def nothing_rounded(graph: Graph, lines: Lines) -> Mapping[Tensor, Encode]:
    """Round nothing: the writer quantises all weights."""
    return {}


def encode(graph: Graph, recipe: Recipe, component: str, rounder: Rounder = nothing_rounded) -> Encoding:
    """Encode the large learnt weights of `graph` as `recipe` says for `component`.

    Those that `rounder` does not round are quantised when they are written.
    """
    chosen, matched = lines_of(graph, recipe, component)
    rounded = rounder(graph, chosen)
    names = dict.fromkeys(name for t in _learnt(graph) for name in t.weights.sources)
    clipped = set[str]()
    for tensor, line in chosen.items():
        _store(graph, tensor, line, rounded.get(tensor), clipped)
    dtypes = [t.dtype for t in graph.tensors() if t.data is not None]
    return Encoding(
        stored={d: dtypes.count(d) for d in sorted(set(dtypes))},
        matched=matched,
        names=tuple(names),
        weights=_summary(chosen, rounded),
        clipped=clipped,
    )


def _summary(lines: Lines, rounded: Collection[Tensor]) -> tuple[StoredWeights, ...]:
    """Return the weights by kind; names only where a kind is not the most frequent."""
    kinds: dict[tuple[str, str], list[str]] = {}
    for tensor, line in lines.items():
        kinds.setdefault((line.store, _algorithm(line, tensor in rounded)), []).append(tensor.name)
    ordered = sorted(kinds.items(), key=lambda item: -len(item[1]))
    return tuple(
        StoredWeights(*kind, len(names), tuple(names) if n else ()) for n, (kind, names) in enumerate(ordered)
    )


def _algorithm(line: Line, is_rounded: bool) -> str:
    """Return the algorithm that rounded weights in the end; empty for floats."""
    if line.store not in INTEGERS:
        return ""
    if is_rounded and line.algorithm in COMPENSATED:
        return "gptq"
    return plain_algorithm(line.store, line.algorithm)


def lines_of(graph: Graph, recipe: Recipe, component: str) -> tuple[dict[Tensor, Line], frozenset[int]]:
    """Return the line by which each large learnt weight is stored, and the numbers of all that match one."""
    matched, chosen = set[int](), dict[Tensor, Line]()
    for tensor in _learnt(graph):
        fitting = [n for n, line in enumerate(recipe.lines) if _fits(line, tensor, component)]
        matched.update(fitting)
        if fitting and tensor.size >= SMALLEST:
            chosen[tensor] = recipe.lines[fitting[-1]]
    if recipe.trunk:
        bits = {tensor: BITS[line.store] for tensor, line in chosen.items()}
        chosen |= dict.fromkeys(trunk(graph, bits, BITS[recipe.trunk]), Line(recipe.trunk))
    return chosen, frozenset(matched)


def stored_bits(recipe: Recipe, component: str, name: str, weights: Weights) -> int:
    """Return about how many bits a tensor of the checkpoint takes, by its name: vectors stay float32."""
    kind = "EMBEDDING_LOOKUP" if is_table(name) else "CONV_2D"
    stored = ["float32"]
    if weights.size >= SMALLEST and len(weights.shape) > 1:
        lines = [line for line in recipe.lines if line.names([name], component)]
        stored += [line.store for line in lines if not line.op or kind in line.op]
    return weights.size * BITS[stored[-1]]


def stored_bytes(recipe: Recipe, component: str, tensor: Tensor) -> float:
    """Return about how many bytes a learnt constant of a traced graph takes."""
    name = next(iter(tensor.weights.sources), tensor.name)
    return stored_bits(recipe, component, name, tensor.weights) / 8


def is_table(name: str) -> bool:
    """Whether a tensor of a checkpoint, by its name, is the token embedding."""
    return name.endswith("token_embedding.weight")


def require_matched(recipe: Recipe, encodings: Mapping[str, Encoding], components: Collection[str]) -> None:
    """Raise BadConfig for a line that matched nothing, if `encodings` has all of its components.

    A line that names no component means all `components` of the model.
    """
    for n, line in enumerate(recipe.lines):
        scope = line.component or tuple(components)
        if set(scope) <= set(encodings) and not any(n in encodings[c].matched for c in scope):
            names = [name for c in scope for name in encodings[c].names]
            raise BadConfig(
                f"line entry {n + 1} of the recipe {recipe.name} ({line}) matches no weights that"
                f" could be stored so; {_nearby(line, names)}"
            )


def _nearby(line: Line, names: Iterable[str]) -> str:
    close = [match for pattern in line.name for match in get_close_matches(pattern, names, 2, 0)]
    if close:
        return f"nearest are {', '.join(dict.fromkeys(close))}"
    return "its operators read none, or share them with others"


def _learnt(graph: Graph) -> list[Tensor]:
    return [tensor for tensor in graph.tensors() if _is_learnt(graph, tensor)]


def _is_learnt(graph: Graph, tensor: Tensor) -> bool:
    """Whether a tensor is a weight from a checkpoint: constants that rewrites set stay exact."""
    if tensor.data is None or tensor.dtype != "FLOAT32":
        return False
    return not tensor.data.exact and bool(tensor.uses) and tensor not in graph.outputs


def _fits(line: Line, tensor: Tensor, component: str) -> bool:
    """Whether a line applies to the tensor; integers are only for the second input of `FILTERS`."""
    if not line.names(tensor.weights.sources, component):
        return False
    uses = {(op.kind, place) for op, place in tensor.uses}
    if line.op or line.store in INTEGERS:
        return uses <= {(kind, 1) for kind in line.op or FILTERS}
    # No delegate gathers rows of a float16 table, so only a line that names the operator applies.
    return line.store != "float16" or all(kind != "EMBEDDING_LOOKUP" for kind, _ in uses)


def _store(graph: Graph, tensor: Tensor, line: Line, rounded: Encode | None, clipped: set[str]) -> None:
    if line.store == "float16":
        _to_float16(graph, tensor, clipped)
    elif line.explicit:
        stored = Tensor(f"{tensor.name}/{line.store}", tensor.shape, "FLOAT32", tensor.weights)
        _to_integers(stored, line, rounded)
        _dequantize(graph, tensor, stored)
    elif line.store in INTEGERS:
        _to_integers(tensor, line, rounded)
        for op, _ in tensor.uses:
            op.version = max(op.version, FILTER_VERSION[op.kind][line.granularity])


def _to_integers(tensor: Tensor, line: Line, rounded: Encode | None) -> None:
    scales = tensor.shape[0] if line.granularity == "channel" else 1
    encode_rows = rounded or encoder(line.store, line.granularity, line.algorithm)
    tensor.dtype = line.store.upper()
    tensor.quant = Quant(
        scale=np.zeros(scales, np.float32), zero_point=np.zeros(scales, np.int64), axis=0, encode=encode_rows
    )


def _to_float16(graph: Graph, tensor: Tensor, clipped: set[str]) -> None:
    name = ", ".join(tensor.weights.sources) or tensor.name
    half = tensor.weights.map_each("float16", partial(_halve, name, clipped), "float16")
    _dequantize(graph, tensor, Tensor(f"{tensor.name}/float16", tensor.shape, "FLOAT16", half))


def _dequantize(graph: Graph, tensor: Tensor, stored: Tensor) -> None:
    """Replace the float32 constant `tensor` by a DEQUANTIZE of `stored`, which has fewer bits."""
    users = [op for op, _ in tensor.uses]
    new = Build()
    full = new.DEQUANTIZE(stored, version=VERSIONS[stored.dtype])
    full.name = tensor.name
    graph.insert_before(_first(graph, users), new.ops)
    graph.replace_tensor(tensor, full)


def _halve(name: str, clipped: set[str], values: Array) -> Array:
    """Return values as float16, clipped to its range; where that changes any, `clipped` gets their `name`."""
    limit, values = np.finfo(np.float16).max, np.asarray(values, np.float32)
    if values.size and max(values.max(), -values.min()) > limit:
        clipped.add(name)
    return np.clip(values, -limit, limit).astype(np.float16)


def _first(graph: Graph, ops: list[Op]) -> Op:
    candidates = set(ops)
    return next(op for op in graph.ops if op in candidates)
