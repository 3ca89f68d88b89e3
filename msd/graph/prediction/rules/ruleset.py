"""A delegate's rules as one object, and their findings about one operator."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from msd.errors import BadConfig
from msd.graph.ir import Graph, Op, Tensor
from msd.graph.prediction.releases import ALWAYS, Span, require_known
from msd.graph.prediction.rules.checks import Check
from msd.graph.prediction.rules.finding import Finding, Severity
from msd.graph.prediction.rules.interface import GraphCheck
from msd.graph.prediction.rules.view import View

MALFORMED = (IndexError, KeyError, TypeError, ValueError, ZeroDivisionError)
"""The exceptions of checks on an operator that lacks operands, ranks or attributes of its kind."""


@dataclass(frozen=True)
class RuleSet:
    """The operators that one delegate supports.

    `rules` maps each kind of operator to its checks, in the delegate's order. `every` are the checks of all
    kinds with an entry, run after those. `miscomputed` are the checks for operators that the delegate runs
    but computes wrong (or may), by kind; they apply only to operators that nothing rejects. The delegate
    knows the kinds in `unjudged`, but no rule here decides when it supports them; it does not know any other
    kind without an entry. `source` is LiteRT's file with the rules, `parsers` the one with the list of kinds.
    `cures` names the rewrite that does without a kind that it does not know. `graphs` are checks of a graph's
    inputs and outputs. `releases` are those with rules here, in order, `default` the one that msd installs,
    and `spans` those that know a kind, where not all do; none where the rules are of one release alone.
    `evidence` says what the rules of a release rest on, and `unknown` why there are none for a name.
    """

    name: str
    release: str
    rules: Mapping[str, tuple[Check, ...]]
    every: tuple[Check, ...]
    miscomputed: Mapping[str, tuple[Check, ...]]
    unjudged: Callable[[str], bool]
    source: str
    parsers: str
    cures: Mapping[str, str] = field(default_factory=dict)
    graphs: tuple[GraphCheck, ...] = ()
    releases: tuple[str, ...] = ()
    default: str = ""
    spans: Mapping[str, Span] = field(default_factory=dict)
    evidence: Mapping[str, str] = field(default_factory=dict)
    unknown: Mapping[str, str] = field(default_factory=dict)

    def under(self, release: str) -> RuleSet:
        """Return the rules of one of several releases.

        Raises BadConfig for one older than all of them, and for one of `unknown`.
        """
        if release in self.unknown:
            raise BadConfig(f"there are no rules of {self.name} for {release}: {self.unknown[release]}")
        known = require_known(release, self.releases, self.name)
        rules = {kind: row for kind, row in self.rules.items() if known in self.spans.get(kind, ALWAYS)}
        return replace(
            self,
            release=known,
            rules=_rows(rules, known),
            every=_row(self.every, known),
            miscomputed=_rows(self.miscomputed, known),
            releases=(known,),
            default=known,
        )

    def findings(self, view: View) -> Iterator[Finding]:
        """Yield the findings about one operator; none if the delegate supports it and computes it right."""
        checks = self.rules.get(view.kind)
        if checks is None:
            yield self._without_rules(view)
            return
        try:
            yield from list(self._judged(view, checks))
        except MALFORMED:
            clause = f"has operands or attributes that make no {view.kind}; its rules cannot be read"
            yield _finding(view, "unknown", "malformed", clause, self.source, view.operands)

    def graph_findings(self, graph: Graph, places: Mapping[Op, int]) -> Iterator[Finding]:
        """Yield the findings about the inputs and outputs of a graph; `places` numbers its operators."""
        for check in self.graphs:
            for op, (clause, tensors) in check.test(graph):
                yield _finding(
                    View(places[op], op), check.severity, check.code, clause, check.source, tensors
                )

    def _judged(self, view: View, checks: Iterable[Check]) -> Iterator[Finding]:
        rejected = next(self._failures(view, (*checks, *self.every)), None)
        if rejected is not None:
            yield rejected
        else:
            yield from self._failures(view, self.miscomputed.get(view.kind, ()))

    def _without_rules(self, view: View) -> Finding:
        if self.unjudged(view.kind):
            clause = f"is known to {self.name}, but no rule here says when it is supported"
            return _finding(view, "unknown", "no-rule", clause, self.parsers)
        clause = f"is of a kind that {self.name} does not have; other operations must do its work"
        return _finding(view, "rejected", "unsupported", clause, self.parsers, fix=self.cures.get(view.kind))

    def _failures(self, view: View, checks: Iterable[Check]) -> Iterator[Finding]:
        for check in checks:
            flaw = check.test(view)
            if flaw is not None:
                clause, tensors = flaw
                source = check.source or self.source
                yield _finding(view, check.severity, check.code, clause, source, tensors, check.fix)


def _rows(rows: Mapping[str, tuple[Check, ...]], release: str) -> dict[str, tuple[Check, ...]]:
    return {kind: _row(row, release) for kind, row in rows.items()}


def _row(row: tuple[Check, ...], release: str) -> tuple[Check, ...]:
    return tuple(check for check in row if release in check.releases)


def _finding(
    view: View,
    severity: Severity,
    code: str,
    clause: str,
    source: str,
    tensors: Iterable[Tensor] = (),
    fix: str | None = None,
) -> Finding:
    return Finding(
        op=view.place,
        kind=view.kind,
        tensors=tuple(dict.fromkeys(t.name for t in tensors)),
        severity=severity,
        code=code,
        sentence=f"{_where(view)} {clause}.",
        fix=fix,
        source=source,
    )


def _where(view: View) -> str:
    result = f", which makes {view.outputs[0].short_name}," if view.outputs else ""
    return f"{view.kind} at {view.place}{result}"
