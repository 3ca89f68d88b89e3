"""The Kotlin sources compiled by the real compiler, and one JVM that runs them for all tests."""

from __future__ import annotations

import base64
import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).parents[1]
CACHE = ROOT / "build" / "kotlin"
PACKAGE = "kotlin-compiler@2.4.20"
COMPILER = CACHE / "node_modules" / "kotlin-compiler"
STANDARD = COMPILER / "lib" / "kotlin-stdlib.jar"
SOURCES = sorted((ROOT / "msd" / "export" / "android" / "kotlin").glob("*.kt"))
STUBS = sorted((ROOT / "tests" / "android_stubs").glob("*.kt"))
TESTS = sorted((ROOT / "tests" / "kotlin").glob("*.kt"))
FLAGS = ("-Werror", "-jvm-target", "11", "-no-reflect")
Serve = Callable[[str, dict[str, np.ndarray]], np.ndarray]
NEEDS = "Kotlin runs with a Java runtime and npm; on Debian 12: apt-get install openjdk-17-jre-headless npm"


class Jvm:
    """A process that answers commands of tests/kotlin/Main.kt; a context manager."""

    def __init__(self, jar: Path, stubs: Path) -> None:
        path = os.pathsep.join(map(str, (jar, stubs, STANDARD)))
        self._process = subprocess.Popen(
            ["java", "-XX:+UseSerialGC", "-Dfile.encoding=UTF-8", "-cp", path, "dev.msd.runtime.MainKt"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        )

    def ask(self, do: str, serve: Serve | None = None, **command: Any) -> Any:
        """Return what the command gives; raises Refused with the exception's name and message.

        `serve` gives the output of a network that the command runs, from its role and its inputs.
        """
        answer = self._answer(json.dumps({"do": do, **command}))
        while serve is not None and "run" in answer:
            given = {
                name: np.array(v, np.int32) if isinstance(v, list) else floats(v)
                for name, v in answer["inputs"].items()
            }
            answer = self._answer(sent(serve(answer["run"], given)))
        if "error" in answer:
            raise Refused(f"{answer['error']}: {answer['message']}")
        return answer["ok"]

    def _answer(self, line: str) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        said = self._process.stdout.readline()
        assert said, f"the JVM ended with {self._process.wait()}"
        answer: dict[str, Any] = json.loads(said)
        return answer

    def __enter__(self) -> Jvm:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.communicate(timeout=60)


class Refused(Exception):
    """An exception of the Kotlin sources."""


def start() -> Jvm:
    """Return a JVM with the sources as they are, compiled if they have changed; skips without a compiler."""
    with _compiler():
        stubs, jar = _library()
    return Jvm(jar, stubs)


def compile_app(sources: Iterable[Path]) -> Path:
    """Return the jar of an app's sources, compiled beside the library; skips without a compiler."""
    with _compiler():
        path = os.pathsep.join(map(str, _library()))
        return _compiled("app", sources, "-Xexplicit-api=strict", "-cp", path)


def class_path(app: Path) -> str:
    """Return what a JVM needs to run an app's jar, which `compile_app` has made."""
    return os.pathsep.join(map(str, (app, *_library(), STANDARD)))


def misspelt(sources: Iterable[Path]) -> set[str]:
    """Return the names of those files that are no Kotlin, whatever they mean; skips without a compiler."""
    with _compiler():
        said = _kotlinc("-d", str(CACHE / "nothing.jar"), *map(str, sources)).stderr
    return {Path(found).name for found in re.findall(r"^(.+?\.kt):.*error: syntax error", said, re.MULTILINE)}


@contextmanager
def _compiler() -> Iterator[None]:
    """Make sure that there is a compiler, which nobody else runs meanwhile."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        _require_compiler()
        yield


def _library() -> tuple[Path, Path]:
    """Return the jars of the stubs, and of the sources with their tests."""
    stubs = _compiled("stubs", STUBS)
    return stubs, _compiled("sources", [*SOURCES, *TESTS], "-Xexplicit-api=strict", "-cp", str(stubs))


def floats(text: str) -> np.ndarray:
    """Return float32 numbers as the JVM sends them."""
    return np.frombuffer(base64.b64decode(text), "<f4")


def sent(values: np.ndarray) -> str:
    """Return float32 numbers as the JVM takes them."""
    return base64.b64encode(np.ascontiguousarray(values, "<f4").tobytes()).decode()


def _require_compiler() -> None:
    if not shutil.which("java"):
        pytest.skip(NEEDS)
    if (COMPILER / "bin" / "kotlinc").exists():
        return
    if not shutil.which("npm"):
        pytest.skip(NEEDS)
    got = subprocess.run(
        ["npm", "install", "--no-audit", "--no-fund", "--prefix", str(CACHE), PACKAGE],
        capture_output=True,
        text=True,
    )
    if got.returncode:
        pytest.skip(f"npm could not fetch {PACKAGE}: {got.stderr.strip().splitlines()[-1:]}")


def _compiled(name: str, sources: Iterable[Path], *flags: str) -> Path:
    """Return the jar of these sources: one that is there already, or a new one in its place."""
    digest = hashlib.sha256(" ".join([PACKAGE, *FLAGS, *flags]).encode())
    for path in sources:
        digest.update(path.name.encode() + path.read_bytes())
    jar = CACHE / f"{name}-{digest.hexdigest()[:16]}.jar"
    if not jar.exists():
        _compile(sources, jar, flags)
        for old in CACHE.glob(f"{name}-*.jar"):
            if old != jar:
                old.unlink()
    return jar


def _compile(sources: Iterable[Path], jar: Path, flags: tuple[str, ...]) -> None:
    part = jar.with_suffix(f".{os.getpid()}.jar")
    made = _kotlinc(*FLAGS, *flags, "-d", str(part), *map(str, sources))
    assert made.returncode == 0, made.stdout + made.stderr
    part.rename(jar)


def _kotlinc(*arguments: str) -> subprocess.CompletedProcess[str]:
    settings = {**os.environ, "JAVA_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
    command = ["bash", str(COMPILER / "bin" / "kotlinc"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=settings)
