"""The API for rewrites: the names that files in `graph_rewrites/` import, and `apply`, which runs them."""

from msd.graph.ir import Build, Graph, Op, Tensor
from msd.graph.ir.densify import densify
from msd.graph.ir.opset import SIDE_EFFECTS
from msd.graph.ir.weights import SMALL, Array, Weights, joined_sources
from msd.graph.prediction.device import ConvSize
from msd.graph.rewrite.driver import (
    PHASES,
    GraphPass,
    Ledger,
    Rewrite,
    Rule,
    RuleError,
    Skip,
    apply,
    graph_pass,
    ops_by_kind,
    rule,
    skip,
)
from msd.graph.rewrite.pattern import ANY, Match, Pat, any_op, const, match, op, var
from msd.graph.rewrite.target import Target

__all__ = [
    "ANY",
    "PHASES",
    "SIDE_EFFECTS",
    "SMALL",
    "Array",
    "Build",
    "ConvSize",
    "Graph",
    "GraphPass",
    "Ledger",
    "Match",
    "Op",
    "Pat",
    "Rewrite",
    "Rule",
    "RuleError",
    "Skip",
    "Target",
    "Tensor",
    "Weights",
    "any_op",
    "apply",
    "const",
    "densify",
    "graph_pass",
    "joined_sources",
    "match",
    "op",
    "ops_by_kind",
    "rule",
    "skip",
    "var",
]
