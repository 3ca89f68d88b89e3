"""Faults of real phones: what descriptions must say, which files they concern, what a report shows."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from msd.cli.report import report as command
from msd.errors import BadConfig
from msd.files import schema
from msd.graph import tflite
from msd.graph.ir import Build, Graph, Model, Op, Quant, Tensor
from msd.graph.ir.weights import Weights
from msd.graph.prediction.device import Device, find_device
from msd.graph.prediction.fault_patterns import PATTERNS
from msd.graph.prediction.faults import (
    FOLDER,
    Fault,
    driver_faults,
    faults,
    read_fault,
    reported_findings,
)
from msd.graph.prediction.rules import predict
from msd.measure.judging import judge
from msd.measure.report.examine import examine, reported_faults
from msd.measure.report.html import to_html
from msd.measure.report.markdown import to_markdown
from msd.measure.report.report import Report, dump_report
from tests import tiny_models
from tests.harness import build
from tests.json_schema import violations

SENSIBLE = """
title = "A fault"
gpus = ["mali-valhall"]
seen_on = "a phone"
software = "LiteRT"
versions = ["2.1.5"]
delegates = ["litert-gpu"]
operation = "ADD"
happens = "it computes something else"
remedy = "do without it"
source = "https://example.org/1"
reported = 2026-07-10
"""


def described(tmp_path: Path, text: str = SENSIBLE, **changes: str) -> Path:
    """Write the description with some keys replaced by TOML values, or left out where they are empty."""
    lines = [line for line in text.strip().splitlines() if line.partition(" ")[0] not in changes]
    lines += [f"{key} = {value}" for key, value in changes.items() if value]
    path = tmp_path / "mine.toml"
    path.write_text("\n".join(lines) + "\n", "utf-8")
    return path


def named(name: str) -> Fault:
    return read_fault(FOLDER / f"{name}.toml")


def numbers(*shape: int) -> Weights:
    return Weights.of(np.random.default_rng(3).normal(size=shape).astype(np.float32))


def integer_layer(*shape: int) -> Model:
    """ADD(x, FULLY_CONNECTED(x)) with int8 weights, a scale for each row."""
    width = shape[-1]
    quant = Quant(np.full(width, 0.01, np.float32), np.zeros(width, np.int64), 0)
    values = np.random.default_rng(5).integers(-100, 100, (width, width)).astype(np.int8)
    x, w = Tensor("x", shape), Tensor("w", (width, width), "INT8", Weights.of(values), quant)
    b, y, s = Tensor("b", (width,), data=numbers(width)), Tensor("y", shape), Tensor("s", shape)
    layer = Op("FULLY_CONNECTED", [x, w, b], [y], {"keep_num_dims": True}, version=9)
    return Model([Graph([x], [s], [layer, Op("ADD", [x, y], [s])])])


def sum_returned_and_read() -> Model:
    x, z, new = Tensor("x", (1, 3, 5, 8)), Tensor("z", (1, 3, 5, 8)), Build("t")
    total = new.ADD(x, z)
    result = new.LOGISTIC(total)
    return Model([Graph([x, z], [total, result], new.ops)])


def test_every_description_is_read_and_names_a_public_report() -> None:
    assert len(faults()) >= 25
    for fault in faults():
        assert fault.source.startswith("https://")
        assert date(2017, 1, 1) < date.fromisoformat(fault.reported) <= date(2026, 11, 28)
        assert len({fault.happens, fault.remedy, fault.title, fault.seen_on}) == 4
    assert len({(fault.source, fault.title) for fault in faults()}) == len(faults())
    used = {fault.pattern for fault in faults()} - {""}
    assert used == set(PATTERNS), "a pattern that no fault names is dead"


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"colour": '"red"'}, "unknown key 'colour'"),
        ({"versoins": '["2.1"]'}, "unknown key 'versoins'; did you mean versions?"),
        ({"title": ""}, "lacks 'title'"),
        ({"happens": "3"}, "happens is 3, not of type string"),
        ({"versions": '["2.1.3, 2.1.5"]'}, "'2.1.3, 2.1.5' is no version; write one such as '2.1.5'"),
        ({"versions": '[">=2.1"]'}, "'>=2.1' is no version"),
        ({"versions": '"2.1"'}, "versions is str, not a list"),
        ({"fixed_in": '"soon"'}, "'soon' is no version"),
        ({"gpus": '["mali-valhal"]'}, "gpus has 'mali-valhal'; there are adreno-6xx"),
        ({"gpus": "[]"}, "gpus is empty"),
        ({"delegates": '["gpu"]'}, "delegates has 'gpu'; there are litert-gpu"),
        ({"operation": '"ADDD"'}, "operation: no TFLite op named 'ADDD'; did you mean ADD?"),
        ({"pattern": '"somewhere"'}, "pattern has 'somewhere'; there are returned-and-read"),
        ({"operation": ""}, "delegates go with an operation or a pattern"),
        ({"delegates": ""}, "delegates go with an operation or a pattern"),
        ({"source": '"a forum"'}, "source is 'a forum'; a public address"),
        ({"reported": '"last year"'}, "reported is 'last year'; a day such as 2026-07-10"),
    ],
)
def test_a_description_that_makes_no_sense_is_refused(
    tmp_path: Path, changes: dict[str, str], sentence: str
) -> None:
    with pytest.raises(BadConfig, match=r"mine\.toml") as refused:
        read_fault(described(tmp_path, **changes))
    assert sentence in str(refused.value)


def test_what_is_no_toml_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text("title = ", "utf-8")
    with pytest.raises(BadConfig, match="not the description of a fault"):
        read_fault(tmp_path / "mine.toml")


def test_a_sensible_description_is_read(tmp_path: Path) -> None:
    fault = read_fault(described(tmp_path, fixed_in='"2.2.0"'))
    assert (fault.versions, fault.reported, fault.pattern) == (("2.1.5",), "2026-07-10", "")
    assert fault.sentence == (
        "it computes something else (LiteRT 2.1.5, better in 2.2.0; a phone); do without it"
        " (reported, not measured by msd: https://example.org/1, 2026-07-10)"
    )


def findings(model: Model, delegate: str, device: str) -> list[tuple[int, str]]:
    return [(f.op, f.source) for f in reported_findings(model, delegate, find_device(device))]


def test_the_gpu_and_the_delegate_decide() -> None:
    model, issue = integer_layer(2, 5, 16), named("litert-9277-add-behind-int8-layer").source
    assert findings(model, "litert-gpu", "mali-valhall") == [(1, issue)]
    assert findings(model, "litert-gpu", "adreno-740") == []
    assert findings(model, "tflite-gpu", "mali-valhall") == []
    assert findings(integer_layer(5, 16), "litert-gpu", "mali-valhall") == [], "of rank 2"
    assert findings(integer_layer(1, 2, 5, 16), "litert-gpu", "mali-valhall") == [], "of rank 4"


@pytest.mark.parametrize(
    ("release", "warns"),
    [(None, True), ("2.1.3", False), ("2.1.4", False), ("2.1.5", True), ("2.3.0", True), ("nightly", True)],
)
def test_a_release_before_the_fault_is_not_warned_of(release: str | None, warns: bool) -> None:
    """LiteRT 2.1.3 accepted RELU_0_TO_1, says issue 8598; of the first release with it the rules tell too."""
    graph = build(lambda new, x: new.RELU(x), x=(1, 2, 3, 4))
    graph.ops[0].kind = "RELU_0_TO_1"
    found = reported_findings(Model([graph]), "litert-gpu", find_device("adreno-740"), release)
    assert [f.source for f in found] == [named("litert-8598-relu-0-to-1").source] * warns


def test_a_phone_by_its_name_has_its_gpus_faults() -> None:
    assert driver_faults(find_device("Pixel 9")) == driver_faults(find_device("mali-valhall")) != ()
    assert {f.title for f in driver_faults(Device("mine"))} == {
        f.title for f in faults() if "any" in f.gpus and not f.delegates
    }


def test_a_sum_that_is_an_output_and_read() -> None:
    model = sum_returned_and_read()
    assert findings(model, "litert-gpu", "swiftshader") == [
        (0, named("litert-8599-add-returned-and-read").source)
    ]
    assert findings(model, "tflite-gpu", "apple") == [(0, named("tf-57211-returned-and-read").source)]
    model.main.outputs = model.main.outputs[1:]
    assert findings(model, "litert-gpu", "swiftshader") == []


def attention(*lead: int) -> Model:
    new = Build("t")
    q, k, v = (Tensor(name, (*lead, 6, 4)) for name in "qkv")
    scores = new.SOFTMAX(new.BATCH_MATMUL(q, k, adj_y=True), beta=1.0)
    return Model([Graph([q, k, v], [new.BATCH_MATMUL(scores, v)], new.ops)])


def test_attention_of_rank_three() -> None:
    assert [op for op, _ in findings(attention(3), "litert-gpu", "mali-valhall")] == [2]
    assert findings(attention(1, 3), "litert-gpu", "mali-valhall") == []
    assert [op for op, _ in findings(attention(3), "tflite-gpu", "adreno-8xx")] == [2]


def convolution(batch: int, activation: str) -> Model:
    x, w, b = Tensor("x", (batch, 4, 5, 3)), numbers(6, 3, 3, 3), numbers(6)
    new = Build("t")
    steps = {"stride_w": 1, "stride_h": 1, "padding": "SAME", "fused_activation_function": activation}
    y = new.CONV_2D(x, new.const(w), new.const(b), **steps)
    return Model([Graph([x], [y], new.ops)])


@pytest.mark.parametrize(("batch", "activation", "count"), [(5, "RELU", 1), (1, "RELU", 0), (5, "NONE", 0)])
def test_a_convolution_of_several_images(batch: int, activation: str, count: int) -> None:
    assert len(findings(convolution(batch, activation), "tflite-gpu", "adreno-6xx")) == count


def returns_its_input() -> Model:
    x, new = Tensor("x", (1, 3, 5, 8)), Build("t")
    return Model([Graph([x], [new.LOGISTIC(x), x], new.ops)])


def test_an_input_that_is_an_output_is_wrong_on_the_real_delegate(tmp_path: Path) -> None:
    """Measured with ai-edge-litert 2.3.0; a RESHAPE of the input comes back right."""
    found = [f for f in predict(returns_its_input(), "litert-gpu") if f.severity == "wrong"]
    assert [(f.op, f.kind, f.code, f.tensors) for f in found] == [(0, "LOGISTIC", "interface", ("x",))]
    assert "return a RESHAPE of it" in found[0].sentence
    assert predict(returns_its_input(), "tflite-gpu") == ()
    tflite.write(returns_its_input(), tmp_path / "returned.tflite")
    verdict = judge(tmp_path / "returned.tflite")
    assert verdict.fully_delegated
    assert all(d.psnr < 30 for d in verdict.outputs)

    mended = returns_its_input()
    copied = Build("c").RESHAPE(mended.main.inputs[0], [1, 3, 5, 8])
    mended.main.ops.append(copied.maker)
    mended.main.outputs[1] = copied
    assert predict(mended, "litert-gpu") == ()
    tflite.write(mended, tmp_path / "copied.tflite")
    assert judge(tmp_path / "copied.tflite").ok


@pytest.mark.parametrize("model", [sum_returned_and_read, lambda: integer_layer(2, 5, 16)])
def test_what_phones_get_wrong_is_right_here(tmp_path: Path, model: Any) -> None:
    """Why these are data and no rules: LiteRT 2.3.0 on the adapter of this machine computes them right."""
    tflite.write(model(), tmp_path / "m.tflite")
    assert judge(tmp_path / "m.tflite").ok


def reported_file(tmp_path: Path) -> Path:
    tflite.write(integer_layer(2, 5, 16), tmp_path / "layer.tflite")
    return tmp_path / "layer.tflite"


def test_the_command_warns_beside_the_operation(tmp_path: Path) -> None:
    arguments = [str(reported_file(tmp_path)), "--device", "mali-valhall"]
    for more in ([], ["--no-run"], ["--no-run", "-v"]):
        result = CliRunner().invoke(command, [*arguments, *more])
        flat = " ".join(result.stdout.split())
        assert result.exit_code == 0, result.output
        assert "reported" in flat
        assert "not measured by msd" in flat
        assert "LiteRT 2.1.3, 2.1.5" in flat
        assert ("Reported of this GPU, not measured by msd:" in flat) == ("-v" in more)
    assert CliRunner().invoke(command, [*arguments, "--no-run", "--fail-on", "reported"]).exit_code == 3
    other = CliRunner().invoke(command, [arguments[0], "--no-run"])
    assert "not measured by msd" not in other.stdout


def test_every_view_has_them(tmp_path: Path) -> None:
    device = find_device("mali-valhall")
    file = examine(reported_file(tmp_path), ["litert-gpu"], device)
    report = Report("1", (file,), reported=reported_faults(device))
    assert "not measured by msd" in to_markdown(report)
    page = to_html(report)
    assert "issues/9277" in page
    assert f"{len(report.reported)} reports on this GPU" in page
    assert list(violations(json.loads(dump_report(report)), schema.document(Report))) == []


def test_the_files_of_tests_that_delegates_take_have_no_reports(tmp_path: Path) -> None:
    path = tiny_models.save("whole", tmp_path)
    found = examine(path, ["litert-gpu", "tflite-gpu"], find_device("adreno-740")).predictions
    assert [f for p in found for f in p.findings if f.severity == "reported"] == []
