"""What a browser measured: bench and report show it, the app's manifest takes it, and others are refused."""

from __future__ import annotations

import json
import re
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from msd.bundle import ConvertedFile, open_bundle
from msd.cli import msd
from msd.conversion.sizes.pick import one_size
from msd.errors import BadReport
from msd.export.app.manifest import describe
from msd.files import schema
from msd.measure.bench.browser import browser_benchmark
from msd.measure.bench.result import Refusal
from msd.measure.bench.table import remarks, tables
from msd.measure.judging.browser import BrowserVerdict, load_browser_verdict
from msd.measure.report.report import load_report
from tests.recipe_bundles import SIZES, recipe_bundle

ROOT = Path(__file__).parents[1]
ROLES = {"text_encoder": (1.0, 100.5), "unet": (40.0, 47.25), "vae_decoder": (25.0, None)}
"""The milliseconds of a run, and the PSNR of the output, of each network."""


def network(role: str, file: ConvertedFile) -> dict[str, Any]:
    milliseconds, psnr = ROLES[role]
    distance = {
        "output": "y",
        "psnr_db": psnr,
        "max_difference": 0.01 if psnr else 0.0,
        "max_reference": 3.0,
        "finite": True,
        "identical": psnr is None,
    }
    return {
        "role": role,
        "sha256": file.sha256,
        "operations": file.operations,
        "delegated": file.operations,
        "partitions": 1,
        "dispatches": 400,
        "open_ms": 700.0,
        "first_ms": 3 * milliseconds,
        "runs_ms": [milliseconds + i for i in range(5)],
        "outputs": [distance],
        "gpu_bytes": 123_000_000,
        "failure": None,
        "log": [],
    }


def measured(folder: Path, **changes: Any) -> dict[str, Any]:
    """Return a page's verdict on the bundle in `folder`; `changes` are those of the U-Net."""
    components = open_bundle(folder).manifest.components
    networks = [network(role, components[role]) for role in ROLES]
    networks[1] |= changes
    return {
        "format": 1,
        "runtime": "msd",
        "api": "WebGPU",
        "model": "ab" * 32,
        "precision": "fp16",
        "adapter": "Adreno 740",
        "features": ["shader-f16"],
        "limits": {"maxBufferSize": 1 << 30},
        "browser": "Mozilla/5.0 (Linux; Android 15)",
        "cores": 8,
        "versions": {"msd": "0.1.0"},
        "networks": networks,
    }


def save(path: Path, value: Any) -> Path:
    path.write_text(json.dumps(value), "utf-8")
    return path


def run(*arguments: object) -> Any:
    return CliRunner().invoke(msd, [*map(str, arguments)], env={"COLUMNS": "200"})


def test_bench_shows_the_times_and_computes_those_of_an_image(demo_int8: Path, tmp_path: Path) -> None:
    path = save(tmp_path / "verdict.json", measured(demo_int8))
    result = browser_benchmark(open_bundle(demo_int8), load_browser_verdict(path), "msd bench", 10)
    assert [m.timings.median for m in result.bundles[0].measurements] == [0.003, 0.042, 0.027]
    (image,) = result.bundles[0].wholes
    assert image.seconds == pytest.approx(2 * 0.003 + 10 * 2 * 0.042 + 0.027)
    rows = {row[0]: row for table in tables(result) for row in table.rows}
    assert rows["U-Net"][1:3] == ("browser-msd", "Adreno 740, fp16")
    assert any("123 MB of the GPU" in remark for remark in remarks(result))
    assert any("no verdict of LiteRT's delegate" in remark for remark in remarks(result))


def test_the_command_prints_it_and_writes_json(demo_int8: Path, tmp_path: Path) -> None:
    path, out = save(tmp_path / "verdict.json", measured(demo_int8)), tmp_path / "bench.json"
    shown = run("bench", demo_int8, "--from", path, "-o", out)
    assert shown.exit_code == 0, shown.output
    assert "Adreno 740" in shown.output
    assert "42" in shown.output
    assert json.loads(out.read_text())["machine"]["system"].startswith("Mozilla")


def test_a_network_that_did_not_run_is_a_refusal(demo_int8: Path, tmp_path: Path) -> None:
    why = "The GPU has too little memory."
    path = save(tmp_path / "verdict.json", measured(demo_int8, failure=why, open_ms=None, runs_ms=[]))
    result = browser_benchmark(open_bundle(demo_int8), load_browser_verdict(path), "msd bench")
    refused = Refusal("unet", "browser-msd", f"unet did not run on Adreno 740: {why}")
    assert result.bundles[0].refusals == (refused,)
    assert result.bundles[0].wholes == ()
    assert run("bench", demo_int8, "--from", path).exit_code == 1


def test_a_report_shows_the_verdict_and_the_app_s_manifest_takes_it(demo_int8: Path, tmp_path: Path) -> None:
    path, out = save(tmp_path / "verdict.json", measured(demo_int8)), tmp_path / "report.json"
    shown = run("report", demo_int8, "--from", path)
    assert shown.exit_code == 0, shown.output
    assert "Adreno 740, fp16: measured in a browser" in shown.output
    assert re.search(r"2015 of 2015 operations on GPU, 1 partition +47.2 dB", shown.output)
    assert run("report", demo_int8, "--from", path, "--format", "json", "-o", out).exit_code == 0
    delegation = describe(open_bundle(demo_int8), report=load_report(out)).delegation
    assert [(d.role, d.adapter, d.precision, d.psnr_db) for d in delegation] == [
        ("text_encoder", "Adreno 740 (WebGPU)", "fp16", 100.5),
        ("unet", "Adreno 740 (WebGPU)", "fp16", 47.25),
        ("vae_decoder", "Adreno 740 (WebGPU)", "fp16", None),
    ]


