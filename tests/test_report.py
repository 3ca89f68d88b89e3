"""The report: what is predicted of real files, its JSON form, what changed between two, and its views."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from msd.errors import BadModelFile, BadReport
from msd.files import schema
from msd.graph import tflite
from msd.graph.ir import Build, Model, Tensor
from msd.graph.prediction.device import find_device, shipped
from msd.graph.prediction.rules.finding import Finding
from msd.measure.report.compare import compare, missing
from msd.measure.report.examine import disagreements, examine
from msd.measure.report.explorer import to_explorer
from msd.measure.report.html import to_html
from msd.measure.report.markdown import to_markdown
from msd.measure.report.report import (
    DelegatePrediction,
    FileReport,
    MemoryEstimate,
    Report,
    dump_report,
    grouped,
    load_report,
)
from tests import tiny_models
from tests.harness import build
from tests.verdicts import rejected, whole_verdict

ADRENO = find_device("adreno-740")
RECORDED = Path(__file__).parent / "recorded"


def found(severity: str = "rejected", op: int = 1, name: str = "t", kind: str = "ADD") -> Finding:
    sentence = f"{kind} at {op}, which makes {name}, is wrong"
    return Finding(op, kind, (name,), severity, "rank", sentence, "align_ranks", "source.cc")  # type: ignore[arg-type]


def report_of(*findings: Finding, file: str = "a/model.tflite", weights: int = 5_000_000) -> Report:
    prediction = DelegatePrediction(
        "litert-gpu", "x", findings, 3, 1, 1, 2, 10, MemoryEstimate(weights, 7, (1, 7, 2))
    )
    return Report(
        "1", (FileReport(file, "ab", 9, 3, {"ADD": 2, "<MUL>": 1}, (prediction,), graphs={"main": 3}),)
    )


@pytest.mark.parametrize(
    ("name", "delegated", "operations", "rejected"),
    [("whole", 3, 3, set()), ("five_dimensions", 4, 6, {"RESHAPE", "SUM"}), ("cut_off", 2, 4, {"GATHER_ND"})],
)
def test_what_the_real_delegate_does_is_predicted(
    name: str, delegated: int, operations: int, rejected: set[str], tmp_path: Path
) -> None:
    report = examine(tiny_models.save(name, tmp_path), ["litert-gpu"], ADRENO)
    (prediction,) = report.predictions
    assert (prediction.delegated, report.operations) == (delegated, operations)
    assert {f.kind for f in prediction.findings if f.severity == "rejected"} == rejected
    assert prediction.partitions == (1 if delegated == operations else 2)
    assert sum(report.kinds.values()) == operations
    assert len(prediction.memory.timeline) == operations


def wide(new: Build, x: Tensor) -> Tensor:
    kernel = new.const([[[[0.0] * 1920] * 3] * 3] * 640)
    return new.CONV_2D(x, kernel, new.const([0.0] * 640), stride_w=1, stride_h=1)


@pytest.mark.parametrize(
    ("size", "device", "delegate", "fails"),
    [
        (32, "adreno-740", "tflite-gpu", True),
        (28, "adreno-740", "tflite-gpu", False),
        (32, "mali-valhall", "tflite-gpu", False),
        (32, "adreno-6xx", "tflite-gpu", False),
    ],
)
def test_the_convolution_that_the_paper_names(
    size: int, device: str, delegate: str, fails: bool, tmp_path: Path
) -> None:
    graph = build(wide, x=(1, size, size, 1920))
    tflite.write(Model([graph]), tmp_path / "conv.tflite")
    (prediction,) = examine(tmp_path / "conv.tflite", [delegate], find_device(device)).predictions
    told = [f for f in prediction.findings if f.severity == "rejected"]
    assert prediction.delegated == (0 if fails else 1)
    assert bool(told) is fails
    for finding in told:
        assert "17280" in finding.sentence
        assert "Winograd" in finding.sentence
        assert "16384" in finding.sentence
        assert finding.fix is not None
        assert "2 slices of the input channels, or 8 of the output channels" in finding.fix


def test_a_run_is_counted_on_each_device(tmp_path: Path) -> None:
    def net(new: Build, x: Tensor) -> Tensor:
        filters = new.const([[[[0.5] * 8]]] * 8)
        y = new.CONV_2D(x, filters, new.const([0.0] * 8), stride_w=1, stride_h=1)
        return new.MUL(y, new.LOGISTIC(y))

    tflite.write(Model([build(net, x=(1, 5, 3, 8))]), tmp_path / "net.tflite")
    report = Report("1", (examine(tmp_path / "net.tflite", ["litert-gpu", "tflite-gpu"], ADRENO),))
    assert [each.release for each in report.files[0].predictions] == ["2.3.0", "litert-2.1.6"]
    for prediction in report.files[0].predictions:
        counted = prediction.traffic
        assert counted is not None
        assert (counted.unfused.dispatches, counted.fused.dispatches) == (3, 1)
        assert counted.unfused.kinds == {"MUL": 720, "CONV_2D": 480, "LOGISTIC": 480}
        assert counted.fused.kinds == {"CONV_2D": 480}
        assert counted.fused.arithmetic == 2 * 120 * 8 + 240
        assert counted.least[0].device == "adreno-740"
        assert {time.device for time in counted.least} == set(shipped())
        unknown = {time.device for time in counted.least if time.unfused is None}
        assert unknown == {"adreno-8xx", "powervr", "swiftshader"}
        assert counted.least[0].fused == pytest.approx((480 + counted.fused.weights) / 67.2e9)
    (tmp_path / "r.json").write_text(dump_report(report))
    assert load_report(tmp_path / "r.json") == report
    for text in (to_markdown(report), to_html(report)):
        assert "3 → 1" in text
        assert "least time on adreno-740" in text
        assert "not known" not in text, "devices without figures are of no use to a reader"
    assert "apple" not in to_markdown(report)
    assert "<details><summary>The least time on other devices" in to_html(report)


def test_a_report_without_counts_is_still_read(tmp_path: Path) -> None:
    report = report_of(found())
    stored = json.loads(dump_report(report))
    del stored["files"][0]["predictions"][0]["traffic"]
    (tmp_path / "old.json").write_text(json.dumps(stored))
    assert load_report(tmp_path / "old.json") == report
    assert "at least" not in to_markdown(report)


def test_what_is_no_model_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.tflite").write_bytes(b"TFL3TFL3TFL3")
    with pytest.raises(BadModelFile):
        examine(tmp_path / "x.tflite", ["litert-gpu"], ADRENO)


def test_json_is_read_as_it_was_written(tmp_path: Path) -> None:
    report = report_of(found(), found("note", 2))
    (tmp_path / "r.json").write_text(dump_report(report))
    assert load_report(tmp_path / "r.json") == report
    value = json.loads(dump_report(report))
    assert next(iter(value)) == "format"
    assert set(schema.document(Report)["required"]) <= set(value)


def test_a_run_is_read_as_it_was_written_and_names_pieces_only_where_there_are_some(tmp_path: Path) -> None:
    (file,) = report_of().files
    one = whole_verdict(rejected=(rejected("ADD", "no"),), psnr_db=None)
    for run in (one, replace(one, pieces=(one, one))):
        report = Report("1", (replace(file, run=run),))
        (tmp_path / "r.json").write_text(dump_report(report))
        assert load_report(tmp_path / "r.json") == report
        stored = json.loads(dump_report(report))["files"][0]["run"]
        assert ("pieces" in stored) is bool(run.pieces)
        assert (stored["ok"], stored["psnr_db"]) == (False, None)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "not JSON"),
        ("[]", "not a report"),
        ('{"format": 99}', "a newer msd is needed"),
        ('{"format": 99, "msd": "2", "files": []}', "a newer msd is needed"),
        ('{"format": 3, "msd": "1", "components": {}}', "not a report of .*: it has other fields"),
        ('{"msd": "1", "files": [{}]}', r"files\[0\] lacks 'file'"),
        ('{"msd": "1", "files": 3}', "not a list"),
    ],
)
def test_what_is_no_report_is_refused(text: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "r.json").write_text(text)
    with pytest.raises(BadReport, match=words):
        load_report(tmp_path / "r.json")
    with pytest.raises(BadReport, match="cannot read"):
        load_report(tmp_path / "none.json")


def test_alike_findings_are_told_once() -> None:
    findings = [found("note", 9), found(op=1, name="a"), found(op=4, name="b"), found("wrong", 2, kind="MUL")]
    groups = grouped(findings)
    assert [(g.severity, g.kind, g.operations) for g in groups] == [
        ("rejected", "ADD", (1, 4)),
        ("wrong", "MUL", (2,)),
        ("note", "ADD", (9,)),
    ]
    assert groups[0].sentence == "ADD at 1, which makes a, is wrong"


def test_changes_are_counted_by_what_findings_say() -> None:
    before = report_of(found(), found("wrong", 2, kind="MUL"))
    after = report_of(found(), found("rejected", 2, kind="POW"), file="b/model.tflite", weights=1)
    (change,) = compare(before, after)
    assert [(said[:2], n) for said, n in change.gained.items()] == [(("rejected", "POW"), 1)]
    assert [(said[:2], n) for said, n in change.lost.items()] == [(("wrong", "MUL"), 1)]
    assert change.weights == (5_000_000, 1)
    assert change.worse
    assert not compare(before, before)[0].worse
    assert not compare(after, report_of(found(), file="model.tflite"))[0].worse


def test_what_only_one_report_has_is_said() -> None:
    one, other = report_of(), report_of(file="other.tflite")
    assert not compare(one, other)
    assert missing(one, other) == [
        "model.tflite for litert-gpu on x: only before",
        "other.tflite for litert-gpu on x: only now",
    ]


def told(*findings: Finding, **run: object) -> tuple[str, ...]:
    (file,) = report_of(*findings).files
    return disagreements(replace(file, run=whole_verdict(**run)))


def test_where_rules_and_delegate_differ() -> None:
    assert told() == ()
    rejections = (rejected("ADD", "no"),)
    assert told(found(), rejected=rejections) == ()
    assert told(rejected=rejections) == ("the delegate rejects ADD (no), which no rule predicts",)
    assert told(rejected=(rejected("DEQUANTIZE", ""),)) == ()  # of float16 constants that it leaves alone
    assert told(found()) == ("the rules reject ADD, which the delegate accepts",)
    assert told(found(), problems=("Validation error",)) == ()  # accepted, and its shader does not compile
    assert told(psnr_db=20.0) == ("the numbers are only 20.0 dB from the CPU's, which no rule predicts",)
    assert told(found("wrong"), psnr_db=20.0) == ()
    spoken = rejected("CUSTOM Spectrogram", "no")
    custom = found(kind="CUSTOM:Spectrogram")
    assert told(custom, rejected=(spoken,)) == ()
    small = "Texture size (…) exceeded maximum texture size (…)."
    words = "an adapter has smaller textures than x; --device names another"
    assert told(psnr_db=20.0, problems=(small,)) == (words,)
    assert told(found(), crashed=True) == ()


class Tags(HTMLParser):
    """Collects what a page holds; fails on tags that do not match."""

    VOID = ("meta",)

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "wbr":
            return  # where a long name may break, and nothing else
        self.seen.append(tag)
        places = [value or "" for name, value in attrs if name in ("src", "href")]
        assert all(place.startswith("#file-") for place in places), "the page needs nothing else"
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def parse(page: str) -> Tags:
    tags = Tags()
    tags.feed(page)
    assert not tags.open
    return tags


def test_the_page_stands_alone_and_shows_it_all() -> None:
    tags = parse(to_html(report_of(found(), found("note", 2))))
    for words in ("a/model.tflite", "3 of 3", "ADD at 1, which makes t, is wrong", "align_ranks", "1 note"):
        assert words in tags.text
    assert {"table", "svg", "style", "script", "details"} <= set(tags.seen)
    assert "No findings." in parse(to_html(report_of(found("note")))).text


def test_the_page_s_verdict_is_of_every_delegate() -> None:
    """Of the real one what it did, of others what the rules say: the command ends with 3 for them too."""
    (file,) = report_of().files
    (own,) = file.predictions
    other = replace(own, delegate="tflite-gpu", delegated=2, findings=(found(),))
    run = whole_verdict(rejected=(), psnr_db=60.0)
    for predictions, count, said in (
        ((own,), 1, "fp32"),
        ((own, other), 0, "fp32, 2 of 3 predicted on tflite-gpu"),
        ((replace(own, findings=(found(),)),), 1, "fp32"),
    ):
        page = to_html(Report("1", (replace(file, run=run, predictions=predictions),)))
        assert f"{count} of 1 file: fully delegated, with the CPU's results." in page
        assert f"{said}</li>" in page


def test_the_page_has_no_plural_of_one() -> None:
    text = parse(to_html(report_of())).text
    assert "1partition" in text
    assert "1partitions" not in text
    assert "3operations" in text


@given(st.text())
def test_names_from_strangers_do_no_harm(name: str) -> None:
    report = report_of(found(name=name, kind=name), file=name)
    plain = parse(to_html(report_of(found(), file="x"))).seen
    assert parse(to_html(report)).seen == plain
    assert json.loads(dump_report(report))["files"][0]["file"] == name
    json.loads(to_explorer(report.files[0], report.files[0].predictions[0]))


def test_markdown_is_a_table_and_what_fails() -> None:
    text = to_markdown(report_of(found(op=1), found(op=2), found("note")))
    rows = text.splitlines()
    assert rows[2].startswith("| a/model.tflite | litert-gpu | x | ✘ 3 of 3 | 1 | 2 rejected, 1 note |")
    assert "| rejected | ADD 2x, first #1 | ADD at 1, which makes t, is wrong | `align_ranks` |" in rows
    assert "✔" in to_markdown(report_of())


def test_a_bar_in_a_name_makes_no_cell() -> None:
    report = report_of(found(kind="A|B"), file="a|b\nc.tflite")
    rows = [line for line in to_markdown(report).splitlines() if line.startswith("|")]
    assert rows[2].startswith(r"| a\|b c.tflite | litert-gpu | x |")
    assert {row.replace(r"\|", "").count("|") for row in rows} == {8, 5}
    assert r"| rejected | A\|B #1 | A\|B at 1, which makes t, is wrong | `align_ranks` |" in rows


def test_model_explorer_colours_each_operation_by_its_worst() -> None:
    (file,) = report_of(found("note", 1), found("wrong", 1), found("note", 2)).files
    data = json.loads(to_explorer(file, file.predictions[0]))
    assert {n: r["value"] for n, r in data["main"]["results"].items()} == {
        "0": "ok",
        "1": "wrong",
        "2": "note",
    }
    assert all(r["bgColor"].startswith("#") for r in data["main"]["results"].values())


@pytest.mark.parametrize("name", ["cut_off", "loop"])
def test_model_explorer_has_a_node_for_each_operation(name: str, tmp_path: Path) -> None:
    """Graphs and nodes as Model Explorer's own adapter for .tflite files named them."""
    recorded = json.loads((RECORDED / "model-explorer-0.2.1.json").read_text("utf-8"))["graphs"][name]
    path = tiny_models.save(name, tmp_path)
    (prediction,) = (file := examine(path, ["litert-gpu"], ADRENO)).predictions
    data = json.loads(to_explorer(file, prediction))
    assert list(data) == list(recorded)
    for graph in tflite.read(path).graphs:
        found = {i: recorded[graph.name][i] for i in data[graph.name]["results"]}
        assert found == {str(i): op.kind.lower() for i, op in enumerate(graph.ops)}


def test_damaged_files_are_reported_or_refused(tmp_path: Path) -> None:
    names = ("two_by_two", "five_dimensions", "cut_off", "conv_int8", "loop", "tokens")
    models, path = [tiny_models.model(name) for name in names], tmp_path / "damaged.tflite"
    refused = 0
    for seed in range(600):
        draw = random.Random(seed)
        data = bytearray(draw.choice(models))
        if draw.random() < 0.2:
            del data[draw.randrange(len(data)) :]
        for _ in range(draw.choice((1, 1, 2, 5, 20)) if data else 0):
            data[draw.randrange(len(data))] = draw.choice((0, 1, 127, 128, 255, draw.randrange(256)))
        path.write_bytes(data)
        try:
            report = Report("1", (examine(path, ["litert-gpu", "tflite-gpu"], ADRENO),))
        except BadModelFile:
            refused += 1
        else:
            assert dump_report(report)
            parse(to_html(report))
    assert 100 < refused < 500


def test_the_schema_in_the_documents_is_this_one() -> None:
    """It is `json.dumps(schema.document(Report))` of msd.measure.report.report."""
    path = Path(__file__).parent.parent / "docs" / "report.schema.json"
    assert json.loads(path.read_text("utf-8")) == schema.document(Report)
