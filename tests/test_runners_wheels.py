"""LiteRT of other releases: their environments, their child process, and the judge's verdicts with them."""

from __future__ import annotations

import logging
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from msd.cli.report import report
from msd.errors import BadConfig, NoDelegate
from msd.files.staging import MARK, beside
from msd.graph import tflite
from msd.measure.judging import judge
from msd.run.runners.adapter import find
from msd.run.runners.child import Bounds, ChildLost, ChildRefused
from msd.run.runners.messages import LoadOnGpu, RunModel
from msd.run.runners.random_inputs import random_inputs
from msd.run.runners.wheels import environment
from msd.run.runners.wheels.child import WheelChild
from msd.run.runners.wheels.environment import LiteRt, find_litert
from msd.run.runners.wheels.message import pack, unpack
from msd.tensor_spec import TensorSpec
from tests import tiny_models
from tests.oracle.case import given, model, op

OLD = "2.1.5"
BOUNDS = Bounds.of(60)
NOWHERE = {"PIP_INDEX_URL": "http://127.0.0.1:9/", "PIP_EXTRA_INDEX_URL": "", "PIP_FIND_LINKS": ""}


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def _in_cache(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MSD_CACHE", str(cache))


@pytest.fixture(scope="module")
def litert(cache: Path) -> LiteRt:
    """An older LiteRT, made by two at once, beside what a killed run left."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MSD_CACHE", str(cache))
        place = environment._place(OLD)
        left = beside(place)
        left.mkdir(parents=True)
        (left / MARK).touch()
        (left / "bin").mkdir()
        records: list[logging.LogRecord] = []
        handler = logging.Handler()
        handler.emit = records.append  # type: ignore[method-assign]
        environment.log.addHandler(handler)
        environment.log.setLevel(logging.INFO)
        try:
            with ThreadPoolExecutor(2) as two:
                made = list(two.map(find_litert, [OLD, OLD]))
        except NoDelegate as problem:
            pytest.skip(f"no package index: {problem}")
        finally:
            environment.log.removeHandler(handler)
    assert made[0] == made[1]
    assert [record.getMessage()[:36] for record in records] == ["Making an environment of ai-edge-lit"]
    assert not left.exists()
    return made[0]


def call(*arguments: object) -> Result:
    return CliRunner().invoke(report, [str(a) for a in arguments], prog_name="delegation-report")


def low_rank_first(folder: Path) -> Path:
    """A sum that 2.1.5 computes wrong."""
    path = folder / "low.tflite"
    shape = (2, 3, 5, 8)
    tflite.write(model(op("ADD", [given(5, 8), given(*shape)], (shape, "FLOAT32"))), path)
    return path


def test_an_environment_is_made_once_and_knows_its_api(litert: LiteRt) -> None:
    assert (litert.version, litert.chooses_precision) == (OLD, True)
    assert find_litert(OLD) == find_litert(str(litert.python.parent.parent)) == litert


def test_its_child_has_none_of_our_packages(litert: LiteRt) -> None:
    shown = subprocess.run(
        [litert.python, "-I", "-c", "import numpy, sys; print(numpy.__version__, 'rich' in sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert shown.split()[0] != np.__version__
    with pytest.raises(subprocess.CalledProcessError):
        subprocess.run([litert.python, "-I", "-c", "import click"], check=True, capture_output=True)


def test_its_child_answers_refuses_and_dies_as_ours_do(litert: LiteRt, tmp_path: Path) -> None:
    path = tiny_models.save("whole", tmp_path)
    inputs = random_inputs([TensorSpec("x0", tiny_models.SHAPE, "float32")])
    with WheelChild(litert.python, find().environment, BOUNDS) as child:
        loaded = child.ask(LoadOnGpu(path, "fp32", "serving_default"))
        assert loaded.peak > loaded.before > 0
        assert set(child.ask(RunModel(inputs)).outputs) == {"y"}
        with pytest.raises(ChildRefused, match=r"not accelerated|compile"):
            child.ask(LoadOnGpu(tiny_models.save("broadcast_to", tmp_path), "fp32", "serving_default"))
        child.process.kill()
        with pytest.raises(ChildLost, match="SIGKILL"):
            child.ask(LoadOnGpu(path, "fp32", "serving_default"))


def test_the_judge_tells_what_another_release_computes_wrong(litert: LiteRt, tmp_path: Path) -> None:
    path = low_rank_first(tmp_path)
    old, new = judge(path, litert=litert), judge(path)
    assert (old.litert, new.litert) == (OLD, None)
    assert old.fully_delegated
    assert old.psnr < 20
    assert new.psnr > 60


def test_one_that_cannot_choose_computes_in_what_the_gpu_has(litert: LiteRt, tmp_path: Path) -> None:
    adapter = replace(find(), half_floats=True)
    fixed = replace(litert, chooses_precision=False)
    path = tiny_models.save("whole", tmp_path)
    assert judge(path, adapter=adapter, litert=fixed).precision == "fp16"
    assert judge(path, adapter=adapter, litert=litert).precision == "fp32"


def test_the_command_asks_several_and_compares_two(litert: LiteRt, tmp_path: Path) -> None:
    path, folder = low_rank_first(tmp_path), litert.python.parent.parent
    result = call(path, "--litert", f"{OLD},{folder}")
    assert result.exit_code == 3
    assert f"LiteRT {OLD} GPU delegate on " in result.stdout
    assert "low.tflite: " not in result.stdout
    compared = call(path, "--compare-litert", OLD, folder)
    assert "the same findings" in compared.stdout
    assert f"LiteRT {OLD} 1 of 1 on GPU, " in compared.stdout


def test_rules_alone_need_no_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "find_litert", None)
    path = low_rank_first(tmp_path)
    result = call(path, "--no-run", "--litert", "2.1.5,2.2.0,nightly")
    assert result.exit_code == 3
    lines = [line.split()[0] for line in result.stdout.splitlines() if "low.tflite with LiteRT" in line]
    assert lines[:3] == ["✘", "✔", "✔"]
    changed = call(path, "--no-run", "--compare-litert", "2.1.5", "2.3.0")
    assert changed.exit_code == 0
    assert "- 1x wrong ADD" in changed.stdout
    assert call(path, "--no-run", "--compare-litert", "2.3.0", "2.1.5", "--fail-on", "worse").exit_code == 3


def test_a_newer_release_has_the_newest_rules(tmp_path: Path) -> None:
    result = call(low_rank_first(tmp_path), "--no-run", "--litert", "8.0.0")
    assert "LiteRT 8.0.0 is predicted by the rules of 2.4.0.dev" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "sentence", "code"),
    [
        (
            ["--litert", "2.1.1"],
            "ai-edge-litert 2.1.1 has no GPU accelerator for Linux; 2.1.2 is the first",
            1,
        ),
        (["--litert", "newest"], "newest is neither a version of ai-edge-litert, nor nightly, nor", 1),
        (["--litert", "2.1.0", "--no-run"], "there are no rules of litert-gpu for 2.1.0; there are for", 1),
        (
            ["--litert", "2.1.5", "--compare-litert", "2.1.5", "2.2.0"],
            "--compare-litert takes the place of",
            2,
        ),
    ],
)
def test_refusals(arguments: list[str], sentence: str, code: int, tmp_path: Path) -> None:
    result = call(low_rank_first(tmp_path), *arguments)
    assert result.exit_code == code
    assert sentence in result.stderr


def test_offline_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in NOWHERE.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    result = call(low_rank_first(tmp_path), "--litert", "2.1.6")
    assert result.exit_code == 1
    assert "ai-edge-litert==2.1.6 cannot be fetched: the package index cannot be reached" in result.stderr
    assert not environment._place("2.1.6").exists()
    with pytest.raises(NoDelegate, match="ai-edge-litert-nightly cannot be fetched"):
        find_litert("nightly")


@pytest.mark.parametrize("found", [True, False])
def test_pip_is_the_one_that_is_here_or_else_the_environments(
    found: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[tuple[str, ...]] = []

    def run(*command: str) -> subprocess.CompletedProcess[str]:
        ran.append(command)
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(environment, "find_spec", lambda name: object() if found else None)
    monkeypatch.setattr(environment, "_run", run)
    environment._install(tmp_path, "x==9")
    here, there = sys.executable, str(tmp_path / "bin/python")
    assert ran[0] == (here, "-m", "venv", *(["--without-pip"] if found else []), str(tmp_path))
    pip = (here, "-m", "pip", "--python", there) if found else (there, "-m", "pip")
    assert ran[1][: len(pip) + 1] == (*pip, "install")


def test_a_folder_without_litert_is_refused(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "bare"], check=True)
    with pytest.raises(NoDelegate, match="bare has no ai-edge-litert; install it there, or name a version"):
        find_litert(str(tmp_path / "bare"))
    with pytest.raises(BadConfig, match="is neither a version"):
        find_litert(str(tmp_path))


def test_pip_s_refusals_are_sentences() -> None:
    def told(stderr: str) -> str:
        return environment._refusal("x==9", subprocess.CompletedProcess([], 1, "", stderr))

    assert told("ERROR: Could not find … (from versions: 1.0, 2.0)\n") == (
        "there is no x==9 for this Python; there are 1.0, 2.0"
    )
    assert told("ERROR: [Errno 28] No space left\n\n") == "x==9 cannot be installed: [Errno 28] No space left"


def test_a_message_keeps_names_types_and_shapes() -> None:
    arrays = {
        "a/b:0": np.arange(6, dtype=np.int8).reshape(2, 3),
        "empty": np.zeros((0, 4)),
        "s": np.float32(3),
    }
    facts, back = unpack(pack({"do": "run"}, arrays))  # type: ignore[arg-type]
    assert facts == {"do": "run"}
    assert [*back] == [*arrays]
    for name, value in arrays.items():
        np.testing.assert_array_equal(back[name], value)
        assert back[name].dtype == np.asarray(value).dtype
    with pytest.raises(ValueError, match=r"buffer|bytes of arrays"):
        unpack(pack({}, arrays)[:-1])  # type: ignore[arg-type]
