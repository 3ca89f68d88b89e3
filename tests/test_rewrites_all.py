"""What holds for every rewrite, also for those to come: they are found by being there."""

from __future__ import annotations

import ast
import copy
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import graph_rewrites
from graph_rewrites.feed_timestep_embedding import NAME
from msd.errors import BadModelFile
from msd.graph.ir import Graph, Signature
from msd.graph.ir.weights import Array
from msd.graph.prediction.device import Device
from msd.graph.rewrite import Ledger, Target, apply
from msd.graph.rewrite.spelling import FORMS, spelling_of
from tests.around import RULES, graphs_around
from tests.harness import assert_close, evaluate, feeds_for, fingerprint, interface

FOLDER = Path(graph_rewrites.__file__).parent
FILES = sorted(p for p in FOLDER.glob("*.py") if p.name != "__init__.py")
TESTS = Path(__file__).parent / "rewrites"


class EverythingLarge(dict[str, float]):
    """Measurements in which all that a trace names has squares beyond float16."""

    def __contains__(self, name: object) -> bool:
        return "~" not in str(name)

    def get(self, name: str, default: Any = None) -> Any:
        return {True: 3000.0}.get(name in self, default)

    def __getitem__(self, name: str) -> float:
        return 3000.0


TARGET = Target(Device("small", image2d_height=20, winograd_tiles=1000), largest=EverythingLarge())
"""On this device 3x3 convolutions of more than 8 channels are too large, so that they are serialised."""

SPELLINGS = st.fixed_dictionaries({construct: st.sampled_from(forms) for construct, forms in FORMS.items()})

EXAMPLES = 25
LEFT_OUT = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]


PLACEABLE = [n for n in RULES if not n.startswith(("trust_index", "use_embedding", "feed_timestep"))]
"""Those that look for work on floats, which may stand upon what another looks for."""

SETS = st.just(set(RULES)) | st.sets(st.sampled_from(list(RULES)))
"""All rewrites, or any of them: people may switch them off."""


def target_with(forms: dict[str, str], name: str) -> Target:
    """Return the target with these forms, but for that which the rewrite called `name` writes."""
    spells = RULES[name].spells
    spelled = dict([spells]) if spells else {}
    return replace(TARGET, spelling=spelling_of("drawn", {**forms, **spelled}))


def explore(examples: int) -> settings:
    return settings(max_examples=examples, derandomize=True, database=None, suppress_health_check=LEFT_OUT)


def numbers(graph: Graph, feeds: dict[str, Array]) -> list[Array]:
    """Return the outputs; a graph that LiteRT refuses, or whose numbers overflow, is left out.

    So is one that returns a DENSIFY: LiteRT 2.3.0 fills it for its readers, and returns other memory.
    """
    assume(not any(op.kind == "DENSIFY" and op.outputs[0] in graph.outputs for op in graph.ops))
    try:
        results = evaluate(graph, fed(graph, feeds))
    except BadModelFile:
        assume(False)
    assume(all(np.isfinite(r).all() for r in results))
    return results


def fed(graph: Graph, feeds: dict[str, Array]) -> dict[str, Array]:
    return {t.name: feeds[t.name] for t in graph.inputs}


def sinusoids(graph: Graph, feeds: dict[str, Array]) -> dict[str, Array]:
    """Return what a caller feeds in place of a timestep: what the graph itself makes of it."""
    made = [t for o in graph.ops if o.kind == "CONCATENATION" for t in o.outputs][:1]
    if not made:
        return {}
    part = Graph(graph.inputs, made, graph.ops)
    part.signatures = [Signature("part", {t.name: t for t in graph.inputs}, {"made": made[0]})]
    return {NAME: numbers(part, feeds)[0]}


def fired(ledger: Ledger, name: str) -> int:
    return ledger.entries[name].fired if name in ledger.entries else 0


