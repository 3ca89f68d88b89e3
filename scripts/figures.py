"""The files of docs/results: what each one records of its making, which are older than their code, and anew.

    python -m scripts.figures                   # = the last part of make check; lists, and never fails
    make results ONLY=recipes                   # = python -m scripts.figures recipes: runs the command in it
    make results ONLY=rounding/mixed            # = one run of a study that has several

A benchmark writes its file by `save_figures`, which adds `MADE`; `msd bench` has a date and a fingerprint of
its own. Files from before have `WRITTEN`, the commit that last wrote them: `git log --follow` proves no more.
The runs of a study are in one file, each with its own MADE or WRITTEN: docs/results/rounding.json/mixed is a
run in docs/results/rounding.json.
"""

from __future__ import annotations

import json
import os
import platform
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
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
RUNS = "runs of the study"
OWN: dict[str, tuple[str, ...]] = {
    "compare-few-steps": ("msd/train", "msd/run/runtime"),
    "compare-int8": ("graph_rewrites", "msd/compress/encoding", "msd/train/comparison", "msd/run/runtime"),
    "demo-blocks": ("graph_rewrites", "msd/compress/encoding", "msd/measure/blockwise"),
    "demo-sensitivity": ("graph_rewrites", "msd/compress/encoding", "msd/measure/blockwise"),
}
"""Files that commands of msd write, which record no code of their own, and the code that they measure."""
PACKAGES = "ai-edge-litert", "numpy", "tensorflow", "torch", "diffusers", "wgpu", "wgpudawn", "tflite-runtime"
"""The packages whose versions are recorded where they are installed."""


def save_figures(path: Path, figures: Mapping[str, Any], *code: str, indent: int = 2) -> None:
    """Write figures as JSON with what they were made of and when; `code`: places such as "msd/gpu".

    The fingerprint is that of our source files there, by which `make check` knows when they have changed. In
    the file of a study, STUDY.json/RUN, the other runs stay.
    """
    rest = {name: value for name, value in figures.items() if name not in (MADE, WRITTEN)}
    _write(path, {MADE: made(*code), **rest}, indent)


def _write(path: Path, figures: Mapping[str, Any], indent: int = 2) -> None:
    if run := _run(path):
        path, run = path.parent, path.name
        figures = {RUNS: {**read_figures(path).get(RUNS, {}), run: figures}}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(figures, indent=indent, ensure_ascii=False) + "\n", "utf-8")


def _run(path: Path) -> str:
    """Return the name of a run in the file of a study, "" for a whole file."""
    return path.name if path.parent.suffix == ".json" else ""


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
    """Return the commit of the checkout, with a + where files but those of results differ; "" outside git."""
    try:
        head = _git("describe", "--always", "--exclude=*")
        changed = _git("status", "--porcelain", "--untracked-files=no", "--", ".", ":!docs/results")
    except FileNotFoundError:
        return ""
    return head + "+" * bool(changed)


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True).stdout.strip()


def _command() -> str:
    """Return the running command; folders outside the checkout keep their names alone."""
    main = sys.modules["__main__"]
    script = ["-m", main.__spec__.name.removesuffix(".__main__")] if main.__spec__ else sys.argv[:1]
    words = [Path(word).name if word.startswith("/") else word for word in (*script, *sys.argv[1:])]
    return shlex.join(["python", *words])


def read_figures(path: Path) -> dict[str, Any]:
    """Return the content of a file of results, or of a run in one; nothing where there is none yet."""
    if run := _run(path):
        return dict(read_figures(path.parent).get(RUNS, {}).get(run, {}))
    return dict(json.loads(path.read_text("utf-8"))) if path.is_file() else {}


def runs_of(figures: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return the runs of a study by name; a file that is none is its only run, ""."""
    return dict(figures.get(RUNS, {"": figures}))


def ages(folder: Path = RESULTS) -> Iterator[str]:
    """Yield a line for each run whose code has changed since, then one for each file without fingerprint."""
    unknown: dict[str, list[str]] = {}
    for path in sorted(folder.glob("*.json")):
        for run, figures in runs_of(read_figures(path)).items():
            date, places, fingerprint = _origin(figures)
            name = f"{path.stem}/{run}" if run else path.stem
            if not fingerprint:
                unknown.setdefault(path.name, []).append(date)
            elif fingerprint != code_fingerprint(*places):
                changed = " or ".join(places)
                yield f"{name} of {date}: {changed} has changed since; make results ONLY={name}"
    for file, dates in unknown.items():
        since = " to ".join(sorted({min(dates), max(dates)}))
        yield f"{file}: as last written, {since}; docs/lab.md says why it is not made anew"


def _origin(figures: Mapping[str, Any]) -> tuple[str, list[str], str]:
    """Return a run's date, the places of the code that it measured, and their fingerprint, "" if unknown."""
    if MADE in figures:
        return figures[MADE]["date"], figures[MADE]["code"]["of"], figures[MADE]["code"]["fingerprint"]
    if "code" in figures:
        return figures["date"], ["graph_rewrites", "msd"], figures["code"]
    return figures.get(WRITTEN, {}).get("date", ""), [], ""


def undated(folder: Path = RESULTS) -> list[str]:
    """Return the names of files that record neither when they were made nor when they were written."""
    found = {path.name: runs_of(read_figures(path)) for path in sorted(folder.glob("*.json"))}
    return [name for name, runs in found.items() if not all(_origin(each)[0] for each in runs.values())]


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


def _into(path: Path, run: str, command: str) -> str:
    """Return a command that writes a run of a study into its file, also one from before it was there."""
    return re.sub(r"-o \S+\.json(/\S+)?", f"-o {path}/{run}", command) if run else command


def make(name: str, folder: Path = RESULTS) -> None:
    """Run the commands that a file of results records; raises click.ClickException where there is none.

    `name` is that of a file, or of a run in one: STUDY/RUN.
    """
    stem, _, wanted = name.removesuffix(".json").partition("/")
    path = folder / f"{stem}.json"
    if not path.is_file():
        raise click.ClickException(f"{path} does not exist; ONLY is the name of a file in docs/results")
    runs = runs_of(read_figures(path))
    if wanted and wanted not in runs:
        known = ", ".join(run for run in runs if run) or "none"
        raise click.ClickException(f"{path} has no run {wanted}; it has {known}")
    chosen = {run: each for run, each in runs.items() if wanted in ("", run)}
    commands = [_into(path, run, line) for run, each in chosen.items() for line in commands_of(each)]
    if not commands:
        raise click.ClickException(f"{path} records no command; a page of docs says how it was made")
    for command in commands:
        _run_command(command)
    if stem in OWN:
        stamp(path, commands, *OWN[stem])


def _run_command(command: str) -> None:
    places = [str(Path(sys.executable).parent), os.environ.get("PATH", "")]
    environment = {**os.environ, "PATH": os.pathsep.join(places), "PYTHONPATH": str(ROOT)}
    click.echo(command, err=True)
    if code := subprocess.run(command, shell=True, cwd=ROOT, env=environment).returncode:
        raise click.ClickException(f"{command} ended with {code}")


def stamp(path: Path, commands: Sequence[str], *code: str) -> None:
    """Add to a file that a command of msd has written what `save_figures` adds."""
    save_figures(path, read_figures(path), *code)
    figures = read_figures(path)
    figures[MADE]["command"] = " && ".join(commands)
    _write(path, figures)


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
