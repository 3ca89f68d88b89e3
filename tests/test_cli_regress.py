"""`msd regress` from its arguments to the exit code, on stand-in networks; and the workflow for GitHub."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from click.testing import CliRunner, Result

from msd.cli import msd
from msd.cli import regress as cli
from msd.errors import OutputUnwritable
from msd.measure.regress import compare as compared
from msd.measure.regress import regression, report_folder
from tests.test_regress_views import cases

ROOT = Path(__file__).parent.parent
WORKFLOW = ROOT / "docs" / "examples" / "github-regress.yml"
SUITE = """
steps = 2
[thresholds]
psnr_least = 40
psnr_median = 45
[[picture]]
name = "fox"
prompt = "a fox"
[[picture]]
name = "owl"
prompt = "an owl [b]not markup[/b]"
seed = 2
"""


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(msd, ["regress", *map(str, arguments)], prog_name="msd", terminal_width=100)


UNKNOWN = "owl: the vocabulary of 674 tokens has only pieces of these words: owl, not, markup."


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    path = tmp_path / "mine.toml"
    path.write_text(SUITE)
    return path


@pytest.fixture
def guarded(suite: Path, bundle_folder: Path) -> Path:
    """The suite, its goldens beside it."""
    assert run(suite, bundle_folder, "--update").exit_code == 0
    return suite


@pytest.fixture
def worse(guarded: Path) -> Path:
    """The suite, with goldens of pictures that nothing draws."""
    import numpy as np
    from PIL import Image

    from msd.measure.regress.goldens import _digest

    path = guarded.with_suffix("") / "owl.png"
    Image.open(path).transpose(Image.Transpose.FLIP_LEFT_RIGHT).save(path)
    listed = path.with_name("goldens.json")
    goldens = json.loads(listed.read_text())
    goldens["pixels"]["owl"] = _digest(np.asarray(Image.open(path)))
    listed.write_text(json.dumps(goldens))
    return guarded


def test_the_help_is_the_golden_one(golden: Callable[[str, str], None]) -> None:
    golden("regress-help.txt", run("--help").output)


def test_update_writes_goldens_and_says_what_changed(suite: Path, bundle_folder: Path) -> None:
    result = run(suite, bundle_folder, "--update", "--json")
    assert result.exit_code == 0
    assert json.loads(result.stdout) == {
        "goldens": str(suite.with_suffix("")),
        "changes": {"fox": "new", "owl": "new"},
        "remarks": [UNKNOWN],
    }
    assert f"warning: {UNKNOWN}\n" in result.stderr
    assert "fox: new\nowl: new\n" in result.stderr
    assert "mine: 2 goldens written" in result.stderr
    assert "unchanged" in run(suite, bundle_folder, "--update").stderr


def test_the_same_pictures_are_exit_code_0(guarded: Path, bundle_folder: Path, tmp_path: Path) -> None:
    report, junit = tmp_path / "report", tmp_path / "junit.xml"
    result = run(guarded, bundle_folder, "-o", report, "--junit", junit)
    assert (result.exit_code, result.stdout) == (0, "")
    assert "4/4" in result.stderr
    assert "mine: 2 images in " in result.stderr
    assert "all thresholds hold" in result.stderr
    assert [len(case) for case in cases(junit.read_text())] == [0, 0, 0]
    assert sorted(path.name for path in report.iterdir()) == ["index.html", "pictures", "result.json"]


def test_a_broken_threshold_is_exit_code_3_and_named(
    worse: Path, bundle_folder: Path, tmp_path: Path
) -> None:
    report, junit = tmp_path / "report", tmp_path / "report" / "junit.xml"
    result = run(worse, bundle_folder, "-o", report, "--junit", junit, "--json")
    assert result.exit_code == 3
    found = json.loads(result.stdout)
    assert [picture["name"] for picture in found["pictures"]] == ["owl", "fox"]
    (sentence,) = found["pictures"][0]["broken"].values()
    assert sentence.startswith("owl: PSNR is ")
    assert sentence in result.stderr
    assert "2 thresholds broken" in result.stderr  # an equal image makes no median of two
    assert "2 thresholds broken" in (report / "index.html").read_text()
    assert [len(case) for case in cases(junit.read_text())] == [1, 0, 1]
    assert json.loads((report / "result.json").read_text()) == found


def test_a_report_that_cannot_be_written_is_still_printed(
    guarded: Path, bundle_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*ignored: Any) -> None:
        raise OutputUnwritable("the disk is full")

    monkeypatch.setattr(report_folder, "write_report", full)
    result = run(guarded, bundle_folder, "--json", "-o", tmp_path / "report")
    assert (result.exit_code, "error: the disk is full" in result.stderr) == (1, True)
    assert "2 images in " in result.stderr
    assert len(json.loads(result.stdout)["pictures"]) == 2


def test_another_network_than_the_manifest_names_is_refused(
    guarded: Path, bundle_folder: Path, tmp_path: Path
) -> None:
    """The result would say that it comes from the manifest's model."""
    copied = Path(shutil.copytree(bundle_folder, tmp_path / "copied"))
    network = copied / "unet.tflite"
    network.write_bytes(network.read_bytes()[:-1] + b"\1")
    (copied / "manifest.json").write_text((bundle_folder / "manifest.json").read_text())
    for options in ((), ("--update",)):
        result = run(guarded, copied, *options)
        assert result.exit_code == 1
        assert "unet.tflite has another SHA-256 than manifest.json says" in result.stderr
    assert run(guarded, bundle_folder).exit_code == 0


