"""A source tree that has one file more than this one: the rest are links."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
MSD = "from msd.cli import msd; msd()"


def add_file(tree: Path, place: str, text: str) -> None:
    """Make `tree` such a tree: `text` stands in the file `place`, which this one does not have."""
    assert not (ROOT / place).exists()
    folder = Path()
    for part in Path(place).parts:
        (tree / folder).mkdir()
        for entry in (ROOT / folder).iterdir():
            if entry.name not in (part, "__pycache__") and not entry.name.startswith("."):
                (tree / folder / entry.name).symlink_to(entry)
        folder /= part
    (tree / place).write_text(text, "utf-8")


def run_python(tree: Path, code: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Run code with that tree's packages."""
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        cwd=tree.parent,
        env={**os.environ, "PYTHONPATH": str(tree)},
        capture_output=True,
        text=True,
        check=False,
    )