@pytest.mark.parametrize("form", ["html", "markdown"])
def test_every_view_says_that_a_browser_measured(form: str, demo_int8: Path, tmp_path: Path) -> None:
    """What a page's own kernels do is no verdict of the real delegate's."""
    saved = save(tmp_path / "verdict.json", measured(demo_int8))
    result = CliRunner().invoke(msd, ["report", str(demo_int8), "--from", str(saved), "--format", form])
    assert result.exit_code == 0, result.output
    told = "with msd's own kernels on WebGPU; it is no verdict of LiteRT's delegate."
    assert unescape(result.stdout).count(f"Adreno 740 (WebGPU): measured in a browser {told}") == 1
    assert result.stdout.count("Adreno 740 (WebGPU)") == 4
    for wrong in ("the real delegate", "on the delegate", " 26 note "):
        assert wrong not in result.stdout


def test_a_page_has_one_of_several_sizes(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    bundle = recipe_bundle(tmp_path_factory, "gpu-w4, several sizes")
    chosen, other = reversed(SIZES)
    with one_size(bundle, chosen) as picked:
        path = save(tmp_path / "verdict.json", measured(picked.folder))
        shown = run(
            "report", bundle.folder, "--from", path, "--format", "json", "-o", tmp_path / "report.json"
        )
        assert shown.exit_code == 0, shown.output
        delegation = describe(picked, report=load_report(tmp_path / "report.json")).delegation
    assert [each.role for each in delegation] == [*ROLES]
    for name in ("unet", "vae_decoder"):
        left = f"note: the page has another size than {bundle.path(name)} at {other}, which is not judged"
        assert left in shown.stderr
    assert run("bench", bundle.folder, "--from", path, "--size", chosen).exit_code == 0
    assert run("bench", bundle.folder, "--from", path, "--size", other).exit_code == 1


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"delegated": 2000}, "15 of 2015 operations stay on the CPU"),
        ({"failure": "It was lost."}, "It was lost."),
        ({"outputs": []}, "no results of the CPU to compare with: the page has no expected outputs"),
    ],
)
def test_what_is_wrong_fails_the_report(
    changes: dict[str, Any], words: str, demo_int8: Path, tmp_path: Path
) -> None:
    shown = run(
        "report", demo_int8, "--from", save(tmp_path / "verdict.json", measured(demo_int8, **changes))
    )
    assert shown.exit_code == 3
    assert words in shown.output


@pytest.mark.parametrize("distance", [{"psnr_db": 20.0}, {"finite": False, "psnr_db": None}])
def test_wrong_numbers_fail_the_report(distance: dict[str, Any], demo_int8: Path, tmp_path: Path) -> None:
    verdict = measured(demo_int8)
    verdict["networks"][1]["outputs"][0] |= distance
    shown = run("report", demo_int8, "--from", save(tmp_path / "verdict.json", verdict))
    assert shown.exit_code == 3
    assert re.search(r"only 20\.0 dB|NaN or infinite", shown.output)


def test_another_conversion_s_verdict_is_refused(demo_int8: Path, tmp_path: Path) -> None:
    path = save(tmp_path / "verdict.json", measured(demo_int8, sha256="00" * 32))
    for command in ("bench", "report"):
        shown = run(command, demo_int8, "--from", path)
        assert shown.exit_code == 1
        assert "the browser measured no file with the SHA-256 of" in shown.output


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"format": 2}, "a newer msd is needed"),
        ({"networks": 7}, "is not a page's verdict"),
        ({"precision": "fp8"}, "is not a page's verdict"),
        ({"adapter": None}, "is not a page's verdict"),
    ],
)
def test_damaged_verdicts_are_refused(
    change: dict[str, Any], words: str, demo_int8: Path, tmp_path: Path
) -> None:
    path = save(tmp_path / "verdict.json", {**measured(demo_int8), **change})
    with pytest.raises(BadReport, match=words):
        load_browser_verdict(path)
    (tmp_path / "empty.json").touch()
    with pytest.raises(BadReport, match="is not JSON"):
        load_browser_verdict(tmp_path / "empty.json")
    with pytest.raises(BadReport, match="cannot read"):
        load_browser_verdict(tmp_path / "none.json")


def test_options_that_measure_are_refused_beside_it(demo_int8: Path, tmp_path: Path) -> None:
    path = save(tmp_path / "verdict.json", measured(demo_int8))
    for options in (["--no-run"], ["--setup"], ["--pieces", "2"]):
        assert run("report", demo_int8, "--from", path, *options).exit_code == 2
    assert run("bench", demo_int8, "--from", path, "--compare", demo_int8).exit_code == 2
    for useless in (("--repeats", "2"), ("--backend", "litert-cpu"), ("--draw", "1"), ("--threads", "1")):
        refused = run("bench", demo_int8, "--from", path, *useless)
        assert refused.exit_code == 2
        assert f"{useless[0]} does nothing with --from" in refused.stderr


def test_the_schema_is_documented() -> None:
    stored = json.loads((ROOT / "docs" / "web-verdict.schema.json").read_text("utf-8"))
    assert stored == schema.document(BrowserVerdict), "write docs/web-verdict.schema.json again"