def test_goldens_may_be_elsewhere(guarded: Path, bundle_folder: Path, tmp_path: Path) -> None:
    guarded.with_suffix("").rename(tmp_path / "elsewhere")
    assert run(guarded, bundle_folder, "--goldens", tmp_path / "elsewhere").exit_code == 0
    result = run(guarded, bundle_folder)
    assert result.exit_code == 1
    assert result.stderr.startswith(
        f"error: {guarded.with_suffix('')} has no goldens (goldens.json is missing)"
    )
    assert "--update" in result.stderr


def test_what_is_in_the_way_stays(guarded: Path, bundle_folder: Path, tmp_path: Path) -> None:
    report, junit = tmp_path / "report", tmp_path / "junit.xml"
    report.mkdir()
    (report / "mine.txt").write_text("mine")
    junit.write_text("mine")
    for options in (("-o", report), ("--junit", junit)):
        result = run(guarded, bundle_folder, *options)
        assert (result.exit_code, result.stdout) == (1, "")
        assert result.stderr == f"error: {options[1]} exists; --force replaces it\n"
    assert (junit.read_text(), list(report.iterdir())) == ("mine", [report / "mine.txt"])
    assert run(guarded, bundle_folder, "-o", report, "--junit", junit, "--force").exit_code == 0
    assert (report / "mine.txt").read_text() == "mine"
    assert (report / "index.html").exists()


def test_a_report_that_cannot_be_written_leaves_the_junit_file(
    guarded: Path, bundle_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(regression: object, folder: Path) -> None:
        raise OutputUnwritable(f"cannot write {folder} (No space left on device)")

    monkeypatch.setattr("msd.measure.regress.report_folder.write_report", full)
    report, junit = tmp_path / "report", tmp_path / "junit.xml"
    result = run(guarded, bundle_folder, "-o", report, "--junit", junit)
    assert (result.exit_code, report.exists()) == (1, False)
    assert f"error: cannot write {report} (No space" in result.stderr
    assert [len(case) for case in cases(junit.read_text())] == [0, 0, 0]


def test_no_junit_file_of_an_earlier_run_looks_like_this_ones(
    guarded: Path, bundle_folder: Path, tmp_path: Path
) -> None:
    """In the report's folder it goes with the report; what lies beside it, and what is the user's, stays."""
    report, inside, beside = (tmp_path / name for name in ("report", "report/j.xml", "report.xml"))
    assert run(guarded, bundle_folder, "-o", report, "--junit", inside).exit_code == 0
    shutil.copy(inside, beside)
    text = inside.read_text()
    merged = text.replace("</testsuites>", '<testsuite name="mine" /></testsuites>')
    mine = {"merged.xml": merged, "other.xml": text.replace('name="mine"', 'name="other"'), "half.xml": "<a"}
    for name, content in mine.items():
        (report / name).write_text(content)
    result = run(guarded, bundle_folder, "-o", report, "--force")
    assert (result.exit_code, inside.exists(), beside.exists()) == (0, False, True)
    assert {path.name: path.read_text() for path in report.glob("*.xml")} == mine
    said = f"warning: {beside} stays, of the report that was in {report} before\n"
    assert said in result.stderr
    again = run(guarded, bundle_folder, "-o", report, "--force", "--junit", beside)
    assert (again.exit_code, "warning: /" in again.stderr) == (0, False)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("-o report --junit report", "report is given for two different files"),
        ("--junit mine.toml", "mine.toml is given for two different files"),
        ("-o mine", "mine is given for two different files"),
        ("--junit mine/owl.png", "--junit mine/owl.png is among the goldens; give another place."),
        ("-o report --junit report/index.html", "report/index.html is a part of the report; give another"),
    ],
)
def test_nothing_that_is_compared_and_no_report_is_written_over(
    words: str, said: str, guarded: Path, bundle_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """--force replaces an earlier report, and nothing else."""
    monkeypatch.chdir(tmp_path)
    before = {path: path.read_bytes() for path in (guarded, *Path("mine").iterdir())}
    result = run(guarded, bundle_folder, *words.split(), "--force")
    assert (result.exit_code, said in result.stderr, Path("report").exists()) == (2, True, False)
    assert {path: path.read_bytes() for path in (guarded, *Path("mine").iterdir())} == before


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (("steps", "step"), "unknown key 'step'; did you mean steps?"),
        (('"owl"', '"fox"'), "two images are called fox and fox; each needs a name of its own"),
        (("steps = 2", "scheduler = 'huen'"), "no scheduler is called 'huen'; there are ddim, ddpm, deis"),
        (("psnr_least = 40", "psnr_least = nan"), "psnr_least is nan; a number 0 or more was expected"),
        (("psnr_least = 40", "attributes_least = 1"), "attributes_least is for the demo checkpoint"),
    ],
)
def test_a_suite_with_a_mistake_is_exit_code_1(
    edit: tuple[str, str], message: str, guarded: Path, bundle_folder: Path
) -> None:
    guarded.write_text(SUITE.replace(*edit))
    result = run(guarded, bundle_folder)
    assert (result.exit_code, result.stdout) == (1, "")
    assert message in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "options",
    [
        ["--update", "-o", "report"],
        ["--update", "--junit", "junit.xml"],
        ["--force"],
        ["--threads", "0"],
        ["--backend", "abacus"],
        ["--precision", "fp8"],
        ["--unknown"],
    ],
)
def test_wrong_usage_is_exit_code_2(options: list[str], suite: Path, bundle_folder: Path) -> None:
    result = run(suite, bundle_folder, *options)
    assert result.exit_code == 2
    assert "Usage:" in result.stderr


