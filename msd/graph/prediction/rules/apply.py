"""Predicts a delegate's treatment of a model by its rules."""

from __future__ import annotations

from collections.abc import Iterator

from msd.graph.ir import Model
from msd.graph.ir.executed_graphs import executed_graphs
from msd.graph.prediction.registry import find_delegate
from msd.graph.prediction.rules.finding import Finding
from msd.graph.prediction.rules.ruleset import RuleSet
from msd.graph.prediction.rules.view import View


def predict(model: Model, delegate: str, release: str | None = None) -> tuple[Finding, ...]:
    """Return the findings for the delegate of that name: about operators, in the file's order, then graphs.

    The rules check every operator of every graph that runs. An operator without a finding is supported, and
    right as far as the rules know. `release` of the delegate's library: None for the one that msd installs.
    Raises BadConfig for a delegate without rules, and for a release older than all with rules.
    """
    return tuple(_findings(model, rules_of(delegate, release)))


def rules_of(delegate: str, release: str | None = None) -> RuleSet:
    """Return the rules that judge by a release of the delegate's library; raises as `predict` does."""
    rules = find_delegate(delegate).rules
    wanted = release or rules.default
    return rules.under(wanted) if wanted else rules


def _findings(model: Model, rules: RuleSet) -> Iterator[Finding]:
    graphs = executed_graphs(model)
    places = {op: place for place, op in enumerate(op for graph in graphs for op in graph.ops)}
    for op, place in places.items():
        yield from rules.findings(View(place, op))
    for graph in graphs:
        yield from rules.graph_findings(graph, places)
