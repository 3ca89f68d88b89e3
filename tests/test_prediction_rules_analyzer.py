"""The rules of tflite-gpu are never more lenient than TensorFlow's Analyzer.

It reads the same source as the delegate, offline, and with the more lenient rule for broadcasting. What it
said of the oracle's cases is recorded (`scripts/lab/analyzer.py`), for from 2.18 on it lacks the check.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from msd.graph.prediction.rules import Finding, predict
from tests.oracle.case import Case
from tests.oracle.compare import every_case

RECORD = json.loads((Path(__file__).parent / "recorded/analyzer-2.15.1.json").read_text("utf-8"))
CHANGES = json.loads((Path(__file__).parent / "recorded/analyzer-changes.json").read_text("utf-8"))
EXPLAINED = {
    "Not supported op UNPACK": "the delegate's parser of UNPACK never asks the file that says so",
    "Not supported op RELU_0_TO_1": "nor does that of RELU_0_TO_1, which came with LiteRT 2.1.0",
    "MUL requires one tensor that not less than second in all dimensions.": "gone from later releases",
    "depth_multiplier != 1 && input.c != 1": "gone from later releases",
}
"""Reasons that the delegate itself does not have."""


@pytest.fixture(scope="module")
def cases() -> dict[str, list[Case]]:
    every: dict[str, list[Case]] = {}
    for case in every_case():
        every.setdefault(case.name, []).append(case)
    return every


def is_explained(reason: str, case: Case) -> bool:
    """Whether the delegate is right to differ: an empty constant is one only for who reads its buffer."""
    empty = any(t.data is not None and not t.size for op in case.model.main.ops for t in op.operands)
    return reason in EXPLAINED or empty


def test_what_the_analyzer_warns_of_is_rejected(cases: dict[str, list[Case]]) -> None:
    lenient = []
    for name, places, reason in RECORD["warned"]:
        for case in cases[name]:
            found = {f.op for f in predict(case.model, "tflite-gpu") if f.severity in ("rejected", "unknown")}
            if not set(places) <= found and not is_explained(reason, case):
                lenient.append((name, reason))
    assert lenient == []
    assert len(RECORD["warned"]) > 400


def test_the_rules_see_more_than_the_analyzer(cases: dict[str, list[Case]]) -> None:
    warned = {name for name, _, _ in RECORD["warned"]}
    quiet = [case for name, every in cases.items() for case in every if name not in warned]
    seen = [c for c in quiet if any(f.severity == "rejected" for f in predict(c.model, "tflite-gpu"))]
    assert len(seen) > len(quiet) / 4


@pytest.mark.parametrize("reason", EXPLAINED)
def test_every_exception_is_needed(reason: str) -> None:
    assert any(reason == why for _, _, why in RECORD["warned"])


@pytest.mark.parametrize(
    ("change", "before", "after"),
    [("2.14.1 lacks, 2.15.1 and 2.16.2 have", "2.14", "2.15"), ("2.16.2 lacks, 2.17.1 has", "2.16", "2.17")],
)
def test_what_a_release_began_to_reject_is_rejected_from_it_on(
    cases: dict[str, list[Case]], change: str, before: str, after: str
) -> None:
    assert CHANGES[change]
    for name, places, reason in CHANGES[change]:
        for case in cases[name]:
            old, new = (
                {f.op for f in predict(case.model, "tflite-gpu", release) if _broadcast(f)}
                for release in (before, after)
            )
            assert set(places) <= new, (name, reason)
            assert not set(places) & old, (name, reason)


def _broadcast(found: Finding) -> bool:
    return (found.severity, found.code) == ("rejected", "broadcast")


@pytest.mark.parametrize("release", ["2.14", "2.15", "2.16", "2.17"])
def test_up_to_2_17_only_unpack_is_taken_against_the_analyzer(
    cases: dict[str, list[Case]], release: str
) -> None:
    lenient = set()
    for name, places, reason in RECORD["warned"]:
        for case in cases[name]:
            found = predict(case.model, "tflite-gpu", release)
            rejected = {f.op for f in found if f.severity in ("rejected", "unknown")}
            if not set(places) <= rejected and is_explained(reason, case):
                lenient.add(reason)
    assert lenient & {*EXPLAINED} == {"Not supported op UNPACK"}
