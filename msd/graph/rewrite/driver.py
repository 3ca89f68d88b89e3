"""Rewrite rules, and the driver that applies them.

A rule is a pattern and a function. The function never changes the graph: it inspects the match and returns
either the replacement, built with `new`, or a reason to leave it, `skip("reason")`. Only the driver edits the
graph, so a rule that gives up half way has no effect. A `graph_pass` makes changes that are not local.
"""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from msd.graph.ir import Build, Graph, Op, Tensor
from msd.graph.ledger import ComponentLedger, ComponentPruning, RewriteEffect, SkipCount, StoredWeights
from msd.graph.rewrite.pattern import Match, Pat, match
from msd.graph.rewrite.spelling import FORMS
from msd.graph.rewrite.target import Target

PHASES = ("canonicalize", "fuse", "lower", "cleanup")
"""The order in which rules run; within a phase the order does not matter."""


class Skip(NamedTuple):
    """A rule's decision to leave a match as it is, with the reason that the ledger reports."""

    reason: str


skip = Skip


@dataclass(frozen=True)
class Rule:
    """A rewrite of matches of a pattern, whose `build` `takes` these of its tensors, and perhaps `target`.

    `shared`: inner results may have other readers and stay for them.
    `spells`: the construct and the form of it that the rewrite writes, if another spelling does without it.
    """

    name: str
    phases: tuple[str, ...]
    pattern: Pat
    build: Callable[..., Tensor | Skip]
    takes: tuple[str, ...]
    shared: bool = False
    spells: tuple[str, str] | None = None


@dataclass(frozen=True)
class GraphPass:
    """A rewrite of the whole graph at once; `change` returns the number of changes it made."""

    name: str
    phases: tuple[str, ...]
    change: Callable[..., int]
    wants_target: bool = False
    spells: tuple[str, str] | None = None


Rewrite = Rule | GraphPass


def _checked_phases(function: Callable[..., object], phases: str) -> tuple[str, ...]:
    """Return the phases of a rewrite.

    Raises ValueError for an unknown phase, TypeError for a docstring without "=>".
    """
    chosen = tuple(phases.split())
    for phase in chosen:
        if phase not in PHASES:
            raise ValueError(f"no phase {phase!r}; choose from {', '.join(PHASES)}")
    doc = inspect.getdoc(function)
    if not doc or "=>" not in doc:
        raise TypeError(f"rule {function.__name__} needs a docstring stating before => after")
    return chosen


def _checked_form(function: Callable[..., object], spells: tuple[str, str] | None) -> tuple[str, str] | None:
    if spells and spells[1] not in FORMS.get(spells[0], ()):
        raise ValueError(
            f"{function.__name__} spells {spells}, which is no form in msd/graph/rewrite/spelling.py"
        )
    return spells


def rule(
    phases: str, pattern: Pat, *, shared: bool = False, spells: tuple[str, str] | None = None
) -> Callable[[Callable[..., Tensor | Skip]], Rule]:
    """Turn `def name(new, <names in the pattern>[, target])` into a rule of `phases` (space-separated).

    It takes those of the names that it asks for.

    One that `spells` a construct in a form, as in ("gelu", "clipped"), runs if the target's spelling has it.
    """

    if not pattern.kinds:
        raise TypeError("a rule's pattern must be the result of an operator")

    def wrap(build: Callable[..., Tensor | Skip]) -> Rule:
        chosen = _checked_phases(build, phases)
        parameters = list(inspect.signature(build).parameters)
        names = pattern.names()
        if parameters[:1] != ["new"] or {*parameters[1:]} - {*names, "target"}:
            raise TypeError(
                f"rule {build.__name__} takes {parameters}, but its pattern binds {['new', *sorted(names)]}"
            )
        return Rule(
            name=build.__name__,
            phases=chosen,
            pattern=pattern,
            build=build,
            takes=tuple(parameters[1:]),
            shared=shared,
            spells=_checked_form(build, spells),
        )

    return wrap


def graph_pass(
    phases: str, *, spells: tuple[str, str] | None = None
) -> Callable[[Callable[..., int]], GraphPass]:
    """Turn `def name(graph[, target]) -> int` into a rewrite of the whole graph, in `phases`."""

    def wrap(change: Callable[..., int]) -> GraphPass:
        chosen = _checked_phases(change, phases)
        parameters = list(inspect.signature(change).parameters)
        if parameters not in (["graph"], ["graph", "target"]):
            raise TypeError(
                f"pass {change.__name__} takes {parameters}; it must take graph and, optionally, target"
            )
        return GraphPass(
            name=change.__name__,
            phases=chosen,
            change=change,
            wants_target="target" in parameters,
            spells=_checked_form(change, spells),
        )

    return wrap


