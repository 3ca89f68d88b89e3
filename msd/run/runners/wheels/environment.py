"""Virtual environments with one version of ai-edge-litert each, kept in msd's cache.

    litert = find_litert("2.1.5")       # or "nightly", or the folder of an environment of your own

An environment is made beside its place and moved there whole, by one maker at a time.
"""

from __future__ import annotations

import logging
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from time import time

from msd.errors import BadConfig, NoDelegate, OutputUnwritable
from msd.files.cache import cache_root
from msd.files.staging import beside, staging_folder

VERSION = re.compile(r"\d+\.\d+\.\d+(\.dev\d+)?")
NIGHTLY, DAY = "nightly", 24 * 3600.0
ACCELERATOR = "libLiteRtWebGpuAccelerator.so"
FIRST = "2.1.2"
"""The first release whose wheel for Linux holds a GPU accelerator."""

NO_ACCELERATOR = f"ai-edge-litert {{}} has no GPU accelerator for Linux; {FIRST} is the first that has one"

UNDECLARED = "ml_dtypes"
"""A package that the wheel of 2.1.6 needs and does not declare."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class LiteRt:
    """LiteRT of one version in an environment, whose `python` runs it.

    `chooses_precision`: its Python API lets a caller choose the precision of the GPU's arithmetic. Otherwise
    it is float16 where the GPU has that.
    """

    version: str
    python: Path
    chooses_precision: bool


def find_litert(name: str) -> LiteRt:
    """Return the LiteRT of a version, of the newest nightly wheel ("nightly"), or in an environment's folder.

    The environment of a version is made at its first use. Raises BadConfig for a name that is none of these,
    and NoDelegate for a version that cannot be installed or has no GPU accelerator.
    """
    if name == NIGHTLY:
        return _nightly()
    if VERSION.fullmatch(name):
        if _numbers(name) < _numbers(FIRST):
            raise NoDelegate(NO_ACCELERATOR.format(name))
        return _known(_place(name)) or _make(name, f"{_package(name)}=={name}")
    folder = Path(name).expanduser()
    if not (folder / "bin/python").exists():
        raise BadConfig(
            f"{name} is neither a version of ai-edge-litert, nor {NIGHTLY}, nor an environment's folder"
        )
    return _of(folder.absolute())


def is_version(name: str) -> bool:
    """Return whether `name` is a version of the wheel, or the nightly one."""
    return name == NIGHTLY or VERSION.fullmatch(name) is not None


def _place(version: str) -> Path:
    return cache_root() / "litert" / f"{version}-{sys.implementation.cache_tag}"


def _package(version: str) -> str:
    return "ai-edge-litert-nightly" if ".dev" in version else "ai-edge-litert"


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")[:3]))


def _known(folder: Path) -> LiteRt | None:
    """Return the LiteRT of an environment that is there and whose Python still exists, else None."""
    return _of(folder) if (folder / "bin/python").exists() else None


def _of(folder: Path) -> LiteRt:
    """Return what an environment has; raises NoDelegate where that is no LiteRT with a GPU accelerator."""
    package = next(folder.glob("lib/python*/site-packages/ai_edge_litert"), None)
    wheel = next(folder.glob("lib/python*/site-packages/ai_edge_litert*.dist-info"), None)
    if package is None or wheel is None:
        raise NoDelegate(f"{folder} has no ai-edge-litert; install it there, or name a version of it")
    version = wheel.name.removesuffix(".dist-info").partition("-")[2]
    if not (package / ACCELERATOR).is_file():
        raise NoDelegate(NO_ACCELERATOR.format(version))
    return LiteRt(version, folder / "bin/python", (package / "gpu_options.py").is_file())


def _nightly() -> LiteRt:
    """Return the newest nightly wheel's LiteRT, looked up once a day; the last one's where that fails."""
    note = cache_root() / "litert" / NIGHTLY
    last = _known(_place(note.read_text().strip())) if note.is_file() else None
    if last is not None and time() - note.stat().st_mtime < DAY:
        return last
    try:
        newest = _make(NIGHTLY, "ai-edge-litert-nightly")
    except NoDelegate as problem:
        if last is None:
            raise
        log.warning("The newest nightly wheel cannot be had, so this is %s: %s", last.version, problem)
        return last
    note.write_text(f"{newest.version}\n")
    return newest


def _make(name: str, requirement: str) -> LiteRt:
    """Return the LiteRT of `requirement` in a new environment, unless another run has made it meanwhile."""
    place = _place(name)
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with staging_folder(beside(place), place, wait=True) as scratch:
            made = _known(place)
            if made is None:
                log.info("Making an environment of %s, about 150 MB, in %s.", requirement, place.parent)
                _install(scratch / place.name, requirement)
                made = _settled(scratch / place.name)
            return made
    except OSError as problem:
        raise OutputUnwritable(f"{place} cannot be written: {problem.strerror or problem}") from None


def _settled(folder: Path) -> LiteRt:
    """Return the LiteRT of a whole environment at the place of its version, moved there."""
    place = _place(_of(folder).version)
    if _known(place) is None:
        shutil.rmtree(place, ignore_errors=True)
        folder.rename(place)
    return _of(place)


def _install(folder: Path, requirement: str) -> None:
    """Install into a new environment by the pip that is here, since a copy of pip takes ten times as long."""
    ours = find_spec("pip") is not None
    made = _run(sys.executable, "-m", "venv", *(["--without-pip"] if ours else []), str(folder))
    if made.returncode:
        raise NoDelegate(f"no virtual environment can be made here: {_last_line(made)}")
    python = str(folder / "bin/python")
    pip = (sys.executable, "-m", "pip", "--python", python) if ours else (python, "-m", "pip")
    settings = ["-q", "--retries", "1", "--only-binary", ":all:"]
    settings += ["--pre"] if "nightly" in requirement else []
    done = _run(*pip, "install", *settings, requirement, UNDECLARED)
    if done.returncode:
        raise NoDelegate(_refusal(requirement, done))


def _run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)


def _refusal(requirement: str, done: subprocess.CompletedProcess[str]) -> str:
    """Return in a sentence why pip did not install `requirement`."""
    versions = re.search(r"\(from versions: ([^)]*)\)", done.stderr)
    if versions is None:
        return f"{requirement} cannot be installed: {_last_line(done)}"
    if versions[1] == "none":
        return (
            f"{requirement} cannot be fetched: the package index cannot be reached, or has none for this"
            " Python; connect, or name the folder of an environment that has it"
        )
    return f"there is no {requirement} for this Python; there are {versions[1]}"


def _last_line(done: subprocess.CompletedProcess[str]) -> str:
    lines = (line.strip() for line in reversed(done.stderr.splitlines()))
    return next(filter(None, lines), f"exit code {done.returncode}").removeprefix("ERROR: ")
