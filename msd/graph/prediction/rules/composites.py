"""Tests of STABLEHLO_COMPOSITE, which stands for the graph that says what it computes."""

from __future__ import annotations

from msd.graph.ir.executed_graphs import composite_name
from msd.graph.prediction.arithmetic import ATTENTION
from msd.graph.prediction.rules.checks import Flaw
from msd.graph.prediction.rules.view import View, shape_text


def composite_unknown(view: View) -> Flaw | None:
    """The composite is one that rules here decide."""
    if composite_name(view.op) == ATTENTION:
        return None
    return "is known to litert-gpu, but no rule here says when it is supported", view.operands


def attention_misshapen(view: View) -> Flaw | None:
    """Keys and values have one shape, of the queries' width; a mask is as long as there are keys."""
    queries, keys, values, *masks = view.operands
    if keys.shape != values.shape or len(queries.shape) > 4 or queries.shape[-1:] != keys.shape[-1:]:
        shapes = ", ".join(shape_text(tensor.shape) for tensor in (queries, keys, values))
        clause = f"reads queries, keys and values of {shapes}; keys and values must be alike, all as wide"
        return clause, view.operands
    if any(mask.shape[-1] != keys.shape[-3] for mask in masks):
        return "has a mask of another length than its keys", tuple(masks)
    return None


def composite_unproved(view: View) -> Flaw | None:
    """Nothing has run it: the source takes it, LiteRT's GPU library for Linux crashes on it."""
    clause = (
        "is what the source's parser reads, but no phone has run it, and LiteRT's GPU library for Linux"
        " crashes on it"
    )
    return clause, ()
