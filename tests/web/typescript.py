"""TypeScript's compiler, which checks the page's JavaScript and writes the library's declarations."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from tests.web.node import node, packages

HERE = Path(__file__).parent
PAGE, WORKER = "tsconfig.page.json", "tsconfig.worker.json"
DECLARE = "--noEmit", "false", "--declaration", "--emitDeclarationOnly", "--rootDir", "site"


def copied(site: Path, folder: Path) -> Path:
    """Return `folder` with the modules of `site` in it, and how to check them."""
    shutil.copytree(site, folder / "site", ignore=shutil.ignore_patterns("model", "litert"))
    for config in (PAGE, WORKER):
        shutil.copy(HERE / config, folder)
    return folder


def tsc(folder: Path, config: str, *flags: str) -> str:
    """Return what TypeScript finds wrong in `folder`, made by `copied`; skips where there is no TypeScript.

    `config` is PAGE or WORKER: who runs the modules, a page or a worker.
    """
    modules = packages()
    compiler = modules / "typescript" / "bin" / "tsc"
    command = [node(), str(compiler), "--project", config, "--typeRoots", str(modules), *flags]
    got = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert (got.returncode == 0) == (got.stdout == ""), got.stderr
    return got.stdout
