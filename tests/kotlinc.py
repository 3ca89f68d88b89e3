"""Jars of the stubs, of the exported Kotlin and of an app's, compiled if their sources have changed."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import zipfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.shared import exclusive

ROOT = Path(__file__).parents[1]
CACHE = ROOT / "build" / "kotlin"
PACKAGE = "kotlin-compiler@2.4.20"
COMPILER = CACHE / "node_modules" / "kotlin-compiler"
STANDARD = COMPILER / "lib" / "kotlin-stdlib.jar"
COROUTINES = COMPILER / "lib" / "kotlinx-coroutines-core-jvm.jar"
ANNOTATIONS = COMPILER / "lib" / "annotations-13.0.jar"
JSON = Path("/usr/share/java/json-android.jar")
JUNIT = Path("/usr/share/java/junit4.jar")
HAMCREST = Path("/usr/share/java/hamcrest.jar")
LIBRARIES = (COROUTINES, JSON, JUNIT, HAMCREST)
SOURCES = sorted((ROOT / "msd" / "export" / "android" / "kotlin").glob("*.kt"))
ANDROID = sorted((ROOT / "tests" / "android_stubs" / "java").rglob("*.java"))
LITERT = sorted((ROOT / "tests" / "android_stubs" / "litert").glob("*.kt"))
TESTS = sorted((ROOT / "tests" / "kotlin").glob("*.kt"))
FLAGS = ("-Werror", "-jvm-target", "11", "-no-reflect")
JAVA_FLAGS = ("--release", "11", "-encoding", "UTF-8", "-cp", str(ANNOTATIONS))
NEEDS = "Kotlin runs with a Java runtime and npm; on Debian 12: apt-get install openjdk-17-jdk-headless npm"
DEBIAN = {JSON: "libandroid-json-org-java", JUNIT: "junit4", HAMCREST: "libhamcrest-java"}


def library() -> list[Path]:
    """Return the jars of the sources with their tests, and of what they need; skips without a compiler."""
    with _compiler():
        return _library()


def compile_app(sources: Iterable[Path], name: str = "app") -> Path:
    """Return the jar of an app's sources, compiled beside the library; skips without a compiler.

    Of each `name` the last jar is kept.
    """
    with _compiler():
        return _compiled(name, sources, _kotlin, *_against(_library()))


def needed() -> list[Path]:
    """Return the jars that exported Kotlin is compiled against, LiteRT's first; skips without a compiler."""
    with _compiler():
        return _needed()


def compile_against(jars: Iterable[Path], sources: Iterable[Path], name: str, *flags: str) -> Path:
    """Return the jar of Kotlin sources that is called `name`; skips without a compiler."""
    with _compiler():
        return _compiled(name, sources, _kotlin, *flags, "-cp", os.pathsep.join(map(str, jars)))


def class_path(jars: Iterable[Path]) -> str:
    """Return what a JVM needs to run these jars, with Kotlin's own."""
    return os.pathsep.join(map(str, (*jars, STANDARD)))


def misspelt(sources: Iterable[Path]) -> set[str]:
    """Return the names of those files that are no Kotlin, whatever they mean; skips without a compiler."""
    with _compiler():
        said = _kotlinc("-d", str(CACHE / "nothing.jar"), *map(str, sources)).stderr
    return {Path(found).name for found in re.findall(r"^(.+?\.kt):.*error: syntax error", said, re.MULTILINE)}


@contextmanager
def _compiler() -> Iterator[None]:
    """Make sure that there is a compiler, which nobody else runs meanwhile."""
    with exclusive(CACHE):
        _require_compiler()
        yield


def _library() -> list[Path]:
    jars = _needed()
    return [_compiled("sources", [*SOURCES, *TESTS], _kotlin, *_against(jars)), *jars]


def _needed() -> list[Path]:
    android = _compiled("android", ANDROID, _java, *JAVA_FLAGS)
    litert = _compiled("litert", LITERT, _kotlin, "-cp", str(android))
    return [litert, android, *LIBRARIES]


def _against(jars: Iterable[Path]) -> tuple[str, ...]:
    return "-Xexplicit-api=strict", "-cp", os.pathsep.join(map(str, jars))


def _require_compiler() -> None:
    for command in ("java", "javac"):
        if not shutil.which(command):
            pytest.skip(NEEDS)
    for jar, package in DEBIAN.items():
        if not jar.exists():
            pytest.skip(f"Kotlin is tested with {jar}; on Debian 12: apt-get install {package}")
    if not (COMPILER / "bin" / "kotlinc").exists():
        _fetch_compiler()


def _fetch_compiler() -> None:
    if not shutil.which("npm"):
        pytest.skip(NEEDS)
    got = subprocess.run(
        ["npm", "install", "--no-audit", "--no-fund", "--prefix", str(CACHE), PACKAGE],
        capture_output=True,
        text=True,
    )
    if got.returncode:
        pytest.skip(f"npm could not fetch {PACKAGE}: {got.stderr.strip().splitlines()[-1:]}")


def _compiled(name: str, sources: Iterable[Path], compiler: Callable[..., None], *flags: str) -> Path:
    """Return the jar of these sources: one that is there already, or a new one in its place."""
    digest = hashlib.sha256(" ".join([PACKAGE, *FLAGS, *flags]).encode())
    for path in sources:
        digest.update(path.name.encode() + path.read_bytes())
    jar = CACHE / f"{name}-{digest.hexdigest()[:16]}.jar"
    if not jar.exists():
        part = jar.with_suffix(f".{os.getpid()}.jar")
        compiler(part, sources, flags)
        part.rename(jar)
        for old in CACHE.glob(f"{name}-*.jar"):
            if old != jar:
                old.unlink()
    return jar


def _kotlin(jar: Path, sources: Iterable[Path], flags: tuple[str, ...]) -> None:
    made = _kotlinc(*FLAGS, *flags, "-d", str(jar), *map(str, sources))
    assert made.returncode == 0, made.stdout + made.stderr


def _java(jar: Path, sources: Iterable[Path], flags: tuple[str, ...]) -> None:
    with TemporaryDirectory() as folder:
        command = ["javac", *flags, "-d", folder, *map(str, sources)]
        made = subprocess.run(command, capture_output=True, text=True)
        assert made.returncode == 0, made.stdout + made.stderr
        with zipfile.ZipFile(jar, "w") as archive:
            for path in sorted(Path(folder).rglob("*.class")):
                archive.write(path, path.relative_to(folder))


def _kotlinc(*arguments: str) -> subprocess.CompletedProcess[str]:
    settings = {**os.environ, "JAVA_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
    command = ["bash", str(COMPILER / "bin" / "kotlinc"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=settings)
