"""shell.json: the page's own files, which the service worker keeps so that the page opens without a network.

Weights and programs are not among them: the page keeps these itself (msd/store.js of the page). LiteRT.js is
large, so it is kept once it has been used.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from msd.bundle import file_facts

NAME = "shell.json"
MODEL, LITERT = "model", "litert"
MODEL_FILES = "web-manifest.json", "sd-manifest.json", "tokens.txt", "merges.txt"
NOT_SHOWN = NAME, "service-worker.js", "sd-export.json"
NOT_SHOWN_ENDINGS = (".md",)


def write_shell(site: Path) -> None:
    """Write shell.json of a site that is complete otherwise.

    `files` and `later` are SHA-256 by path with slashes; `version` is that of all of them. Raises OSError.
    """
    names = sorted(path.relative_to(site).as_posix() for path in site.rglob("*") if path.is_file())
    files = {name: file_facts(site / name).sha256 for name in names if _is_shown(name)}
    later = {name: file_facts(site / name).sha256 for name in names if name.startswith(f"{LITERT}/")}
    version = hashlib.sha256(json.dumps([files, later]).encode()).hexdigest()
    text = json.dumps({"version": version, "files": files, "later": later}, indent=2)
    (site / NAME).write_text(text + "\n", "utf-8")


def _is_shown(name: str) -> bool:
    folder, _, rest = name.partition("/")
    if folder == MODEL and rest:
        return rest in MODEL_FILES
    hidden = folder == LITERT or folder.startswith(".") or name in NOT_SHOWN
    return not hidden and not name.endswith(NOT_SHOWN_ENDINGS)