def test_it_starts_without_tensorflow(guarded: Path, bundle_folder: Path) -> None:
    code = (
        "import sys; from msd.cli import msd\n"
        f"try: msd(['regress', {str(guarded)!r}, {str(bundle_folder)!r}])\n"
        "except SystemExit as end: print(end.code, {'tensorflow', 'keras', 'torch'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "0 set()\n"


def steps() -> list[dict[str, Any]]:
    workflow = yaml.safe_load(WORKFLOW.read_text("utf-8"))
    assert workflow[True] == {"pull_request": None, "workflow_dispatch": None}  # YAML 1.1 reads "on" so
    (job,) = workflow["jobs"].values()
    found: list[dict[str, Any]] = job["steps"]
    return found


def test_the_workflow_for_github_calls_what_there_is() -> None:
    lines = [line for step in steps() for line in step.get("run", "").splitlines()]
    commands = [shlex.split(line)[1:] for line in lines if line.startswith("msd ")]
    assert [words[0] for words in commands] == ["convert", "regress"]
    for name, *words in commands:
        command = msd.get_command(click.Context(msd), name)
        assert command is not None
        with command.make_context(name, words) as context:
            assert not context.args
    with pytest.raises(click.NoSuchOption):
        msd.get_command(click.Context(msd), "regress").make_context("regress", ["a", "b", "--junitt", "c"])  # type: ignore[union-attr]


def test_the_workflow_keeps_the_report_where_it_is_written() -> None:
    *_, regress, upload = steps()
    words = shlex.split(regress["run"])
    folder, junit = (words[words.index(option) + 1] for option in ("-o", "--junit"))
    assert upload["if"] == "always()"
    assert upload["with"]["path"] == folder
    assert Path(junit).parent == Path(folder)
    assert "continue-on-error" not in regress


@pytest.mark.parametrize(("done", "images"), [(1, 0), (3, 1)])
def test_ctrl_c_loses_no_image(
    done: int,
    images: int,
    worse: Path,
    bundle_folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    @contextmanager
    def progress() -> Iterator[Callable[[int, int, float], None]]:
        def on_step(number: int, total: int, seconds: float) -> None:
            if number == done:
                raise KeyboardInterrupt

        yield on_step

    monkeypatch.setattr(cli, "step_progress", progress)
    report, junit = tmp_path / "report", tmp_path / "report.xml"
    result = run(worse, bundle_folder, "--json", "-o", report, "--junit", junit)
    assert (result.exit_code, result.stdout, report.exists(), junit.exists()) == (130, "", False, False)
    table, _, rest = result.stderr.partition("stopped: ")
    assert [name in table for name in ("fox  ", "owl  ", "threshold")] == [images > 0, False, False]
    assert ("equal" in table, "nothing is written" in rest) == (images > 0, images > 0)


def test_ctrl_c_while_images_are_measured_loses_none(
    guarded: Path, bundle_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measure, stops = regression.compare, [KeyboardInterrupt()]

    def compare(*of: Any) -> compared.Result:
        if stops:
            raise stops.pop()
        return measure(*of)

    monkeypatch.setattr(regression, "compare", compare)
    result = run(guarded, bundle_folder)
    table, _, rest = result.stderr.partition("stopped: ")
    assert (result.exit_code, "fox  " in table, "owl  " in table, "nothing is written" in rest) == (
        *(130, True, True, True),
    )
