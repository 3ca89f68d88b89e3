"""Install msd's wheel in empty environments and run the demo there: every Python of this machine, and lean.

    make test-python                            # = python -m scripts.try_pythons build/pythons

A lean environment, of every other Python, has msd without its dependencies and the packages that
docs/installation.md names; the newest other Python has them all, from uv where that is on the PATH, in
FOLDER/newest, which stays. Each converts the demo checkpoint, judges it by the rules, and generates an image.
Prints a line for each, and ends with exit code 1 if one fails.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import click

ROOT = Path(__file__).parent.parent
NAMES = "python3.11", "python3.12", "python3.13", "python3.14"
"""The Pythons that pyproject.toml takes."""
LEAN = re.compile(r"^    pip install (ai-edge-litert==.+)$", re.M)
"""The packages of a lean installation, in docs/installation.md."""
MOST = 350 * 1024 * 1024
"""Bytes that a lean installation may take."""
IMAGE = "--prompt", "two red circles on the left over a striped blue background", "--steps", "4"
DEMO = (
    ("msd-convert", "-o", "demo"),
    ("delegation-report", "demo", "--no-run"),
    ("msd", "generate", "demo", *IMAGE, "-o", "image.png"),
)


def lean_packages(root: Path = ROOT) -> list[str]:
    """Return the packages that docs/installation.md names for a lean installation."""
    found = LEAN.search((root / "docs/installation.md").read_text("utf-8"))
    if found is None:
        raise ValueError("docs/installation.md has no line of a lean installation's packages")
    return found[1].split()


def other_pythons() -> list[str]:
    """Return the other Pythons that msd takes and that start, of the system or of pyenv, the oldest first."""
    found = []
    for name in NAMES:
        places = [
            shutil.which(name),
            *Path.home().glob(f".pyenv/versions/{name.removeprefix('python')}*/bin/{name}"),
        ]
        working = [str(place) for place in places if place and _starts(place)]
        if name != f"python3.{sys.version_info.minor}":
            found += working[:1]
    return found


def _starts(python: str | Path) -> bool:
    return subprocess.run([python, "-c", "import venv"], capture_output=True).returncode == 0


def run(*command: str | Path, folder: Path) -> None:
    """Run a command; raises RuntimeError with its last lines where it fails."""
    words = [str(word) for word in command]
    done = subprocess.run(words, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(words)} ended with {done.returncode}:\n{done.stdout[-3000:]}")


def installer(python: Path, by_uv: bool) -> list[str]:
    """Return the words that install packages for a Python of an environment, before their names."""
    words = ["uv", "pip", "install", "--python", python] if by_uv else [python, "-m", "pip", "install"]
    return [*map(str, words), "--quiet"]


def try_one(python: str, wheel: Path, folder: Path, packages: Sequence[str] | None) -> int:
    """Install the wheel, with its dependencies or these `packages`, and run the demo; return the bytes."""
    shutil.rmtree(folder, ignore_errors=True)
    run(python, "-m", "venv", folder, folder=folder.parent)
    install = installer(folder / "bin/python", by_uv=packages is None and bool(shutil.which("uv")))
    run(*install, *(["--no-deps"] if packages is not None else []), wheel, folder=folder)
    if packages:
        run(*install, *packages, folder=folder)
    size = sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file())
    for name, *words in DEMO:
        run(folder / "bin" / name, *words, folder=folder)
    if packages is not None and size > MOST:
        raise RuntimeError(f"a lean installation takes {size / 2**20:.0f} MiB, more than {MOST / 2**20:.0f}")
    return size


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
def main(folder: Path) -> None:
    """Try msd's wheel in environments below FOLDER; the newest other Python's stays."""
    folder = folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(folder / "newest", ignore_errors=True)
    run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", folder, ROOT, folder=folder)
    (wheel,) = folder.glob("msd-*.whl")
    others = other_pythons()
    asked: list[tuple[str, Sequence[str] | None]] = [(each, lean_packages()) for each in others]
    asked = [*(asked or [(sys.executable, lean_packages())]), *((each, None) for each in others[-1:])]
    failed = False
    for python, packages in asked:
        version = subprocess.check_output([python, "--version"], text=True).strip()
        what = f"{version}, {'lean' if packages else 'whole'}"
        try:
            size = try_one(python, wheel, folder / ("tried" if packages else "newest"), packages)
            click.echo(f"{what}: {size / 2**20:.0f} MiB, the demo is converted and generates")
        except RuntimeError as problem:
            failed = True
            click.echo(f"{what}: {problem}")
    shutil.rmtree(folder / "tried", ignore_errors=True)
    if not others:
        click.echo("no other Python is here that msd takes")
    raise SystemExit(failed)


if __name__ == "__main__":
    main()
