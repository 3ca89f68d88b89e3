"""Predicts a delegate's treatment of a model by its rules."""

from __future__ import annotations

from collections.abc import Iterator

from msd.errors import BadConfig
from msd.ir import Model
from msd.ir.executed_graphs import executed_graphs
from msd.prediction.rules.finding import Finding
from msd.prediction.rules.litert_gpu import LITERT_GPU
from msd.prediction.rules.ruleset import RuleSet
from msd.prediction.rules.tflite_gpu import TFLITE_GPU
from msd.prediction.rules.view import View

RULE_SETS: dict[str, RuleSet] = {rules.name: rules for rules in (LITERT_GPU, TFLITE_GPU)}


def predict(model: Model, delegate: str) -> tuple[Finding, ...]:
    """Return the findings for the delegate `litert-gpu` or `tflite-gpu`, in the file's order.

    The rules check every operator of every graph that runs. An operator without a finding is supported, and
    right as far as the rules know. Raises BadConfig for any other delegate.
    """
    rules = RULE_SETS.get(delegate)
    if rules is None:
        raise BadConfig(
            f"there are no rules for the delegate {delegate}; there are for {', '.join(RULE_SETS)}"
        )
    return tuple(_findings(model, rules))


def _findings(model: Model, rules: RuleSet) -> Iterator[Finding]:
    ops = [op for graph in executed_graphs(model) for op in graph.ops]
    for place, op in enumerate(ops):
        yield from rules.findings(View(place, op))
