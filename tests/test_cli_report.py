"""The command, as its user meets it: exit codes, sentences, JSON."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from msd.cli import report as cli
from msd.cli import report_run
from msd.cli.report import report
from msd.cli.report_run import Findings, OnJudged, ReportRequest
from msd.errors import NoDelegate, OutputUnwritable
from msd.files import atomic
from msd.measure import judging
from msd.measure.judging import Verdict
from tests import tiny_models
from tests.old_runtime import MISSING
from tests.stable_diffusion import COMPONENTS


def call(*arguments: Any) -> Result:
    return CliRunner().invoke(report, [str(a) for a in arguments], prog_name="delegation-report")


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    """A folder with the three components, all of them acceptable."""
    for component in COMPONENTS:
        shutil.copy(tiny_models.save("whole", tmp_path), tmp_path / f"{component}.tflite")
    (tmp_path / "whole.tflite").unlink()
    return tmp_path


def test_a_whole_bundle(bundle: Path) -> None:
    result = call(bundle)
    assert result.exit_code == 0, result.output
    for component in COMPONENTS:
        lines = [line for line in result.stdout.splitlines() if f"{component}.tflite" in line]
        assert len(lines) == 1
        assert "3 of 3 operations on GPU, 1 partition " in lines[0]
        assert " dB " in lines[0]
    assert "LiteRT 2.3.0 GPU delegate on " in result.stdout
    assert result.stdout.endswith("3 of 3 files are fully delegated, and the results match the CPU's.\n")
    assert "✘" not in result.stdout
    assert len(result.output.splitlines()) == 8, "the adapter, a table, the conclusion, and that -v adds more"
    assert "-v adds predictions, notes, what a run reads" in result.stderr


def test_a_partial_delegation(tmp_path: Path) -> None:
    good, bad = (tiny_models.save(name, tmp_path) for name in ("whole", "five_dimensions"))
    result = call(good, bad)
    assert result.exit_code == 3
    assert "4 of 6 operations on GPU, 2 partitions" in result.stdout
    assert "✘ 2 of 6 operations stay on the CPU" in result.stdout
    rows = [" ".join(line.split()) for line in result.stdout.splitlines()]
    assert "RESHAPE 1 of 1 Tensor dimensions must be less than 5. (#4, tensor Reshape)" in rows
    assert "SUM 1 of 1 Unknown layout. (#5)" in rows
    assert result.stdout.endswith("1 of 2 files is fully delegated; the results of 1 match the CPU's.\n")
    assert "Replacing" not in result.stdout


def test_verbose_shows_the_numbers_and_the_native_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    result = call("-v", tiny_models.save("whole", tmp_path))
    assert result.exit_code == 0
    for part in ("litert-gpu, adreno-740", "3 of 3 on GPU, 1 partition"):
        assert part in result.stdout
    assert "least time on adreno-740" in result.stdout
    assert MISSING or "tflite-runtime 2.14.0, CPU loads and runs it" in result.stdout
    assert "y: 1" in result.stdout
    assert "dB from the CPU's, max difference " in result.stdout
    assert "Replacing 3 out of 3 node(s) with delegate (LITERT_WEBGPU) node" in result.stdout


def test_tflite_says_whose_rules_answer_and_what_they_rest_on(tmp_path: Path) -> None:
    path = tiny_models.save("whole", tmp_path)
    result = call("--no-run", "--delegate", "tflite-gpu", "--tflite", "2.19.1", path)
    assert (result.exit_code, "3 of 3 on GPU" in result.stdout) == (0, True)
    words = (
        "tflite-gpu of 2.19.1: the rules of 2.17, the last whose Analyzer checks anything, for the wheels of"
    )
    assert " ".join(result.stderr.split()).startswith(words)
    result = call("--no-run", "--json", "--delegate", "tflite-gpu", "--tflite", "2.19.1", path)
    stored = json.loads(result.stdout)
    assert [each["release"] for each in stored["files"][0]["predictions"]] == ["2.17"]


def test_tflite_of_play_services_is_refused(tmp_path: Path) -> None:
    path = tiny_models.save("whole", tmp_path)
    result = call("--no-run", "--delegate", "tflite-gpu", "--tflite", "play-services", path)
    assert (result.exit_code, result.stdout) == (1, "")
    assert "there are no rules of tflite-gpu for play-services: Google replaces" in " ".join(
        result.stderr.split()
    )


def test_json_is_all_that_stands_on_stdout(tmp_path: Path) -> None:
    result = call("--json", tiny_models.save("cut_off", tmp_path))
    assert result.exit_code == 3
    form = json.loads(result.stdout)
    assert (form["failed"], form["adapter"]["litert"]) == (["rejected", "run"], "2.3.0")
    run = form["files"][0]["run"]
    assert form["adapter"]["name"] == run["adapter"]
    assert run["rejected"][0]["kind"] == "GATHER_ND"
    assert run["psnr_db"] > 100
    assert form["files"][0]["disagreements"] == []


def test_setup_says_what_was_found() -> None:
    result = call("--setup")
    assert result.exit_code == 0
    assert "Driver: " in result.stdout
    assert "The delegate works here." in result.stdout


def test_a_lost_process_is_a_verdict(tmp_path: Path) -> None:
    result = call("--timeout", "0.01", tiny_models.save("whole", tmp_path))
    assert result.exit_code == 3
    assert "lost: 3 operations undecided" in result.stdout
    assert "✘ while compiling, its process was stopped after 0.01 s, the time allowed" in result.stdout
    last = "0 of 1 file is fully delegated; no results could be compared with the CPU's.\n"
    assert result.stdout.endswith(last)


@pytest.mark.parametrize("columns", [80, 120])
def test_many_files_keep_readable_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    """A row for each file and delegate, nothing cut, no device but the one asked for."""
    base = tiny_models.save("whole", tmp_path)
    names = [f"a_model_of_which_the_name_is_long_and_longer_than_others_{i}.tflite" for i in range(10)]
    files = [shutil.copy(base, tmp_path / name) for name in names]
    monkeypatch.setenv("COLUMNS", str(columns))
    result = call("--no-run", "-v", "--delegate", "litert-gpu,tflite-gpu", *files)
    assert result.exit_code == 0, result.output
    assert "…" not in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= columns
    table = result.stdout.partition("Read and written by a run")[2]
    assert len(re.findall(r"\d\.[1-9] → \d\.[1-9] us", table)) == 20
    assert "swiftshader" not in result.stdout


def test_files_of_one_name_are_told_apart(tmp_path: Path) -> None:
    base = tiny_models.save("whole", tmp_path)
    files = [tmp_path / folder / "unet.tflite" for folder in ("old", "new")]
    for file in files:
        file.parent.mkdir()
        shutil.copy(base, file)
    result = call("--no-run", base, *files)
    table = result.stdout.partition("\n\n")[0].replace("\n", "")
    assert all(str(file).replace("-", "") in "".join(table.split()).replace("-", "") for file in files)
    assert str(base) not in table


def test_rules_alone_start_no_delegate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("msd.run.runners.adapter.find", None)
    result = call(
        "--no-run", tiny_models.save("five_dimensions", tmp_path), tiny_models.save("whole", tmp_path)
    )
    assert result.exit_code == 3
    assert "4 of 6 on GPU, 2 partitions" in result.stdout
    assert "3 of 3 on GPU, 1 partition " in result.stdout
    assert "cured by" in result.stdout
    assert "LiteRT" not in result.stdout
    assert result.stderr.endswith("Exit code 3 for: rejected.\n")


def test_what_fails_is_a_choice(tmp_path: Path) -> None:
    bad = tiny_models.save("cut_off", tmp_path)
    assert call("--no-run", bad, "--fail-on", "wrong,unknown").exit_code == 0
    assert call("--no-run", bad, "--fail-on", "wrong,rejected").exit_code == 3
    assert call("--no-run", bad, "--fail-on", "").exit_code == 0


def test_what_changed_since_another_report(tmp_path: Path) -> None:
    before = tmp_path / "before.json"
    for name, target in (("five_dimensions", "model"), ("whole", "model2")):
        shutil.copy(tiny_models.save(name, tmp_path), tmp_path / f"{target}.tflite")
    model, better = tmp_path / "model.tflite", tmp_path / "model2.tflite"
    assert call("--no-run", "--format", "json", "-o", before, model, "--fail-on", "").exit_code == 0
    same = call("--no-run", "--diff", before, "--fail-on", "worse", model)
    assert same.exit_code == 0
    assert "the same findings" in same.stdout
    model.write_bytes(better.read_bytes())
    gained = call("--no-run", "--diff", before, "--fail-on", "worse", model)
    assert gained.exit_code == 0
    assert "operations: 6 → 3" in gained.stdout
    assert "- 1x rejected RESHAPE" in gained.stdout
    call("--no-run", "--json", "-o", before, "--force", model)
    shutil.copy(tiny_models.save("cut_off", tmp_path), model)
    lost = call("--no-run", "--diff", before, "--fail-on", "worse", model)
    assert lost.exit_code == 3
    assert "+ 1x rejected GATHER_ND" in lost.stdout


@pytest.mark.parametrize(("form", "begins"), [("html", "<!doctype html>"), ("markdown", "| file |")])
def test_other_forms_go_to_a_file(form: str, begins: str, tmp_path: Path) -> None:
    path = tmp_path / "report"
    arguments = ("--no-run", "--format", form, tiny_models.save("whole", tmp_path))
    assert call(*arguments).stdout.startswith(begins)
    written = call(*arguments, "-o", path)
    assert (written.stdout, "whole.tflite" in written.stderr) == ("", True)
    assert path.read_text().startswith(begins)
    again = call(*arguments, "-o", path)
    assert again.exit_code == 1
    assert "--force" in again.stderr
    assert call(*arguments, "-o", path, "--force").exit_code == 0


def test_the_audit_takes_inputs(tmp_path: Path) -> None:
    path = tiny_models.save("whole", tmp_path)
    random = call("--no-run", "--audit-fp16", path)
    assert random.exit_code == 0
    assert "3 runs on random numbers, 3 results: all in range." in random.stdout
    np.savez(tmp_path / "loud.npz", x0=np.full(tiny_models.SHAPE, 1e6, np.float32))
    loud = call("--no-run", "--audit-fp16", "--inputs", tmp_path / "loud.npz", path)
    assert loud.exit_code == 3
    assert "overflows: " in loud.stdout
    assert "Exit code 3 for: audit." in loud.stderr
    np.savez(tmp_path / "other.npz", y=np.zeros(3))
    other = call("--no-run", "--audit-fp16", "--inputs", tmp_path / "other.npz", path)
    assert (other.exit_code, other.stdout) == (1, "")
    assert "takes the inputs ['x0'], not ['y']" in other.stderr
    np.save(tmp_path / "objects.npz", np.array([{}], dtype=object), allow_pickle=True)
    pickled = call("--no-run", "--audit-fp16", "--inputs", tmp_path / "objects.npz.npy", path)
    assert pickled.exit_code == 1
    assert "is not a file of inputs" in pickled.stderr


def test_a_bundle_is_audited_on_what_it_draws(bundle_folder: Path) -> None:
    result = call("--no-run", "--audit-fp16", bundle_folder, "--fail-on", "")
    assert result.exit_code == 0, result.output
    assert "runs on generated images" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "Name a .tflite file or a folder of them, or ask for --setup."),
        (["/nonexistent.tflite"], "'/nonexistent.tflite' does not exist"),
        (["--precision", "int8", "/"], "'int8' is not one of 'fp32', 'fp16'"),
        (["--timeout", "0", "/"], "is not in the range"),
        (["--delegate", "nnapi", "/"], "nnapi is not among litert-gpu, tflite-gpu"),
        (["--fail-on", "rain", "/"], "rain is not among rejected"),
        (["--format", "model-explorer", "--setup"], "one file and one delegate"),
        (["-o", "x", "--setup"], "--output is for the other formats"),
        (["--inputs", __file__, "--setup"], "--inputs are for --audit-fp16"),
        (["--fail-on", "worse", "--setup"], "--diff OTHER.json"),
        (["--no-run", "--precision", "fp16", __file__], "--precision does nothing with --no-run"),
        (["--no-run", "--timeout", "9", __file__], "--timeout does nothing with --no-run"),
        (["--no-run", "--memory", "9", __file__], "--memory does nothing with --no-run"),
        (["--no-run", "--pieces", "2", __file__], "--pieces does nothing with --no-run"),
        (["--from", __file__, "--pieces", "2", __file__], "--pieces does nothing with --from"),
        (["--from", __file__, "--precision", "fp16", __file__], "--precision does nothing with --from"),
        (["--force", __file__], "--force does nothing without --output"),
    ],
)
def test_wrong_usage_is_refused(arguments: list[str], words: str) -> None:
    result = call(*arguments)
    assert result.exit_code == 2
    assert words in " ".join(result.stderr.split())


def test_a_file_that_is_no_model(tmp_path: Path) -> None:
    path = tmp_path / "garbage.tflite"
    path.write_bytes(b"garbage " * 9)
    result = call(tiny_models.save("whole", tmp_path), path)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == f"error: {path} is not a .tflite file: bytes 4 to 8 are not 'TFL3'\n"


def test_an_incomplete_bundle(bundle: Path) -> None:
    (bundle / "unet.tflite").unlink()
    result = call(bundle)
    assert result.exit_code == 1
    words = f"{bundle} has neither manifest.json nor unet.tflite; name the files to judge instead"
    assert result.stderr == f"error: {words}\n"


def test_a_manifest_says_which_files(bundle_folder: Path, tmp_path: Path) -> None:
    """Here a bundle of one component, with a file beside it that is none."""
    shutil.copy(bundle_folder / "vae_decoder.tflite", tmp_path)
    (tmp_path / "other.tflite").write_bytes(b"garbage")
    manifest = json.loads((bundle_folder / "manifest.json").read_text())
    manifest["components"] = {"vae_decoder": manifest["components"]["vae_decoder"]}
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    result = call(tmp_path)
    assert result.exit_code == 0, result.output
    assert "1 of 1 file is fully delegated" in result.stdout
    (tmp_path / "vae_decoder.tflite").write_bytes(b"cut")
    result = call(tmp_path)
    assert result.exit_code == 1
    assert "vae_decoder.tflite has 3 bytes and manifest.json says" in result.stderr


def test_help_has_examples_that_name_real_options() -> None:
    text = call("--help").stdout
    examples = text.partition("Examples:")[2].strip().splitlines()
    assert len(examples) == 8
    options = {
        option for parameter in report.params for option in (*parameter.opts, *parameter.secondary_opts)
    }
    for example in examples:
        assert {word for word in example.split() if word.startswith("--")} <= options


@pytest.mark.parametrize(("problem", "code"), [(KeyboardInterrupt(), 130), (NoDelegate("it is gone"), 1)])
def test_what_ends_it_loses_no_verdict(
    problem: BaseException, code: int, bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    judged = judging.judge

    def until_the_decoder(path: Path, **settings: Any) -> Verdict:
        if path.stem == "vae_decoder":
            raise problem
        return judged(path, **settings)

    monkeypatch.setattr(judging, "judge", until_the_decoder)
    output = bundle / "report.json"
    result = call(bundle, "--json", "-o", output)
    assert (result.exit_code, result.stdout, output.exists()) == (code, "", False)
    table, _, rest = result.stderr.partition("stopped: ")
    assert table.count("3 of 3 operations on GPU, 1 partition ") == 2
    assert "vae_decoder.tflite" in table, "what rules predict of it"
    assert table.splitlines()[-1] == "1 of 3 files not judged: vae_decoder.tflite"
    assert "nothing is written" in rest


def test_what_ends_a_comparison_of_two_versions_keeps_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[str, ...]] = []

    def collect(request: ReportRequest, stderr: Any, on_judged: OnJudged) -> Findings:
        seen.append(request.litert)
        if len(seen) == 2:
            raise KeyboardInterrupt
        found = report_run.collect_findings(replace(request, litert=("2.3.0",)), stderr, on_judged)
        on_judged(found)
        return found

    monkeypatch.setattr(cli, "collect_findings", collect)
    model = tiny_models.save("whole", tmp_path)
    result = call("--compare-litert", "2.1.5", "2.3.0", "--no-run", model)
    assert (result.exit_code, result.stdout, seen) == (130, "", [("2.1.5",), ("2.3.0",)])
    assert "whole.tflite" in result.stderr.partition("stopped: ")[0]


def test_nothing_is_said_of_a_report_that_ends_before_its_first_verdict(
    bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ended(path: Path, **settings: Any) -> Verdict:
        raise KeyboardInterrupt

    monkeypatch.setattr(judging, "judge", ended)
    result = call(bundle)
    assert (result.exit_code, "stopped" in result.stderr) == (130, False)


def test_a_report_that_cannot_be_written_is_still_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextmanager
    def full(*ignored: Any) -> Iterator[Path]:
        raise OutputUnwritable("the disk is full")
        yield tmp_path

    monkeypatch.setattr(atomic, "atomic_write", full)
    output = tmp_path / "report.html"
    result = call("--no-run", tiny_models.save("whole", tmp_path), "--format", "html", "-o", output)
    assert (result.exit_code, result.stdout, output.exists()) == (1, "", False)
    table, _, rest = result.stderr.partition("error: the disk is full")
    assert ("whole.tflite" in table, rest) == (True, "\n")


@pytest.mark.parametrize("place", ["missing/report.json", "file/report.json"])
def test_a_place_that_cannot_be_written_is_refused_before_anything_is_judged(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cli, "collect_findings", None)
    (tmp_path / "file").touch()
    output = tmp_path / place
    result = call(tiny_models.save("whole", tmp_path), "--json", "-o", output)
    assert result.exit_code == 1
    assert f"cannot write {output}: {output.parent} is not a folder that can be written to" in result.stderr