@dataclass
class LedgerEntry:
    """The effect of one rewrite: how often it fired, what it skipped and why, and the change in operators.

    `skipped` holds the reason by the name of the tensor; `delta` the change in the number of operators by
    kind.
    """

    rule: str
    fired: int = 0
    skipped: dict[str, str] = field(default_factory=dict)
    delta: Counter[str] = field(default_factory=Counter)

    @property
    def ops(self) -> int:
        """The change in the number of operators: added minus removed."""
        return sum(self.delta.values())

    @property
    def effect(self) -> RewriteEffect:
        """The entry as the manifest has it: skips are counted per reason, with one example each."""
        reasons = Counter(self.skipped.values())
        examples = {reason: tensor for tensor, reason in reversed(self.skipped.items())}
        return RewriteEffect(
            rule=self.rule,
            fired=self.fired,
            ops=self.ops,
            kinds={kind: count for kind, count in sorted(self.delta.items()) if count},
            skipped={reason: SkipCount(n, examples[reason]) for reason, n in reasons.items()},
        )


@dataclass
class Ledger:
    """The effect of all rewrites on one graph, and its number of operators before and after."""

    before: int = 0
    after: int = 0
    entries: dict[str, LedgerEntry] = field(default_factory=dict)

    @property
    def fired(self) -> int:
        """The number of times that any rewrite fired."""
        return sum(e.fired for e in self.entries.values())

    def enter(self, name: str, fired: int, before: Counter[str], graph: Graph) -> None:
        """Record a change of `graph` outside of rules; `before` counts its earlier operators by kind."""
        delta = ops_by_kind(graph)
        delta.subtract(before)
        self.entries[name] = LedgerEntry(name, fired, delta=delta)
        self.after = len(graph.ops)

    def of_component(
        self, pruning: ComponentPruning | None = None, weights: tuple[StoredWeights, ...] = ()
    ) -> ComponentLedger:
        """Return the ledger as the manifest has it, with the component's pruning and its stored weights."""
        effects = tuple(entry.effect for entry in self.entries.values())
        return ComponentLedger(
            before=self.before, after=self.after, rules=effects, pruning=pruning, weights=weights
        )


class RuleError(Exception):
    """A rule violated its contract; the message names the rule."""


def apply(graph: Graph, rules: Sequence[Rewrite], target: Target | None = None) -> Ledger:
    """Run `rules` phase by phase, each until none fires, verify the graph after each, return the ledger.

    Rewrites that spell a construct in another form than the target's spelling has do not run. First removes
    operators that nothing needs, which the ledger calls `remove_dead`. Raises RuleError when a
    rule violates its contract or a phase never ends.
    """
    ledger = Ledger(len(graph.ops), 0, {r.name: LedgerEntry(r.name) for r in rules})
    _remove_dead(graph, ledger)
    target = target or Target()
    spelled = [r for r in rules if r.spells is None or target.spelling[r.spells[0]] == r.spells[1]]
    for phase in PHASES:
        chosen = [r for r in spelled if phase in r.phases]
        if chosen:
            _run_phase(_Driver(graph, chosen, target, ledger))
            graph.verify()
    ledger.after = len(graph.ops)
    return ledger


def _remove_dead(graph: Graph, ledger: Ledger) -> None:
    before = ops_by_kind(graph)
    if removed := graph.remove_dead():
        ledger.enter("remove_dead", removed, before, graph)


def ops_by_kind(graph: Graph) -> Counter[str]:
    """Return the number of operators of each kind."""
    return Counter(o.kind for o in graph.ops)


def _run_phase(driver: _Driver) -> None:
    start, limit = driver.fired, 100 + 20 * len(driver.graph.ops)
    while driver.sweep():
        if driver.fired - start > limit:
            cycle = ", ".join(driver.recent[-6:])
            raise RuleError(f"no fixed point after {limit} rewrites; the last were {cycle}")


