"""Checks: small functions of an operation, from which a rule set is laid out as a table.

A check's test returns None where the operation is fine, else a clause that goes on from "CONV_2D at 3" and
the tensors it is about. A rule set runs an operation's checks in order and stops at the first that rejects:
later ones may rely on what earlier ones made sure of.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import Any

from msd.ir import Tensor
from msd.prediction.rules.finding import Severity
from msd.prediction.rules.view import View, broadcast, listed

Flaw = tuple[str, tuple[Tensor, ...]]
Test = Callable[[View], Flaw | None]


@dataclass(frozen=True)
class Check:
    """A test with its code, how severe a failure is, the rewrite that cures it, and where it stands.

    An empty `source` means the source of the whole table.
    """

    code: str
    test: Test
    severity: Severity = "rejected"
    fix: str | None = None
    source: str = ""

    def cured_by(self, rewrite: str) -> Check:
        """The same check, whose failures `rewrite` cures."""
        return replace(self, fix=rewrite)

    def at(self, source: str) -> Check:
        """The same check, which stands in `source`."""
        return replace(self, source=source)


def check(code: str, holds: Callable[[View], bool], otherwise: str, *about: int) -> Check:
    """Return a check that `holds`; `otherwise` is its clause, about the operands at these positions."""

    def test(view: View) -> Flaw | None:
        tensors = tuple(t for i in about if (t := view.input(i)) is not None)
        return None if holds(view) else (otherwise, tensors)

    return Check(code, test)


def version(newest: int) -> Check:
    """The operation is of this version or an older one."""

    def test(view: View) -> Flaw | None:
        asked = view.op.version
        clause = f"is of version {asked}; versions up to {newest} are taken"
        return (clause, ()) if asked > newest else None

    return Check("version", test)


def arity(*counts: int) -> Check:
    """There are this many inputs, constant or not."""

    def test(view: View) -> Flaw | None:
        there, wanted = len(view.inputs), _either(counts)
        return None if there in counts else (f"has {there} inputs; {wanted} are taken", view.operands)

    return Check("arity", test)


def at_least(count: int) -> Check:
    """There are this many inputs or more."""
    return check("arity", lambda v: len(v.inputs) >= count, f"has fewer than {count} inputs")


def results(count: int) -> Check:
    """There are this many results."""
    return check("arity", lambda v: len(v.outputs) == count, f"has other than {count} results")


def runtime(*counts: int) -> Check:
    """This many inputs are known only when the graph runs."""

    def test(view: View) -> Flaw | None:
        there = len(view.runtime)
        clause = f"reads {there} runtime tensors; {_either(counts)} are taken"
        return None if there in counts else (clause, view.constants)

    return Check("constness", test)


def constants(*counts: int) -> Check:
    """This many inputs are held by the file."""

    def test(view: View) -> Flaw | None:
        there = len(view.constants)
        clause = f"reads {there} constants; {_either(counts)} are taken"
        return None if there in counts else (clause, view.constants)

    return Check("constness", test)


def one_or_two_runtime() -> Check:
    """There are two inputs, of which at most one is constant."""

    def test(view: View) -> Flaw | None:
        pair = len(view.runtime), len(view.constants)
        clause = "reads other than two runtime tensors, or one and a constant"
        return None if pair in ((2, 0), (1, 1)) else (clause, view.operands)

    return Check("constness", test)


def is_constant(position: int, what: str, dtypes: Collection[str] = ()) -> Check:
    """The input called `what` is held by the file, in one of these dtypes."""

    def test(view: View) -> Flaw | None:
        tensor = view.input(position)
        if tensor is None or tensor.data is None:
            return f"takes its {what} at run time; a constant is wanted", view.operands[position:][:1]
        if dtypes and tensor.dtype not in dtypes:
            return f"has {what} of {tensor.dtype}; {_either(dtypes)} is taken", (tensor,)
        return None

    return Check("constness", test)


def is_runtime(position: int, what: str) -> Check:
    """The input called `what` is no constant."""
    clause = f"has a constant as its {what}; a runtime tensor is wanted"
    return check("constness", lambda v: v.is_runtime(position), clause, position)


def dtype(position: int, what: str, allowed: Collection[str]) -> Check:
    """The input called `what`, if there, is of one of these dtypes."""

    def test(view: View) -> Flaw | None:
        tensor = view.input(position)
        if tensor is None or tensor.dtype in allowed:
            return None
        return f"has {what} of {tensor.dtype}; {_either(allowed)} is taken", (tensor,)

    return Check("dtype", test)


def rank(position: int, what: str, allowed: Collection[int]) -> Check:
    """The input called `what` has one of these numbers of dimensions."""

    def test(view: View) -> Flaw | None:
        tensor = view.input(position)
        if tensor is None or len(tensor.shape) in allowed:
            return None
        clause = f"has {what} of shape {listed(tensor.shape)}; rank {_either(allowed)} is taken"
        return clause, (tensor,)

    return Check("rank", test)


def ranks_below(limit: int) -> Check:
    """No tensor has `limit` dimensions or more."""

    def test(view: View) -> Flaw | None:
        every = (*view.operands, *view.outputs)
        high = tuple(t for t in every if len(t.shape) >= limit)
        shapes = ", ".join(dict.fromkeys(listed(t.shape) for t in high))
        clause = f"works on a tensor of shape {shapes}; fewer than {limit} dimensions are taken"
        return (clause, high) if high else None

    return Check("rank", test)


def attribute(name: str, allowed: Collection[Any]) -> Check:
    """The attribute has one of these values."""

    def test(view: View) -> Flaw | None:
        value = view.attrs[name]
        clause = f"has {name} {value}; {_either(allowed)} is taken"
        return None if value in allowed else (clause, ())

    return Check("attribute", test)


def positive(*names: str) -> Check:
    """These attributes are above 0."""

    def test(view: View) -> Flaw | None:
        for name in names:
            if view.attrs[name] <= 0:
                return f"has {name} {view.attrs[name]}; more than 0 is wanted", ()
        return None

    return Check("attribute", test)


def above_one(name: str) -> Check:
    """The attribute is 2 or more."""
    return check("attribute", lambda v: v.attrs[name] > 1, f"has {name} below 2, which delegates refuse")


ACTIVATIONS = ("NONE", "RELU", "RELU_N1_TO_1", "RELU6", "TANH")


def activation() -> Check:
    """What is fused behind it is an activation that delegates have (`IsActivationSupported`)."""
    return attribute("fused_activation_function", ACTIVATIONS)


def broadcasts(fits: Callable[[tuple[int, ...], tuple[int, ...]], bool], what: str) -> Check:
    """Operands of different ranks above 1 have shapes, the longer first, that `fits` accepts."""

    def test(view: View) -> Flaw | None:
        longer, shorter = sorted((t.shape for t in view.operands), key=len, reverse=True)
        if len(shorter) < 2 or len(longer) == len(shorter) or fits(longer, shorter):
            return None
        return f"broadcasts {listed(shorter)} to {listed(longer)}; {what}", view.operands

    return Check("broadcast", test, fix="align_ranks")


def numpy_fits(longer: tuple[int, ...], shorter: tuple[int, ...]) -> bool:
    """Whether NumPy's rule makes one shape of two."""
    return broadcast(longer, shorter) is not None


def is_scalar(tensor: Tensor) -> bool:
    """Whether a tensor of rank 0 or 1 holds one number."""
    return len(tensor.shape) < 2 and tensor.size == 1


def _either(values: Collection[Any]) -> str:
    *some, last = map(str, sorted(values, key=str) if isinstance(values, set | frozenset) else values)
    return f"{', '.join(some)} or {last}" if some else last
