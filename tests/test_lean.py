"""msd with the packages of a lean installation alone: what it does, and what it says of the others."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from msd.cli import COMMANDS
from msd.errors import BadConfig
from msd.files.packages import LAST_PYTHON, require_packages
from scripts.try_pythons import lean_packages

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
TRACE = r"needs tensorflow and keras.*" + (
    r"'msd\[trace\]'" if sys.version_info < (3, 14) else r"tensorflow exists for Python 3\.13 and older"
)
HIDE = """
import importlib.metadata, sys
from importlib.machinery import PathFinder

HIDDEN = {hidden!r}

class Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        return None if name.partition(".")[0] in HIDDEN else PathFinder.find_spec(name, path, target)

sys.meta_path[sys.meta_path.index(PathFinder)] = Finder
found = importlib.metadata.Distribution.from_name

def from_name(name):
    if name.lower().replace("-", "_") in {{*HIDDEN, "scikit_image", "tflite_runtime"}}:
        raise importlib.metadata.PackageNotFoundError(name)
    return found(name)

importlib.metadata.Distribution.from_name = from_name
"""


def names(requirements: list[str]) -> set[str]:
    """Return the names of packages, as modules mostly are called."""
    return {re.split(r"[^\w-]", each)[0].lower().replace("-", "_") for each in requirements}


@pytest.fixture(scope="module")
def hidden() -> set[str]:
    """The modules that a lean installation lacks."""
    extras = PROJECT["optional-dependencies"].values()
    all_packages = names([*PROJECT["dependencies"], *(each for extra in extras for each in extra)])
    modules = {"scikit_image": "skimage"}
    return {modules.get(name, name) for name in all_packages - names(lean_packages())} - {"pytest"}


class Lean:
    """Runs commands in a folder, where Python does not find the hidden modules."""

    def __init__(self, folder: Path, hidden: set[str]) -> None:
        self.folder = folder
        (folder / "hide").mkdir()
        (folder / "hide/sitecustomize.py").write_text(HIDE.format(hidden=sorted(hidden)))

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Return what `python` with these words prints."""
        environment = {**os.environ, "PYTHONPATH": f"{self.folder / 'hide'}{os.pathsep}{ROOT}"}
        command = [sys.executable, *words]
        return subprocess.run(command, cwd=self.folder, env=environment, capture_output=True, text=True)

    def msd(self, *words: str) -> subprocess.CompletedProcess[str]:
        return self.run("-m", "msd.cli", *words)


@pytest.fixture(scope="module")
def lean(tmp_path_factory: pytest.TempPathFactory, hidden: set[str]) -> Lean:
    """A lean installation, with the demo converted in its folder."""
    found = Lean(tmp_path_factory.mktemp("lean"), hidden)
    done = found.msd("convert", "-o", "demo")
    assert done.returncode == 0, done.stderr
    return found


def test_the_packages_are_those_of_pyproject(hidden: set[str]) -> None:
    assert names(lean_packages()) <= names(PROJECT["dependencies"])
    assert {
        "tensorflow",
        "keras",
        "keras_cv",
        "h5py",
        "scipy",
        "skimage",
        "matplotlib",
        "torch",
        "wgpu",
    } <= hidden


def test_the_extras_are_of_what_everyone_has() -> None:
    extras = PROJECT["optional-dependencies"]
    for name in ("plots", "regress", "trace", "webgpu"):
        assert {*extras[name]} <= {*PROJECT["dependencies"]}


def test_the_demo_is_judged_and_generates(lean: Lean) -> None:
    done = lean.msd("report", "demo", "--no-run", "--json")
    assert done.returncode == 0, done.stderr
    assert len(json.loads(done.stdout)["files"]) == 3
    done = lean.msd("generate", "demo", "-p", "two red circles", "--steps", "2", "-o", "image.png")
    assert done.returncode == 0, done.stderr
    assert (lean.folder / "image.png").stat().st_size > 1000