class _Driver:
    """Runs one phase on one graph, and alone edits it."""

    def __init__(self, graph: Graph, rules: Sequence[Rewrite], target: Target, ledger: Ledger) -> None:
        self.graph, self.target, self.ledger = graph, target, ledger
        self.passes = [r for r in rules if isinstance(r, GraphPass)]
        self.rules_of: dict[str, list[Rule]] = {}
        for r in rules:
            if isinstance(r, Rule):
                for kind in r.pattern.kinds:
                    self.rules_of.setdefault(kind, []).append(r)
        self.recent: list[str] = []
        self.fired = ledger.fired

    def sweep(self) -> bool:
        """Visit every operator and run every pass once; returns whether anything changed."""
        fired = any([self._visit(o) for o in list(self.graph.ops)])
        return any([self._pass(p) for p in self.passes]) or fired

    def _pass(self, p: GraphPass) -> bool:
        before = ops_by_kind(self.graph)
        changes = p.change(self.graph, target=self.target) if p.wants_target else p.change(self.graph)
        entry = self.ledger.entries[p.name]
        entry.fired += changes
        self.fired += changes
        self.recent += [p.name] * bool(changes)
        self.graph.remove_dead()
        entry.delta.update(ops_by_kind(self.graph))
        entry.delta.subtract(before)
        return changes > 0

    def _visit(self, o: Op) -> bool:
        rules = self.rules_of.get(o.kind, ())
        return bool(rules) and self.graph.is_needed(o) and any(self._try(r, o) for r in rules)

    def _try(self, r: Rule, root: Op) -> bool:
        for old in filter(self.graph.is_used, root.outputs):
            for matched in match(r.pattern, old):
                if self._replace(r, root, old, matched):
                    return True
        return False

    def _replace(self, r: Rule, root: Op, old: Tensor, matched: Match) -> bool:
        entry = self.ledger.entries[r.name]
        new = Build(f"{old.name.partition('~')[0]}~{self.fired}.")
        result = self._result(r, new, old, matched)
        if isinstance(result, Skip):
            for unused in new.ops:
                unused.inputs = ()
            entry.skipped[old.name] = result.reason
            return False
        self._edit(entry, root, old, result, new, matched)
        return True

    def _result(self, r: Rule, new: Build, old: Tensor, matched: Match) -> Tensor | Skip:
        """Return the replacement of `old`, or the reason to keep it."""
        if reason := _unfit(matched):
            return Skip(reason)
        if not r.shared and (other := matched.shared(self.graph.outputs)):
            return Skip(f"the inner {other.kind} is also used elsewhere")
        values = {**matched.tensors, "target": self.target}
        try:
            result = r.build(new, **{name: values[name] for name in r.takes})
        except Exception as problem:
            raise RuleError(f"{r.name} failed at {old!r}: {problem}") from problem
        if isinstance(result, Skip):
            return result
        if not isinstance(result, Tensor) or (result.shape, result.dtype) != (old.shape, old.dtype):
            raise RuleError(f"{r.name} turned {old!r} into {result!r}")
        if self._aliases(old, result):
            return Skip(f"a graph output would become another name for {result.name}")
        return result

    def _edit(
        self, entry: LedgerEntry, root: Op, old: Tensor, result: Tensor, new: Build, matched: Match
    ) -> None:
        is_output = any(t is old for t in self.graph.outputs)
        self.graph.insert_before(root, new.ops)
        self.graph.replace_tensor(old, result)
        if result.producer in new.ops or is_output:
            result.name = old.name
        removed = self.graph.erase([*matched.ops, *new.ops])
        entry.delta.update(o.kind for o in new.ops)
        entry.delta.subtract(o.kind for o in removed)
        entry.fired += 1
        self.fired += 1
        entry.skipped.pop(old.name, None)
        self.recent.append(entry.rule)

    def _aliases(self, old: Tensor, result: Tensor) -> bool:
        """Whether the replacement would make two outputs one tensor, or an output an input."""
        outputs = self.graph.outputs
        if not any(t is old for t in outputs):
            return False
        return result.producer is None or any(t is result for t in outputs)


def _unfit(matched: Match) -> str | None:
    """Return why rules, which expect floats of fixed shape, cannot handle a match; None if they can."""
    for o in matched.ops:
        for t in (*o.inputs, *o.outputs):
            if t is None or t.data is not None:
                continue
            if t.quant and t.quant.scale.size:
                return f"{t.name} is quantised"
            if t.shape_signature and any(n < 0 for n in t.shape_signature):
                return f"the shape of {t.name} is not fixed"
    return None
