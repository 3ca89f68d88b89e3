"""All rewrites on blocks of the real networks."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable

import pytest

import graph_rewrites
from graph_rewrites.feed_timestep_embedding import NAME
from msd.graph.ir import Graph, Signature
from msd.graph.ir.weights import Array
from msd.graph.rewrite import Rewrite, apply
from tests.harness import assert_close, evaluate, feeds_for, fingerprint
from tests.traced_blocks import text_block, unet_block

RULES = graph_rewrites.load()
BLOCKS = {"text": text_block, "unet": unet_block}
TAKEN = {
    *("ADD", "BATCH_MATMUL", "CONV_2D", "EMBEDDING_LOOKUP", "LOGISTIC", "MEAN", "MUL", "RESHAPE"),
    *("RESIZE_NEAREST_NEIGHBOR", "RSQRT", "SOFTMAX", "SPLIT", "SUB", "TRANSPOSE"),
}
"""The operators that may remain; docs/delegates.md lists what delegates take."""


def feeds(graph: Graph) -> dict[str, Array]:
    """Return moderate inputs, and with a timestep also what a caller feeds in its place."""
    fed = feeds_for(graph, scale=1)
    for o in graph.ops:
        if o.kind == "CONCATENATION":
            part = Graph(graph.inputs, o.outputs, graph.ops)
            part.signatures = [Signature("part", {t.name: t for t in graph.inputs}, {"made": o.outputs[0]})]
            fed[NAME] = evaluate(part, feeds_for(graph, scale=1))[0]
    return fed


def run(graph: Graph, fed: dict[str, Array]) -> list[Array]:
    return evaluate(graph, {t.name: fed[t.name] for t in graph.inputs})


@pytest.mark.parametrize("block", BLOCKS.values(), ids=BLOCKS)
@pytest.mark.parametrize("batch", [1, 2])
def test_numbers_stay_and_all_work_is_of_rank_4(block: Callable[[int], Graph], batch: int) -> None:
    graph = block(batch)
    fed = feeds(graph)
    want = run(graph, fed)
    ledger = apply(graph, RULES)
    assert_close(run(graph, fed), want, 1e-5)
    assert {o.kind for o in graph.ops} <= TAKEN
    edges = {*graph.inputs, *graph.outputs}
    lower = [repr(o) for o in graph.ops if any(len(t.shape) != 4 for t in o.outputs if t not in edges)]
    assert all("EMBEDDING_LOOKUP" in text or "tokens" in text for text in lower), lower
    assert ledger.before + sum(e.ops for e in ledger.entries.values()) == ledger.after == len(graph.ops)
    assert not apply(graph, RULES).fired


@pytest.mark.parametrize("block", BLOCKS.values(), ids=BLOCKS)
def test_order_inside_a_phase_does_not_matter(block: Callable[[int], Graph]) -> None:
    ends = []
    for seed in range(5):
        graph, rules = block(1), list(RULES)
        random.Random(seed).shuffle(rules)
        apply(graph, rules)
        ends.append(fingerprint(graph))
    assert all(end == ends[0] for end in ends)


@pytest.mark.parametrize("off", RULES, ids=lambda r: r.name)
def test_with_any_one_switched_off_numbers_stay(off: Rewrite) -> None:
    for block in BLOCKS.values():
        graph = block(1)
        fed = feeds(graph)
        want = run(graph, fed)
        apply(graph, [r for r in RULES if r is not off])
        assert_close(run(graph, fed), want, 1e-5, off.name)


NORMS = Counter({"MEAN": 2, "SUB": 1, "MUL": 2, "RSQRT": 1})
LAYER_NORM = NORMS + Counter({"ADD": 1, "MUL": 2})
GROUP_NORM = NORMS + Counter({"CONV_2D": 4, "MUL": 1})
GELU = Counter({"MUL": 5, "ADD": 1, "LOGISTIC": 1})
ATTENTION = Counter(
    {"BATCH_MATMUL": 2, "SOFTMAX": 1, "SPLIT": 1, "TRANSPOSE": 3, "RESHAPE": 2, "CONV_2D": 2, "ADD": 1}
)
"""With the residual sum. Three projections are one convolution; of a shift before layers nothing is left."""

BECOMES = {
    "text": [LAYER_NORM] * 4
    + [ATTENTION] * 2
    + [GELU, {"CONV_2D": 2, "ADD": 1}]
    # embeddings; the mask; the last shift, which no layer follows
    + [{"EMBEDDING_LOOKUP": 1, "RESHAPE": 2, "ADD": 1}, {"ADD": 1}, {"ADD": 1, "RESHAPE": 1}],
    "unet": [GROUP_NORM] * 3
    + [LAYER_NORM] * 3
    + [ATTENTION] * 2
    + [GELU, {"CONV_2D": 3, "MUL": 1, "ADD": 1}]
    # two silus with their shifts, and that of time; queries from another source than keys and values
    + [{"LOGISTIC": 3, "MUL": 3, "ADD": 2}, {"CONV_2D": 1, "RESHAPE": 1, "TRANSPOSE": 1}]
    # the context and the timestep at rank 4; time's layers and sum; the residual block; around attention
    + [{"RESHAPE": 2}, {"CONV_2D": 2, "ADD": 1}, {"CONV_2D": 3, "ADD": 1}, {"CONV_2D": 2, "ADD": 1}]
    + [{"RESIZE_NEAREST_NEIGHBOR": 1, "CONV_2D": 2}],
}


@pytest.mark.parametrize("name", BLOCKS)
def test_what_the_blocks_become(name: str) -> None:
    """Operator for operator: a rewrite that stops firing shows here."""
    graph = BLOCKS[name]()
    apply(graph, RULES)
    assert Counter(o.kind for o in graph.ops) == sum(map(Counter, BECOMES[name]), Counter())
