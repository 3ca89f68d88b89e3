"""The conditions that end `delegation-report` with exit code 3, beside the findings of single operations."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from msd.graph import tflite
from msd.measure.report.compare import compare, is_worse, missing
from msd.measure.report.html import to_html
from msd.measure.report.markdown import to_markdown
from msd.measure.report.report import Audit, OutOfRange, Report
from tests import tiny_models
from tests.test_cli_report import call
from tests.test_report import found, report_of
from tests.verdicts import whole_verdict


@pytest.fixture
def without_operations(tmp_path: Path) -> Path:
    model = tflite.read(tiny_models.save("whole", tmp_path))
    model.main.ops.clear()
    model.main.outputs[:] = model.main.inputs
    for signature in model.main.signatures:
        signature.outputs = dict(zip(signature.outputs, model.main.outputs, strict=True))
    tflite.write(model, tmp_path / "empty.tflite")
    return tmp_path / "empty.tflite"


def test_a_file_without_operations_has_nothing_to_delegate(
    without_operations: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    result = call("--no-run", without_operations)
    assert result.exit_code == 3
    assert "✘  empty.tflite  litert-gpu, adreno-740  no operation that a GPU could run" in result.stdout
    assert "✔" not in result.stdout
    assert result.stderr.endswith("Exit code 3 for: rejected.\n")
    assert (
        "| ✘ no operation that a GPU could run |"
        in call("--no-run", "--format", "markdown", without_operations).stdout
    )
    assert "0 of 1 file:" in call("--no-run", "--format", "html", without_operations).stdout


def files(*reports: Report) -> Report:
    return replace(reports[0], files=tuple(file for report in reports for file in report.files))


def run(report: Report, **verdict: object) -> Report:
    return replace(report, files=tuple(replace(file, run=whole_verdict(**verdict)) for file in report.files))


def audited(*tensors: str) -> Report:
    rows = tuple(OutOfRange(n, "ADD", name, "overflow", 7e4, None) for n, name in enumerate(tensors))
    (file,) = report_of().files
    return replace(report_of(), files=(replace(file, audit=Audit("random numbers", 1, 3, rows)),))


def test_a_file_that_is_new_and_fails_is_worse() -> None:
    before = report_of()
    assert not is_worse(before, files(before, report_of(file="b/new.tflite")))
    assert is_worse(before, files(before, report_of(found(), file="b/new.tflite")))
    assert is_worse(report_of(file="another.tflite"), report_of(found()))
    assert not is_worse(files(before, report_of(found(), file="b/gone.tflite")), before)


def test_files_of_one_name_are_compared_each_with_its_own() -> None:
    """The folders above those that tell them apart may be others, as on another machine of CI."""
    before = files(report_of(file="/one/a/unet.tflite"), report_of(found(), file="/one/b/unet.tflite"))
    after = files(report_of(found(), file="/two/a/unet.tflite"), report_of(file="/two/b/unet.tflite"))
    assert not is_worse(before, before)
    assert [(change.file, len(change.gained), len(change.lost)) for change in compare(before, after)] == [
        ("/two/a/unet.tflite", 1, 0),
        ("/two/b/unet.tflite", 0, 1),
    ]
    assert is_worse(before, after)
    assert missing(before, report_of(file="/two/c/unet.tflite")) == [
        "a/unet.tflite for litert-gpu on x: only before",
        "b/unet.tflite for litert-gpu on x: only before",
        "c/unet.tflite for litert-gpu on x: only now",
    ]


def test_a_run_that_fails_where_it_did_not_is_worse() -> None:
    good, off, cut = run(report_of()), run(report_of(), psnr_db=20.0), run(report_of(), delegated=1)
    assert [is_worse(good, each) for each in (good, off, cut)] == [False, True, True]
    assert [is_worse(off, each) for each in (good, off, cut)] == [False, False, True]
    assert not is_worse(report_of(), off)


def test_an_overflow_that_was_not_there_is_worse() -> None:
    assert [is_worse(audited("a"), audited(*names)) for names in ((), ("a",), ("a", "b"))] == [
        False,
        False,
        True,
    ]
    assert not is_worse(report_of(), audited("a"))


def test_a_finding_whose_operation_moved_is_the_same() -> None:
    sentence = "ADD at {}, which makes {}, is wrong"
    one, other = (
        replace(found(op=n, name=t), sentence=sentence.format(n, t)) for n, t in ((1, "t"), (2, "u"))
    )
    assert not is_worse(report_of(one), report_of(other))
    (change,) = compare(report_of(one), report_of(one, other))
    assert [(said[3], n) for said, n in change.gained.items()] == [("ADD is wrong", 1)]


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (("--no-run", "--fail-on", "rejected,run"), "run asks the real delegate, which --no-run leaves out"),
        (("--no-run", "--fail-on", "disagreement"), "disagreement asks the real delegate, which --no-run"),
        (("--no-run", "--fail-on", "audit"), "--fail-on audit is for --audit-fp16"),
    ],
)
def test_what_nothing_looks_for_is_refused(options: tuple[str, ...], why: str, tmp_path: Path) -> None:
    result = call(*options, tiny_models.save("whole", tmp_path))
    assert (result.exit_code, why in result.stderr) == (2, True)


def test_what_changed_is_said_beside_json(tmp_path: Path) -> None:
    model, before = tmp_path / "model.tflite", tmp_path / "before.json"
    shutil.copy(tiny_models.save("whole", tmp_path), model)
    call("--no-run", "--json", "-o", before, model)
    shutil.copy(tiny_models.save("cut_off", tmp_path), model)
    result = call("--no-run", "--json", "--diff", before, "--fail-on", "worse", model)
    assert (result.exit_code, json.loads(result.stdout)["failed"]) == (3, ["worse"])
    assert "+ 1x rejected GATHER_ND" in result.stderr


@pytest.mark.parametrize("view", [to_markdown, to_html])
def test_every_view_says_what_fails(view: Callable[[Report], str]) -> None:
    """The rules find nothing, the real delegate's numbers are wrong, and float16 does not hold a result."""
    (file,) = run(audited("sum"), psnr_db=20.0).files
    text = view(replace(report_of(), files=(file,), failed=("run", "audit")))
    assert "a/model.tflite: ADD #0 sum overflows float16: 7e+04" in text
    assert "has a PSNR of only 20.0 dB against the CPU" in text
    assert "Exit code 3 for: run, audit." in text
    assert "Exit code" not in view(report_of())


def test_a_run_has_a_tick_of_its_own_in_markdown() -> None:
    assert "on the real delegate: ✘ 3 of 3 operations" in to_markdown(run(report_of(), psnr_db=20.0))
    assert "on the real delegate: ✔ 3 of 3 operations" in to_markdown(run(report_of()))
