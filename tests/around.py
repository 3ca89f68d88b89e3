"""Graphs that contain what a rewrite looks for, or something very close to it.

A rule's pattern is data, so it can say what to try the rule on: it is grown into a graph, and disturbed in
the ways real models differ: operands swapped, an activation fused, a constant of another shape, a number a
little off, an inner result read twice or returned. Rewrites whose pattern says too
little have one in `EXAMPLES`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from hypothesis import assume
from hypothesis import strategies as st

import graph_rewrites
from msd.graph.ir import Build, Graph, Signature, Tensor, opset
from msd.graph.rewrite import Rewrite, Rule
from msd.graph.rewrite.pattern import ANY, Pat, const, op, var
from tests.hints import HINTS, generic, select
from tests.sparse_constants import densify, mostly_zero, sparse

SHAPES: dict[int, list[tuple[int, ...]]] = {
    1: [(8,), (12,)],
    2: [(3, 8), (2, 12)],
    3: [(2, 6, 8), (1, 4, 12)],
    4: [(2, 3, 4, 8), (1, 2, 6, 12), (1, 1, 6, 16)],
}
"""Asymmetric, so that swapped axes show, and with channels that groups and slices divide."""

ACTIVATED = {"CONV_2D", "FULLY_CONNECTED", "ADD", "SUB", "MUL", "DIV"}
UNMENTIONED = {"stride_h": 1, "stride_w": 1, "beta": 1.0}
"""What has no sensible default in the schema."""

FREE: dict[str, list[Any]] = {
    "padding": ["SAME", "VALID"],
    "stride_h": [1, 1, 1, 2],
    "stride_w": [1, 1, 1, 2],
    "fused_activation_function": ["NONE", "NONE", "RELU", "RELU6"],
    "keep_num_dims": [True, True, False],
    "adj_x": [False, False, True],
    "adj_y": [False, True],
    "approximate": [True],
    "asymmetric_quantize_inputs": [False, True],
    "axis": [-1],
}
"""What an attribute may be where the pattern accepts anything."""

RANK4 = {"CONV_2D", "PAD"}
INTEGERS = {"SELECT", "SELECT_V2", "LESS"}


def layer(x: Pat, kind: str = "CONV_2D") -> Pat:
    """A layer of `x` with constants, plain unless disturbed."""
    if kind == "CONV_2D":
        return op.CONV_2D(x, const("w"), const("b"), padding="SAME", stride_h=1, stride_w=1)
    return op.FULLY_CONNECTED(x, const("w"), const("b"), keep_num_dims=True)


def reshape(x: Pat, shape: str) -> Pat:
    return op.RESHAPE(x, const(shape))


def heads(x: Pat, number: str) -> Pat:
    conv = op.CONV_2D(x, const(f"w{number}"), const(f"b{number}"), padding="SAME", stride_h=1, stride_w=1)
    return op.TRANSPOSE(reshape(conv, "heads"), const(f"order{number}"))


X, Y = var("x"), var("y")
SAME = op.TANH(X * const("factor"))
ANGLES = (op.RESHAPE(var("timestep"), const("column")) * const("frequencies")).named("angles")

STREAM = (layer(X) + layer(X)).named("stream")

EXAMPLES: dict[str, tuple[Pat, ...]] = {
    "align_ranks": (op.SUB(X, var("lower")), op.MUL(var("lower"), X)),
    "drop_slice": (op.SLICE(X, const("begin"), const("size")),),
    "fold_arithmetic": (X + const("c") * const("d"), X - (const("c") - const("d"))),
    "scale_before_reshape": (
        reshape(layer(X, "FULLY_CONNECTED"), "shape") * const("c"),
        reshape(op.BATCH_MATMUL(X, var("k")), "shape") * const("c"),
    ),
    "scale_before_transpose": (
        op.TRANSPOSE(layer(X), const("perm")) * const("c"),
        op.TRANSPOSE(reshape(layer(X, "FULLY_CONNECTED"), "shape"), const("perm")) * const("c"),
    ),
    "raise_rank": (op.TANH(X), op.SUB(X, Y), op.SQUARED_DIFFERENCE(X, const("c"))),
    "raise_rank_of_reduction": (op.SOFTMAX(X), op.MEAN(X, const("axes"), keep_dims=True)),
    "sink_reshape_past_unary": (op.TANH(reshape(X, "rows")), op.SOFTMAX(reshape(X, "rows"))),
    "sink_reshape_past_reduction": (op.MEAN(reshape(X, "rows"), const("axes"), keep_dims=True),),
    "sink_reshape_past_binary": (
        op.SUB(reshape(X, "rows"), reshape(Y, "rows")),
        op.MUL(reshape(X, "rows"), const("c")),
        op.SUB(op.EXP(var("flat")), reshape(X, "rows")),
        op.SUB(reshape(X, "rows"), op.MEAN(reshape(X, "rows"), const("axes"), keep_dims=True)),
    ),
    "sink_reshape_past_conv": (layer(reshape(X, "row")),),
    "hoist_reshape_before_conv": (reshape(layer(reshape(X, "joined")), "picture"),),
    "split_sliced_layer": (
        op.SPLIT(const("last"), layer(X), num_splits=2).out(1),
        op.SPLIT(const("last"), layer(X, "FULLY_CONNECTED"), num_splits=2),
        op.SLICE(layer(X, "FULLY_CONNECTED"), const("begin"), const("size")),
    ),
    "feed_timestep_embedding": (
        layer(op.CONCATENATION(op.COS(ANGLES), op.SIN(ANGLES), axis=-1), "FULLY_CONNECTED"),
        layer(op.CONCATENATION(op.SIN(ANGLES), op.COS(ANGLES), axis=-1), "FULLY_CONNECTED"),
    ),
    "merge_duplicates": (SAME.named("a") - op.EXP(op.TANH(X * const("factor"))),),
    "merge_projections": (
        op.SUB(heads(X, "1"), heads(X, "2")),
        heads(X, "1") + heads(X, "2") + heads(X, "3"),
    ),
    "stamp_versions": (X - Y, X * const("c")),
    "densify_constants": (X + op.DENSIFY(const("w")), op.TANH(X - op.DENSIFY(const("w")))),
    "scale_activations": (
        STREAM * op.RSQRT(op.MEAN(op.MUL(STREAM, STREAM), const("axes"), keep_dims=True) + 0.001),
        STREAM * op.RSQRT(op.MEAN(op.SQUARE(STREAM), const("axes"), keep_dims=True) + 0.001),
    ),
    "clip_mask": (op.SOFTMAX(X + const("mask"), beta=1.0),),
}


RULES: dict[str, Rewrite] = {rule.name: rule for rule in graph_rewrites.load()}


def patterns(name: str) -> tuple[Pat, ...]:
    """Return what to grow graphs from for the rewrite called `name`."""
    if name in EXAMPLES:
        return EXAMPLES[name]
    rule = RULES[name]
    assert isinstance(rule, Rule), f"add an example for the pass {name} to tests/around.py"
    assert rule.pattern.args is not None, f"add an example for {name} to tests/around.py"
    return (rule.pattern,)


def _count(pat: Pat) -> int:
    return 1 + sum(map(_count, pat.args or ()))


def _variables(pat: Pat) -> list[str]:
    """Return the names of the leaves that may be any tensor."""
    free = not (pat.kinds or pat.constant or pat.number is not None)
    return [*([pat.name] if pat.name and free else []), *(n for p in pat.args or () for n in _variables(p))]


class Grower:
    """Grows one pattern into operators; `bound` holds what each name became."""

    def __init__(self, draw: Any, pattern: Pat, hints: dict[str, Callable[..., Any]]) -> None:
        self.draw, self.hints = draw, hints
        self.rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
        self.new = Build()
        self.bound: dict[str, Tensor] = {}
        self.inputs: list[Tensor] = []
        self.odds = 3 * _count(pattern)

    def grow_upon(self, root: Tensor, pattern: Pat, hints: dict[str, Callable[..., Any]]) -> Tensor:
        """Return `pattern` grown with `root` as its first variable."""
        self.hints, self.bound = hints, {_variables(pattern)[0]: root}
        return self.grow(pattern)

    def one_of(self, values: list[Any]) -> Any:
        return self.draw(st.sampled_from(values))

    def rarely(self) -> bool:
        """Whether to disturb: about one graph in three is, somewhere."""
        return bool(self.draw(st.integers(0, self.odds)) == 1)

    def grow(self, pat: Pat, beside: Tensor | None = None, kind: str = "", position: int = 0) -> Tensor:
        """Return `pat` grown as operand `position` of a `kind`; `beside` is the operand before it."""
        if pat.name in self.bound and not self.rarely():
            return self.bound[pat.name]
        if pat.number is not None:
            tensor = self._number(pat.number, kind)
        elif pat.constant:
            tensor = self._constant(pat.name or "", beside, kind, position)
        elif pat.kinds:
            tensor = self._operator(pat, kind)
        else:
            tensor = self._variable(pat.name or "", beside, kind)
        if pat.name:
            self.bound[pat.name] = tensor
        return tensor

    def _number(self, number: float, kind: str) -> Tensor:
        if kind in INTEGERS:
            return self.new.const(np.int32(number))
        off = 1.05 if self.rarely() else 1
        return self.new.const(np.full(self.one_of([(), (), (1,), (1, 1)]), number * off, np.float32))

    def _constant(self, name: str, beside: Tensor | None, kind: str, position: int) -> Tensor:
        hint = self.hints.get(name)
        values = None if hint is None or self.rarely() else hint(self, beside)
        return self.new.const(generic(self, kind, position, beside) if values is None else values)

    def _variable(self, name: str, beside: Tensor | None, kind: str) -> Tensor:
        hint = self.hints.get(name)
        if kind in INTEGERS or (kind == "GATHER" and not hint):
            return self._input(name, self.one_of([(3,), (2, 3)]), "INT32")
        shape = hint(self, beside) if hint and not self.rarely() else None
        if shape is None and beside and beside.size > 1:
            shape = beside.shape
        if shape is None:
            shape = self.one_of(SHAPES[4 if kind in RANK4 else self.one_of([2, 3, 4, 4])])
        tensor = self._input(name, shape, "FLOAT32")
        return self.new.TANH(tensor) if self.rarely() else tensor

    def _input(self, name: str, shape: tuple[int, ...], dtype: str) -> Tensor:
        tensor = Tensor(f"{name}{len(self.inputs)}", shape, dtype)
        self.inputs.append(tensor)
        return tensor

    def _operator(self, pat: Pat, above: str) -> Tensor:
        kind, args = pat.kinds[0], pat.args or ()
        attrs = self._attributes(pat, kind)
        context = above if above in INTEGERS and kind == "ADD" else kind
        operands: list[Tensor] = []
        for i, arg in enumerate(args):
            self.attrs = attrs
            operands.append(self.grow(arg, operands[0] if operands else None, context, i))
        if opset.spec(kind).commutes and self.one_of([False, True]):
            operands.reverse()
        if kind == "SELECT":
            return select(self.new, operands)
        if kind == "DENSIFY":
            return densify(self.new, sparse(mostly_zero(*self.inputs[-1].shape)))
        if kind == "SPLIT":
            return self.new.SPLIT(operands[0], operands[1], attrs["num_splits"])[pat.output]
        version = self.one_of([3, 1]) if kind in ("SUB", "MUL") else 1
        return getattr(self.new, kind)(*operands, version=version, **attrs)

    def _attributes(self, pat: Pat, kind: str) -> dict[str, Any]:
        spec = opset.spec(kind).attrs
        attrs = {k: v for k, v in UNMENTIONED.items() if k in spec}
        for name, value in pat.attrs.items():
            if value is not ANY:
                attrs[name] = value
            elif name in FREE:
                attrs[name] = self.one_of(FREE[name])
        if kind in ACTIVATED and self.rarely():
            attrs["fused_activation_function"] = self.one_of(["RELU", "RELU6"])
        return attrs


def _pattern(draw: Any, name: str) -> Pat:
    every = patterns(name)
    return every[draw(st.integers(0, len(every) - 1))]


@st.composite
def graphs_around(draw: Any, name: str, others: Sequence[str] = ()) -> Graph:
    """Draw a graph in which rewrite `name` may well fire, sometimes with what one of `others` wants on it."""
    pattern = _pattern(draw, name)
    grower = Grower(draw, pattern, HINTS.get(name, {}))
    try:
        root = grower.grow(pattern)
        if others and draw(st.booleans()):
            other = draw(st.sampled_from(others))
            root = grower.grow_upon(root, _pattern(draw, other), HINTS.get(other, {}))
    except (ValueError, IndexError):
        assume(False)
    outputs = _outputs(grower, root)
    assume(all(n > 0 for o in grower.new.ops for t in o.outputs for n in t.shape))
    graph = Graph(grower.inputs, outputs, grower.new.ops)
    names = {f"out{i}": t for i, t in enumerate(outputs)}
    graph.signatures = [Signature("serving_default", {t.name: t for t in grower.inputs}, names)]
    graph.remove_dead()
    assume(all(t.uses or t in outputs for t in graph.inputs))
    graph.verify()
    return graph


def _outputs(grower: Grower, root: Tensor) -> list[Tensor]:
    """The root, or what another operator makes of it; rarely an inner result too, as it is or used again."""
    new = grower.new
    inner = [t for o in new.ops for t in o.outputs if t is not root]
    plain = root.dtype != "FLOAT32" or grower.one_of([True, False])
    outputs = [root if plain else new.NEG(root)]
    if inner and grower.rarely():
        outputs.append(grower.one_of(inner))
    floats = [t for t in inner if t.dtype == "FLOAT32"]
    if floats and grower.rarely():
        outputs.append(new.TANH(grower.one_of(floats)))
    return list(dict.fromkeys(outputs))
