"""Checks of a graph's inputs and outputs, which no operator alone can fail."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from msd.graph.ir import Graph, Op
from msd.graph.prediction.rules.checks import Flaw
from msd.graph.prediction.rules.finding import Severity


@dataclass(frozen=True)
class GraphCheck:
    """A test of a graph, which yields each flaw at the operator beside which it is shown."""

    code: str
    test: Callable[[Graph], Iterator[tuple[Op, Flaw]]]
    severity: Severity
    source: str


def returned_inputs(graph: Graph) -> Iterator[tuple[Op, Flaw]]:
    """No input is an output too; the flaw is at its first reader, else at the first operator."""
    for tensor in graph.inputs:
        if tensor in graph.outputs and graph.ops:
            op = next((op for op, _ in tensor.uses), graph.ops[0])
            clause = (
                f"is in a graph whose input {tensor.name} is an output as well, and then neither it nor what"
                " is computed from it comes back right; return a RESHAPE of it"
            )
            yield op, (clause, (tensor,))