@pytest.mark.parametrize("name", RULES)
def test_meaning_interface_and_accounts_are_kept(name: str) -> None:
    """Any rewrites in any order: the same numbers and interface, every operator accounted for, an end."""
    exercised = 0

    @explore(EXAMPLES)
    @given(graphs_around(name, PLACEABLE), SETS, SPELLINGS, st.randoms(use_true_random=False))
    def run(graph: Graph, others: set[str], forms: dict[str, str], shuffler: random.Random) -> None:
        nonlocal exercised
        names = sorted({name, *others})
        shuffler.shuffle(names)
        feeds, ports, before = feeds_for(graph, scale=4), interface(graph), str(graph)
        want = numbers(graph, feeds)
        feeds |= sinusoids(graph, feeds)
        ledger = apply(graph, [RULES[n] for n in names], target_with(forms, name))
        exercised += bool(fired(ledger, name))
        text = f"\n{before}\n=> {names}\n{graph}"
        assert_close(evaluate(graph, fed(graph, feeds)), want, 1e-4, text)
        assert fired(ledger, "feed_timestep_embedding") or interface(graph) == ports, text
        total = ledger.before + sum(e.ops for e in ledger.entries.values())
        assert total == ledger.after == len(graph.ops), text

    run()
    assert exercised >= EXAMPLES // 6, f"only {exercised} of {EXAMPLES} graphs exercised {name}"


@pytest.mark.parametrize("name", RULES)
def test_order_inside_a_phase_does_not_matter(name: str) -> None:
    @explore(EXAMPLES)
    @given(graphs_around(name, PLACEABLE), SPELLINGS, st.randoms(use_true_random=False))
    def run(graph: Graph, forms: dict[str, str], shuffler: random.Random) -> None:
        target = target_with(forms, name)
        one, two = graph, copy.deepcopy(graph)
        before, shuffled = str(graph), list(RULES)
        shuffler.shuffle(shuffled)
        apply(one, list(RULES.values()), target)
        apply(two, [RULES[n] for n in shuffled], target)
        text = f"\n{before}\n=>\n{one}\n=> {shuffled}\n{two}"
        assert fingerprint(one) == fingerprint(two), text

    run()


@pytest.mark.parametrize("name", RULES)
def test_a_second_run_finds_nothing_to_do(name: str) -> None:
    """But for what stood behind duplicates: phases run once, and the last one merges those."""

    @explore(EXAMPLES)
    @given(graphs_around(name), SPELLINGS)
    def run(graph: Graph, forms: dict[str, str]) -> None:
        before, target = str(graph), target_with(forms, name)
        first = apply(graph, list(RULES.values()), target)
        again = apply(graph, list(RULES.values()), target).fired
        assert not again or fired(first, "merge_duplicates"), f"\n{before}\n=>\n{graph}"

    run()


def refusals(path: Path) -> Iterator[str]:
    """Yield the text of each `skip` in a file; of a formatted one the longest part that is always there."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "skip":
            text = node.args[0]
            parts = text.values if isinstance(text, ast.JoinedStr) else [text]
            yield max((str(p.value) for p in parts if isinstance(p, ast.Constant)), key=len).strip()


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_every_file_has_its_test_and_every_refusal_is_tested(path: Path) -> None:
    test = TESTS / f"test_{path.name}"
    assert test.exists(), f"graph_rewrites/{path.name} needs tests/rewrites/{test.name}"
    text = test.read_text()
    for refusal in refusals(path):
        assert refusal in text, f'tests/rewrites/{test.name} needs a refusal with skip("{refusal}")'


def test_every_test_has_its_file() -> None:
    assert {p.name for p in TESTS.glob("test_*.py")} == {f"test_{p.name}" for p in FILES}


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_rewrites_import_nothing_of_the_engine_but_msd_rewrite(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            assert (
                not (node.module or "").startswith(("msd", "graph_rewrites"))
                or node.module == "msd.graph.rewrite"
            )
