"""Node.js, and the npm packages that check and drive the page: fetched once into build/web."""

from __future__ import annotations

import json
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.shared import exclusive

ROOT = Path(__file__).parents[2]
SITE = ROOT / "msd/export/web/site"
CACHE = ROOT / "build/web"
PACKAGES = "typescript@7.0.2", "@webgpu/types@0.1.66", "axe-core@4.11.0"
NEEDS = "the page's modules are tested with Node.js and npm; on Debian 12: apt-get install npm"


def node() -> str:
    """Return the path of Node.js; skips the test where there is none."""
    path = shutil.which("node")
    if path is None:
        pytest.skip(NEEDS)
    return path


def evaluate(script: str, *arguments: Any) -> Any:
    """Return what a script prints as JSON: an ES module that may import from SITE, whose `input` is a list.

    `arguments` are JSON values.
    """
    opening = "import { readFileSync } from 'node:fs';\nconst input = JSON.parse(readFileSync(0, 'utf8'));\n"
    got = subprocess.run(
        [node(), "--input-type=module", "--eval", opening + script],
        input=json.dumps(arguments),
        capture_output=True,
        text=True,
        cwd=SITE,
        timeout=300,
    )
    assert got.returncode == 0, got.stderr
    return json.loads(got.stdout)


@cache
def packages() -> Path:
    """Return the folder node_modules with PACKAGES; skips the test where they cannot be had."""
    modules = CACHE / "node_modules"
    if not shutil.which("npm"):
        pytest.skip(NEEDS)
    with exclusive(CACHE):
        wanted = "\n".join(PACKAGES)
        done = CACHE / "packages.txt"
        if done.exists() and done.read_text("utf-8") == wanted:
            return modules
        command = [
            "npm",
            "install",
            "--no-audit",
            "--no-fund",
            "--no-save",
            "--prefix",
            str(CACHE),
            *PACKAGES,
        ]
        got = subprocess.run(command, capture_output=True, text=True)
        if got.returncode:
            pytest.skip(f"npm could not fetch {' '.join(PACKAGES)}: {got.stderr.strip().splitlines()[-1:]}")
        done.write_text(wanted, "utf-8")
    return modules
