"""The rules of each release of litert-gpu against what it answered, and what changes between releases."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from msd.errors import BadConfig
from msd.graph.ir import Model
from msd.graph.prediction.registry import find_delegate
from msd.graph.prediction.releases import Span
from msd.graph.prediction.rules import Finding, predict
from msd.graph.prediction.rules.view import View
from tests.oracle.ask import Answer
from tests.oracle.case import given, ints, model, op, scalar
from tests.oracle.compare import Compared, every_case
from tests.oracle.table import Reasons, answer_in, cell, read

RECORD = Path(__file__).parent.parent / "docs/results/oracle-by-version.json"
RELEASES, ANSWERED = read(RECORD)
CASES = every_case()
UNEXPLAINED = {"TRANSPOSE_CONV INT64", "MEAN [2, 3, 5, 8] over [3], keep_dims INT16 v1", "PAD of BOOL"}
"""Rejected up to 2.1.6 and loaded by no later runtime; taken by the nightly wheel, and not compared; taken up
to 2.1.6, and not run: between other operations the shader does not compile either."""

F, S = "FLOAT32", (2, 3, 5, 8)


def found(made: Model, release: str) -> list[Finding]:
    return list(predict(made, "litert-gpu", release))


def severities(made: Model, *releases: str) -> list[str]:
    return ["".join(f.severity for f in found(made, release)) for release in releases]


def test_the_record_has_every_release_and_case() -> None:
    assert tuple(RELEASES) == find_delegate("litert-gpu").rules.releases
    assert [name for name, _ in ANSWERED] == [case.name for case in CASES]


@pytest.mark.parametrize("release", RELEASES)
def test_the_rules_of_a_release_agree_with_its_answers(release: str) -> None:
    place = RELEASES.index(release)
    rules = find_delegate("litert-gpu").rules.under(release)
    assert rules.release == release
    every = [
        Compared(case, predict(case.model, "litert-gpu", release), answers[place])
        for case, (_, answers) in zip(CASES, ANSWERED, strict=True)
    ]
    valid = [one for one in every if one.valid]
    assert len(valid) > 2700
    assert {one.case.name for one in valid if not one.agrees} <= UNEXPLAINED


def test_attention_by_the_second_matrix_transposed_is_refused_until_2_1_4() -> None:
    scores = op("BATCH_MATMUL", [given(1, 3, 5, 7), given(1, 3, 6, 7)], ((1, 3, 5, 6), F), adj_y=True)
    assert severities(model(scores), "2.1.2", "2.1.4", "2.1.5", "2.3.0") == ["rejected", "rejected", "", ""]


def test_a_sum_with_the_lower_rank_first_is_wrong_until_2_1_5() -> None:
    low = model(op("ADD", [given(5, 8), given(*S)], (S, F)))
    assert severities(low, "2.1.5", "2.1.6") == ["wrong", ""]
    assert severities(model(op("ADD", [given(*S), given(5, 8)], (S, F))), "2.1.2") == [""]
    assert severities(model(op("SUB", [given(5, 8), given(*S)], (S, F))), "2.1.2") == [""]
    assert severities(model(op("ADD", [given(5, 1), given(*S)], (S, F))), "2.1.2") == [""]


def test_relu_0_to_1_is_of_releases_up_to_2_1_4() -> None:
    clipped = model(op("RELU_0_TO_1", [given(*S)], (S, F)))
    assert severities(clipped, "2.1.4", "2.1.5", "2.3.0", "nightly") == ["", *["rejected"] * 3]


def test_rows_by_constant_indices_came_with_2_3_0() -> None:
    rows = model(op("GATHER", [given(11, 8), ints(1, 3, 2)], ((3, 8), F)))
    assert severities(rows, "2.2.0", "2.3.0") == ["rejected", ""]


def test_types_inside_a_graph_pass_where_those_of_its_interface_do_not() -> None:
    outer = model(op("CAST", [given(*S, dtype="UINT8")], (S, F)))
    made = op("CAST", [given(*S)], (S, "UINT8"))
    inner = model(made, op("CAST", [made.outputs[0]], (S, F)))
    assert severities(outer, "2.1.5", "2.1.6") == ["rejected", ""]
    assert severities(inner, "2.1.5", "2.1.6") == ["", ""]


def test_the_nightly_wheel_checks_no_types_of_the_interface() -> None:
    outer = model(
        op("SPLIT", [scalar(1, "INT32"), given(2, 4, dtype="INT32")], *[((2, 2), "INT32")] * 2, num_splits=2)
    )
    assert severities(outer, "2.3.0", "nightly") == ["rejected", ""]
    made = op("CAST", [given(2, 4)], ((2, 4), "INT32"))
    halves = op("SPLIT", [scalar(1, "INT32"), made.outputs[0]], *[((2, 2), "INT32")] * 2, num_splits=2)
    back = [op("CAST", [half], ((2, 2), F)) for half in halves.outputs]
    assert severities(model(made, halves, *back), "2.3.0", "nightly") == ["rejected", "rejected"]


def test_versions_that_an_older_runtime_lacks_are_rejected() -> None:
    table = {"ADD": 2, "MUL": 4, "SOFTMAX": 2, "CONCATENATION": 2, "SLICE": 2, "TRANSPOSE": 5}
    for kind, newest in table.items():
        (check,) = [
            c for c in find_delegate("litert-gpu").rules.under("2.1.5").rules[kind][:1] if c.code == "version"
        ]
        flaw = check.test(_of_version(kind, newest + 1))
        assert flaw is not None
        assert flaw[0].endswith(f"versions up to {newest} are supported")


def _of_version(kind: str, number: int) -> View:
    return View(0, op(kind, [given(*S)], (S, F), version=number))


def test_a_newer_release_has_the_newest_rules_and_an_older_one_none() -> None:
    rules = find_delegate("litert-gpu").rules
    assert rules.under("9.0.1").release == rules.under("nightly").release == RELEASES[-1]
    assert rules.under("2.1.7").release == "2.1.6"
    with pytest.raises(
        BadConfig, match=r"there are no rules of litert-gpu for 2\.1\.1; there are for 2\.1\.2,"
    ):
        rules.under("2.1.1")
    with pytest.raises(BadConfig, match="new is no version; litert-gpu has rules for"):
        rules.under("new")


def test_a_span_includes_its_ends() -> None:
    inside = [
        release in Span("2.1.5", "2.2.0") for release in ("2.1.4", "2.1.5", "2.2.0", "2.2.1", "nightly")
    ]
    assert inside == [False, True, True, False, False]
    assert "nightly" in Span("2.1.5")


@pytest.mark.parametrize(
    "answer",
    [
        Answer(psnr=math.inf),
        Answer(psnr=12.0),
        Answer(psnr=math.nan),
        Answer((("ADD", "Max: 2."), ("MUL", "No."))),
        Answer(failure="Shape mismatch"),
        Answer(failure="its process crashed with SIGSEGV", crashed=True),
        Answer(reference="Unsupported dtype: int64"),
        Answer(failure="invalid", invalid=True),
    ],
)
def test_an_answer_survives_the_table(answer: Answer) -> None:
    reasons = Reasons()
    back = answer_in(cell(answer, reasons), list(reasons.numbers))
    assert (back.verdict, back.rejected, back.crashed) == (answer.verdict, answer.rejected, answer.crashed)
