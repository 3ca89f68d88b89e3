"""The rules of litert-gpu against the real delegate: a sample of what `make oracle` asks, and its record."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from msd.graph.prediction.registry import delegates
from msd.run.runners.adapter import find
from tests.oracle.ask import Answer, Asker
from tests.oracle.case import Case, given, model, op
from tests.oracle.compare import Compared, compared, every_case

RECORD = Path(__file__).parent.parent / "docs/results/oracle.json"
STEP = 61
"""One case in this many is asked again here."""

CASES = every_case()


@pytest.fixture(scope="module")
def asker() -> Iterator[Asker]:
    with Asker(find()) as asker:
        yield asker


@pytest.mark.parametrize("case", CASES[::STEP], ids=lambda case: case.name)
def test_a_sample_agrees_with_the_real_delegate(case: Case, asker: Asker) -> None:
    found = compared(case, asker.ask(case))
    assert found.agrees or not found.valid, found.to_json()


def test_a_process_that_dies_does_not_take_the_next_case_along(asker: Asker) -> None:
    crashes = next(case for case in CASES if case.name == "SPLIT of a constant")
    assert asker.ask(crashes).crashed
    fine = next(case for case in CASES if case.name == "TANH rank 4")
    assert asker.ask(fine).verdict == "right"


def test_the_record_is_of_these_cases_and_good_enough() -> None:
    record = json.loads(RECORD.read_text("utf-8"))
    assert record["cases"] + record["not_loadable"] == len(CASES)
    assert record["cases"] >= 600
    assert record["agreement"] >= 0.99
    assert record["agree"] == record["cases"] - len(record["disagreements"])


def test_every_kind_with_a_row_has_cases_on_both_sides() -> None:
    """But for a composite, which the delegate cannot be asked about here: it crashes."""
    record = json.loads(RECORD.read_text("utf-8"))["by_kind"]
    for kind in {*delegates()["litert-gpu"].rules.under("2.3.0").rules} - {"STABLEHLO_COMPOSITE"}:
        assert record[kind].get("right", 0) + record[kind].get("wrong", 0) > 0, kind
        assert record[kind].get("rejected", 0) + record[kind].get("failed", 0) > 0, kind


@pytest.mark.parametrize(
    ("answer", "verdict"),
    [
        (Answer((("ABS", "no"),)), "rejected"),
        (Answer(failure="it crashed", crashed=True), "failed"),
        (Answer(failure="tflite/kernels/x.cc", invalid=True), "invalid"),
        (Answer(), "unchecked"),
        (Answer(psnr=20.0), "wrong"),
        (Answer(psnr=float("nan")), "wrong"),
        (Answer(psnr=120.0), "right"),
    ],
)
def test_an_answer_has_a_verdict(answer: Answer, verdict: str) -> None:
    assert answer.verdict == verdict


@pytest.mark.parametrize(
    ("rank", "answer", "agrees"),
    [
        (4, Answer(psnr=120.0), True),
        (4, Answer(psnr=20.0), False),
        (4, Answer((("ABS", "no"),)), False),
        (4, Answer(failure="it crashed"), False),
        (4, Answer(), True),
        (5, Answer((("ABS", "no"),)), True),
        (5, Answer((("TANH", "no"),)), False),
        (5, Answer((("ABS", "no"), ("TANH", "no"))), False),
        (5, Answer((("ABS", "no"), ("DEQUANTIZE", ""))), True),
        (5, Answer(psnr=120.0), False),
        (5, Answer(), False),
        (5, Answer(failure="it crashed"), True),
    ],
)
def test_disagreement_is_seen(rank: int, answer: Answer, agrees: bool) -> None:
    shape = (2,) * rank
    case = Case("ABS", model(op("ABS", [given(*shape)], (shape, "FLOAT32"))))
    assert compared(case, answer).agrees == agrees


def test_both_sides_are_told() -> None:
    case = Case("ABS rank 5", model(op("ABS", [given(*(2,) * 5)], ((2,) * 5, "FLOAT32"))))
    told = Compared(case, compared(case, Answer()).findings, Answer(psnr=20.04)).to_json()
    assert (told["rules"], told["delegate"], told["psnr"]) == ("rejected", "wrong", 20.0)
    assert "fewer than 5 dimensions" in told["findings"][0]