def test_it_is_benchmarked_and_exported(lean: Lean) -> None:
    for words in (
        ("bench", "demo", "--backend", "litert-cpu", "--max-seconds", "1", "--json"),
        ("export-files", "demo", "-o", "files"),
        ("export-android", "demo", "-o", "android"),
        ("blocks", "demo", "--help"),
    ):
        done = lean.msd(*words)
        assert done.returncode == 0, done.stderr


HELP = """
import sys
from click.testing import CliRunner
from msd.cli import msd
for name in {names!r}:
    assert CliRunner().invoke(msd, [name, "--help"]).exit_code == 0, name
print(sorted({{each.partition(".")[0] for each in sys.modules}} & {hidden!r}))
"""


def test_every_command_has_its_help(lean: Lean, hidden: set[str]) -> None:
    done = lean.run("-c", HELP.format(names=sorted(COMMANDS), hidden=hidden))
    assert (done.returncode, done.stdout) == (0, "[]\n"), done.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("blocks demo --reference demo --plot a.png", r"a plot needs matplotlib.*'msd\[plots\]'"),
        ("generate demo -p x --timeline a.svg", r"a plot needs matplotlib.*'msd\[plots\]'"),
        ("regress demo demo", r"msd regress needs scikit-image and imagehash.*'msd\[regress\]'"),
        ("generate demo -p x --scheduler heun+beta", r"beta sigmas needs scipy.*'msd\[regress\]'"),
        ("generate demo -p x --backend webgpu", r"the package wgpu is not installed.*'msd\[webgpu\]'"),
        ("generate demo -p x --backend webgpu --gpu-api dawn", r"wgpudawn is not installed.*'msd\[dawn\]'"),
        ("kernels demo", r"the package wgpu is not installed.*'msd\[webgpu\]'"),
        ("convert --size 192x128 -o other", TRACE),
        ("convert h5 -o other", r"needs h5py.*'msd\[trace\]'"),
        ("convert owner/name -o other", r"it needs huggingface_hub: pip install"),
        ("compare demo demo --prompts p.txt", r"needs scikit-image and imagehash.*'msd\[regress\]'"),
        ("distill h5 --prompts p.txt --steps 4 -o other", r"needs accelerate.* torch.*'msd\[train\]'"),
        ("generate demo -p x --backend tflite-runtime", r"tflite-runtime is not installed.*Python 3\.11 and"),
    ],
)
def test_what_needs_more_names_the_extra(words: str, message: str, lean: Lean) -> None:
    (lean.folder / "h5").mkdir(exist_ok=True)
    for name in "abc":
        (lean.folder / f"h5/{name}.h5").write_bytes(b"\x89HDF\r\n\x1a\n")
    (lean.folder / "p.txt").write_text("two red circles\n")
    done = lean.msd(*words.split())
    assert done.returncode == 1, done.stderr
    assert re.search(message, done.stderr), done.stderr
    assert len([line for line in done.stderr.splitlines() if line.startswith("error: ")]) == 1
    assert "Traceback" not in done.stderr


def test_a_package_that_this_python_lacks_is_none_that_an_extra_brings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(LAST_PYTHON, "no_such_package", (3, 9))
    message = (
        r"^x needs no_such_package, and .* not installed; no_such_package exists for Python 3\.9 and older$"
    )
    with pytest.raises(BadConfig, match=message):
        require_packages("x", "trace", "no_such_package")


@pytest.mark.parametrize("command", ["msd.cli:msd", "msd.cli.convert:convert"])
def test_help_needs_no_numpy(command: str) -> None:
    module, _, name = command.partition(":")
    code = f"import sys; from {module} import {name}; {name}(['--help'], standalone_mode=False)"
    done = subprocess.run(
        [sys.executable, "-c", f"{code}; print(*sys.modules)"], cwd=ROOT, capture_output=True, text=True
    )
    *help_text, modules = done.stdout.splitlines()
    assert help_text[0].startswith("Usage:")
    assert not {"numpy", "rich", "PIL", "tensorflow"} & {*modules.split()}
