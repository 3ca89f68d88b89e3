"""Checks of one operator, the entries of the tables that rule sets consist of.

A check's test returns None if the operator passes, else a clause that continues the sentence "CONV_2D at 3 …"
and the tensors at fault. A rule set runs an operator's checks in order and stops at the first that rejects,
so later checks may rely on earlier ones. Each docstring states the condition that the operator must meet.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import Any

from msd.files.wording import counted, listed
from msd.graph.ir import Tensor
from msd.graph.prediction.releases import ALWAYS, Span
from msd.graph.prediction.rules.finding import Severity
from msd.graph.prediction.rules.view import View, broadcast, shape_text

Flaw = tuple[str, tuple[Tensor, ...]]
Test = Callable[[View], Flaw | None]


@dataclass(frozen=True)
class Check:
    """A test, the code and severity of its failure, the rewrite that fixes it, and the source of the rule.

    An empty `source` means the source of the whole table. `releases` are those that have the rule.
    """

    code: str
    test: Test
    severity: Severity = "rejected"
    fix: str | None = None
    source: str = ""
    releases: Span = ALWAYS

    def since(self, release: str) -> Check:
        """Return the same check, as a rule of `release` and later ones."""
        return replace(self, releases=replace(self.releases, first=release))

    def until(self, release: str) -> Check:
        """Return the same check, as a rule of `release` and earlier ones."""
        return replace(self, releases=replace(self.releases, last=release))

    def cured_by(self, rewrite: str) -> Check:
        """Return the same check with `rewrite` as the fix."""
        return replace(self, fix=rewrite)

    def at(self, source: str) -> Check:
        """Return the same check with its `source`."""
        return replace(self, source=source)


def check(code: str, holds: Callable[[View], bool], otherwise: str, *about: int) -> Check:
    """Return a check that `holds`; the clause `otherwise` blames the operands at the positions `about`."""

    def test(view: View) -> Flaw | None:
        tensors = tuple(t for i in about if (t := view.input(i)) is not None)
        return None if holds(view) else (otherwise, tensors)

    return Check(code, test)


def version(newest: int) -> Check:
    """The operator has this version or a lower one."""

    def test(view: View) -> Flaw | None:
        requested = view.op.version
        clause = f"has version {requested}; versions up to {newest} are supported"
        return (clause, ()) if requested > newest else None

    return Check("version", test)


def arity(*counts: int) -> Check:
    """The number of inputs, constant or not, is one of `counts`."""

    def test(view: View) -> Flaw | None:
        count, allowed = len(view.inputs), _either(counts)
        return (
            None
            if count in counts
            else (f"has {counted(count, 'input')}; {allowed} are supported", view.operands)
        )

    return Check("arity", test)


def at_least(count: int) -> Check:
    """There are at least `count` inputs."""
    return check("arity", lambda v: len(v.inputs) >= count, f"has fewer than {counted(count, 'input')}")


def results(count: int) -> Check:
    """There are `count` results."""
    return check("arity", lambda v: len(v.outputs) == count, f"does not have {counted(count, 'result')}")


def runtime(*counts: int) -> Check:
    """The number of runtime inputs is one of `counts`."""

    def test(view: View) -> Flaw | None:
        count = len(view.runtime)
        clause = f"reads {counted(count, 'runtime tensor')}; {_either(counts)} are supported"
        return None if count in counts else (clause, view.constants)

    return Check("constness", test)


def constants(*counts: int) -> Check:
    """The number of constant inputs is one of `counts`."""

    def test(view: View) -> Flaw | None:
        count = len(view.constants)
        clause = f"reads {counted(count, 'constant')}; {_either(counts)} are supported"
        return None if count in counts else (clause, view.constants)

    return Check("constness", test)


def one_or_two_runtime() -> Check:
    """There are two inputs, at most one of them constant."""

    def test(view: View) -> Flaw | None:
        pair = len(view.runtime), len(view.constants)
        clause = "must read two runtime tensors, or one and a constant"
        return None if pair in ((2, 0), (1, 1)) else (clause, view.operands)

    return Check("constness", test)


def is_constant(position: int, what: str, dtypes: Collection[str] = ()) -> Check:
    """The input called `what` is constant, of one of these dtypes."""

    def test(view: View) -> Flaw | None:
        tensor = view.input(position)
        if tensor is None or tensor.data is None:
            return f"reads its {what} at run time; a constant is required", view.operands[position:][:1]
        if dtypes and tensor.dtype not in dtypes:
            return f"has {what} of {tensor.dtype}; {_either(dtypes)} is supported", (tensor,)
        return None

    return Check("constness", test)


def is_runtime(position: int, what: str) -> Check:
    """The input called `what` is not constant."""
    clause = f"has a constant as its {what}; a runtime tensor is required"
    return check("constness", lambda v: v.is_runtime(position), clause, position)


def dtype(position: int, what: str, allowed: Collection[str]) -> Check:
    """The input called `what`, if present, has one of these dtypes."""

    def test(view: View) -> Flaw | None:
        tensor = view.input(position)
        if tensor is None or tensor.dtype in allowed:
            return None
        return f"has {what} of {tensor.dtype}; {_either(allowed)} is supported", (tensor,)

    return Check("dtype", test)


def rank(position: int, what: str, allowed: Collection[int]) -> Check:
    """The input called `what`, if present, has one of these ranks."""

    def test(view: View) -> Flaw | None:
        tensor = view.input(position)
        if tensor is None or len(tensor.shape) in allowed:
            return None
        clause = f"has {what} of shape {shape_text(tensor.shape)}; rank {_either(allowed)} is supported"
        return clause, (tensor,)

    return Check("rank", test)


def ranks_below(limit: int) -> Check:
    """Every tensor has fewer than `limit` dimensions."""

    def test(view: View) -> Flaw | None:
        every = (*view.operands, *view.outputs)
        high = tuple(t for t in every if len(t.shape) >= limit)
        shapes = ", ".join(dict.fromkeys(shape_text(t.shape) for t in high))
        clause = f"uses a tensor of shape {shapes}; fewer than {limit} dimensions are supported"
        return (clause, high) if high else None

    return Check("rank", test)


def attribute(name: str, allowed: Collection[Any]) -> Check:
    """The attribute has one of the values `allowed`."""

    def test(view: View) -> Flaw | None:
        value = view.attrs[name]
        clause = f"has {name} {value}; {_either(allowed)} is supported"
        return None if value in allowed else (clause, ())

    return Check("attribute", test)


def positive(*names: str) -> Check:
    """These attributes are above 0."""

    def test(view: View) -> Flaw | None:
        for name in names:
            if view.attrs[name] <= 0:
                return f"has {name} {view.attrs[name]}; a value above 0 is required", ()
        return None

    return Check("attribute", test)


def above_one(name: str) -> Check:
    """The attribute is 2 or more."""
    return check("attribute", lambda v: v.attrs[name] > 1, f"has {name} below 2, which delegates refuse")


ACTIVATIONS = ("NONE", "RELU", "RELU_N1_TO_1", "RELU6", "TANH")


def activation() -> Check:
    """The fused activation is one that delegates support (`IsActivationSupported`)."""
    return attribute("fused_activation_function", ACTIVATIONS)


def broadcasts(fits: Callable[[tuple[int, ...], tuple[int, ...]], bool], what: str) -> Check:
    """`fits` accepts the shapes, the longer first, of operands of different ranks above 1."""

    def test(view: View) -> Flaw | None:
        longer, shorter = sorted((t.shape for t in view.operands), key=len, reverse=True)
        if len(shorter) < 2 or len(longer) == len(shorter) or fits(longer, shorter):
            return None
        return f"broadcasts {shape_text(shorter)} to {shape_text(longer)}; {what}", view.operands

    return Check("broadcast", test, fix="align_ranks")


def numpy_fits(longer: tuple[int, ...], shorter: tuple[int, ...]) -> bool:
    """Whether two shapes broadcast by NumPy's rule."""
    return broadcast(longer, shorter) is not None


def is_scalar(tensor: Tensor) -> bool:
    """Whether a tensor of rank 0 or 1 holds one number."""
    return len(tensor.shape) < 2 and tensor.size == 1


def _either(values: Collection[Any]) -> str:
    return listed(sorted(values, key=str) if isinstance(values, set | frozenset) else values, "or")
