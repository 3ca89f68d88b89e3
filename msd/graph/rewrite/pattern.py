"""Patterns: the part of a graph that a rule rewrites, written as its formula.

`op.MUL(var("x"), op.LOGISTIC(var("x")))` matches x·sigmoid(x), in either order. A name used twice must be one
tensor. An attribute must have the schema's default unless the pattern gives a value; `ANY` accepts all.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from msd.graph.ir import Op, Tensor, opset

ANY = object()
"""The pattern of an attribute that accepts every value."""


@dataclass(frozen=True, eq=False)
class Pat:
    """A pattern of a tensor: a variable, which matches any, a constant, or the result of an operator."""

    name: str | None = None
    kinds: tuple[str, ...] = ()
    args: tuple[Pat, ...] | None = ()
    attrs: dict[str, Any] = field(default_factory=dict)
    number: float | None = None
    values: tuple[int, ...] | None = None
    constant: bool = False
    output: int = 0

    @cached_property
    def wanted(self) -> dict[str, list[tuple[str, Any]]]:
        """The attributes that an operator must have, and their values, by its kind."""
        values = {kind: {**opset.spec(kind).attrs, **self.attrs} for kind in self.kinds}
        return {kind: [(k, v) for k, v in each.items() if v is not ANY] for kind, each in values.items()}

    @cached_property
    def is_constant(self) -> bool:
        """Whether only constants fit."""
        return self.constant or self.number is not None or self.values is not None

    def named(self, name: str) -> Pat:
        """Return the same pattern with its tensor bound to `name`."""
        return replace(self, name=name)

    def out(self, position: int) -> Pat:
        """Return the pattern of the same operator's result number `position`."""
        return replace(self, output=position)

    def __add__(self, other: Pat | float) -> Pat:
        return op.ADD(self, other)

    def __radd__(self, other: float) -> Pat:
        return op.ADD(other, self)

    def __sub__(self, other: Pat | float) -> Pat:
        return op.SUB(self, other)

    def __mul__(self, other: Pat | float) -> Pat:
        return op.MUL(self, other)

    def __rmul__(self, other: float) -> Pat:
        return op.MUL(other, self)

    def names(self) -> list[str]:
        """Return every name that the pattern binds."""
        return [n for p in (self.args or ()) for n in p.names()] + ([self.name] if self.name else [])


def var(name: str) -> Pat:
    """Return a pattern of any tensor."""
    return Pat(name)


def const(name: str) -> Pat:
    """Return a pattern of any constant."""
    return Pat(name, constant=True)


def any_op(*kinds: str, name: str) -> Pat:
    """Return a pattern of the result of any of these operators, with any inputs and attributes."""
    for kind in kinds:
        opset.spec(kind)
    return Pat(name, kinds, args=None)


def _as_pat(value: Any) -> Pat:
    if isinstance(value, Pat):
        return value
    if isinstance(value, list | tuple):
        return Pat(values=tuple(np.asarray(value).reshape(-1).tolist()))
    return Pat(number=float(value))


class _Ops:
    def __getattr__(self, kind: str) -> Callable[..., Pat]:
        spec = opset.spec(kind)

        def make(*args: Any, **attrs: Any) -> Pat:
            if unknown := set(attrs) - set(spec.attrs):
                raise TypeError(f"{kind} has no attribute {sorted(unknown)}; it has {sorted(spec.attrs)}")
            return Pat(kinds=(kind,), args=tuple(map(_as_pat, args)), attrs=attrs)

        return make


op = _Ops()


class Match(NamedTuple):
    """The tensors bound by name, and every operator that the pattern covers, the root first."""

    tensors: dict[str, Tensor]
    ops: tuple[Op, ...]

    def shared(self, outputs: Collection[Tensor]) -> Op | None:
        """Return an operator with an inner result that is in `outputs` or has readers outside the match."""
        for maker in self.ops[1:]:
            for t in maker.outputs:
                if t in outputs or any(user not in self.ops for user, _ in t.uses):
                    return maker
        return None


def match(pat: Pat, tensor: Tensor | None, bound: Match | None = None) -> Iterator[Match]:
    """Yield every match of `pat` at `tensor`; tries commutative operators in both orders."""
    bound = bound or Match({}, ())
    if tensor is None or not _leaf_fits(pat, tensor, bound):
        return
    if not pat.kinds:
        yield _bind(pat, tensor, bound)
        return
    maker = tensor.producer
    if maker is None or maker.kind not in pat.kinds:
        return
    args, inputs = pat.args, maker.inputs
    if args is not None and not (len(inputs) == len(args) and _result_fits(pat, tensor, maker)):
        return
    covered = bound.ops if maker in bound.ops else (*bound.ops, maker)
    here = _bind(pat, tensor, Match(bound.tensors, covered))
    if args is None:
        yield here
        return
    for order in (inputs, inputs[::-1]) if opset.spec(maker.kind).commutes else (inputs,):
        if _may_fit(args, order):
            yield from _match_all(args, order, here)


def _may_fit(pats: Sequence[Pat], tensors: Sequence[Tensor | None]) -> bool:
    """Whether kinds of operators and constants allow a match: most trials end here, before any is begun."""
    for pat, tensor in zip(pats, tensors, strict=True):
        if tensor is None:
            return False
        if pat.kinds:
            if tensor.producer is None or tensor.producer.kind not in pat.kinds:
                return False
        elif pat.is_constant and tensor.data is None:
            return False
    return True


def _leaf_fits(pat: Pat, tensor: Tensor, bound: Match) -> bool:
    if pat.name in bound.tensors and bound.tensors[pat.name] is not tensor:
        return False
    if pat.constant and tensor.data is None:
        return False
    if pat.number is not None:
        return _is_number(tensor, pat.number)
    return pat.values is None or _has_values(tensor, pat.values)


def _is_number(tensor: Tensor, number: float) -> bool:
    if tensor.data is None or tensor.size != 1 or tensor.quant:
        return False
    return bool(np.isclose(float(tensor.values().reshape(-1)[0]), number, rtol=1e-6, atol=0))


def _has_values(tensor: Tensor, values: tuple[int, ...]) -> bool:
    if tensor.data is None or tensor.size != len(values) or tensor.quant:
        return False
    return tuple(tensor.values().reshape(-1).tolist()) == values


def _bind(pat: Pat, tensor: Tensor, bound: Match) -> Match:
    return Match({**bound.tensors, pat.name: tensor}, bound.ops) if pat.name else bound


def _result_fits(pat: Pat, tensor: Tensor, maker: Op) -> bool:
    if maker.outputs.index(tensor) != pat.output:
        return False
    attrs = maker.attrs
    return all(value == attrs[name] for name, value in pat.wanted[maker.kind])


def _match_all(pats: Sequence[Pat], tensors: Sequence[Tensor | None], bound: Match) -> Iterator[Match]:
    if not pats:
        yield bound
        return
    for matched in match(pats[0], tensors[0], bound):
        yield from _match_all(pats[1:], tensors[1:], matched)
