"""What a delegate makes of a model, by the rules."""

from __future__ import annotations

from collections.abc import Iterator

from msd.ir import Model
from msd.ir.executed import executed
from msd.prediction.registry import find_delegate
from msd.prediction.rules.finding import Finding
from msd.prediction.rules.ruleset import RuleSet
from msd.prediction.rules.view import View


def predict(model: Model, delegate: str) -> tuple[Finding, ...]:
    """Return what the delegate of that name rejects or gets wrong, in the file's order.

    Every operation of every graph that runs is looked at. One without a finding is taken, and right as far
    as the rules know. Raises BadConfig for a delegate without rules.
    """
    return tuple(_findings(model, find_delegate(delegate).rules))


def _findings(model: Model, rules: RuleSet) -> Iterator[Finding]:
    ops = [op for graph in executed(model) for op in graph.ops]
    for place, op in enumerate(ops):
        yield from rules.findings(View(place, op))
