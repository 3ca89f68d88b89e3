"""The files of docs/results: what each one records of its making, which are older than their code, and anew.

    python -m scripts.figures                   # = the last part of make check; lists, and never fails
    make results ONLY=recipes                   # = python -m scripts.figures recipes: runs the command in it

A benchmark writes its file by `save_figures`, which adds `MADE`; `msd bench` has a date and a fingerprint of
its own. Files from before have `WRITTEN`, the commit that last wrote them: `git log --follow` proves no more.
"""

from __future__ import annotations

import json
import os
import platform
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

import msd
from msd.files.fingerprint import code_fingerprint
from msd.files.packages import installed_versions
from msd.run.runners.machine import this_machine

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "docs/results"
MADE, WRITTEN = "made", "last written, by git log --follow"
PACKAGES = "ai-edge-litert", "numpy", "tensorflow", "torch", "diffusers", "wgpu", "wgpudawn", "tflite-runtime"
"""The packages whose versions are recorded where they are installed."""


def save_figures(path: Path, figures: Mapping[str, Any], *code: str, indent: int = 2) -> None:
    """Write figures as JSON with what they were made of and when; `code`: places such as "msd/gpu".

    The fingerprint is that of our source files there, by which `make check` knows when they have changed.
    """
    rest = {name: value for name, value in figures.items() if name not in (MADE, WRITTEN)}
    text = json.dumps({MADE: made(*code), **rest}, indent=indent, ensure_ascii=False)
    path.write_text(text + "\n", "utf-8")


def made(*code: str) -> dict[str, Any]:
    """Return the date, commit, versions, machine and command of now, and the fingerprint of `code`."""
    machine = this_machine()
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "commit": _commit(),
        "command": _command(),
        "machine": f"{machine.architecture}, {machine.system}, {machine.cores} cores",
        "versions": {
            "msd": msd.__version__,
            "python": platform.python_version(),
            **installed_versions(*PACKAGES),
        },
        "code": {"of": [*code], "fingerprint": code_fingerprint(*code)},
    }


def _commit() -> str:
    """Return the commit of the checkout, with a + where files differ from it; "" outside git."""
    try:
        words = ["git", "describe", "--always", "--exclude=*", "--dirty=+"]
        return subprocess.run(words, cwd=ROOT, capture_output=True, text=True).stdout.strip()
    except FileNotFoundError:
        return ""


def _command() -> str:
    """Return the running command; folders outside the checkout keep their names alone."""
    main = sys.modules["__main__"]
    script = ["-m", main.__spec__.name.removesuffix(".__main__")] if main.__spec__ else sys.argv[:1]
    words = [Path(word).name if word.startswith("/") else word for word in (*script, *sys.argv[1:])]
    return shlex.join(["python", *words])


def read_figures(path: Path) -> dict[str, Any]:
    """Return the content of a file of results."""
    found: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return found


def ages(folder: Path = RESULTS) -> Iterator[str]:
    """Yield a line for each file whose code has changed since, and one for files without a fingerprint."""
    old = []
    for path in sorted(folder.glob("*.json")):
        figures = read_figures(path)
        date, places, fingerprint = _origin(figures)
        if not fingerprint:
            old.append(path.stem)
        elif fingerprint != code_fingerprint(*places):
            changed = " or ".join(places)
            yield f"{path.name} of {date}: {changed} has changed since; make results ONLY={path.stem}"
    if old:
        yield f"{len(old)} files do not say which code they measured, only when git last wrote them"


def _origin(figures: Mapping[str, Any]) -> tuple[str, list[str], str]:
    """Return a file's date, the places of the code that it measured, and their fingerprint, "" if unknown."""
    if MADE in figures:
        return figures[MADE]["date"], figures[MADE]["code"]["of"], figures[MADE]["code"]["fingerprint"]
    return figures.get("date", ""), ["graph_rewrites", "msd"], figures.get("code", "")


def undated(folder: Path = RESULTS) -> list[str]:
    """Return the names of files that record neither when they were made nor when they were written."""
    found = {path.name: read_figures(path) for path in sorted(folder.glob("*.json"))}
    return [name for name, figures in found.items() if not _origin(figures)[2] and WRITTEN not in figures]


def commands_of(figures: Mapping[str, Any]) -> list[str]:
    """Return the commands that made a file, as it records them; none where nothing was kept."""
    if MADE in figures:
        return [figures[MADE]["command"]]
    found = figures.get("commands", figures.get("command", []))
    lines = [found] if isinstance(found, str) else list(found.values() if isinstance(found, dict) else found)
    return [_today(line) for line in lines]


def _today(command: str) -> str:
    """Return a command with the place that its script has today, for one from before scripts/lab/."""
    words = command.split(" ")
    for i, word in enumerate(words):
        name = word.removeprefix("scripts.").removeprefix("scripts/").removesuffix(".py")
        moved = not (ROOT / f"scripts/{name}.py").exists() and (ROOT / f"scripts/lab/{name}.py").exists()
        if word != name and moved:
            words[i] = f"scripts/lab/{name}.py" if word.endswith(".py") else f"scripts.lab.{name}"
    return " ".join(words)


def make(name: str, folder: Path = RESULTS) -> None:
    """Run the commands that a file of results records; raises click.ClickException where there is none."""
    path = folder / f"{name.removesuffix('.json')}.json"
    if not path.is_file():
        raise click.ClickException(f"{path} does not exist; ONLY is the name of a file in docs/results")
    if not (commands := commands_of(read_figures(path))):
        raise click.ClickException(f"{path} records no command; a page of docs says how it was made")
    places = [str(Path(sys.executable).parent), os.environ.get("PATH", "")]
    environment = {**os.environ, "PATH": os.pathsep.join(places), "PYTHONPATH": str(ROOT)}
    for command in commands:
        click.echo(command, err=True)
        if code := subprocess.run(command, shell=True, cwd=ROOT, env=environment).returncode:
            raise click.ClickException(f"{command} ended with {code}")


@click.command()
@click.argument("names", nargs=-1)
def main(names: tuple[str, ...]) -> None:
    """List the files of docs/results that are older than their code, or make those called NAMES anew."""
    for name in names:
        make(name)
    if not names:
        for line in ages():
            click.echo(line)


if __name__ == "__main__":
    main()
