"""The API for rewrites: the names that files in `graph_rewrites/` import, and `apply`, which runs them."""

from msd.ir import Build, Graph, Op, Tensor
from msd.ir.densify import densify
from msd.ir.opset import SIDE_EFFECTS
from msd.ir.weights import SMALL, Array, Weights, joined_sources
from msd.prediction.device import ConvSize
from msd.rewrite.driver import (
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
from msd.rewrite.pattern import ANY, Match, Pat, any_op, const, match, op, var
from msd.rewrite.target import Target

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
