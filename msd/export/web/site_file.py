"""The files of a site that a web server may show, by the path of a request."""

from __future__ import annotations

import os
import re
from pathlib import Path
from urllib.parse import unquote

INDEX = "index.html"
TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".ico": "image/vnd.microsoft.icon",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".mjs": "text/javascript; charset=utf-8",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
    ".wasm": "application/wasm",
    ".webmanifest": "application/manifest+json",
}
BYTES = "application/octet-stream"
BY_CONTENT = re.compile(r"model/weights/([0-9a-f]{32})\.bin")
"""The name of a file whose bytes never change."""
YEAR = 365 * 24 * 60 * 60
"""Seconds."""


def find_file(folder: Path, target: str) -> Path | None:
    """Return the file that the target of a request names below `folder`, a path without links.

    None where there is none, or where it is hidden or a link leads out of the folder.
    """
    path = target.partition("#")[0].partition("?")[0]
    try:
        names = unquote(path, errors="strict").split("/")
        if names[-1] == "":
            names[-1] = INDEX
        if names[0] or not all(map(_is_name, names[1:])):
            return None
        found = folder.joinpath(*names[1:]).resolve(strict=True)
    except (OSError, RuntimeError, ValueError):
        return None
    return found if found.is_file() and found.is_relative_to(folder) else None


def media_type(path: Path) -> str:
    """Return the Content-Type of a file."""
    return TYPES.get(path.suffix, BYTES)


def entity_tag(name: str, status: os.stat_result) -> str:
    """Return the ETag of a file, whose name is relative to the folder, in quotes."""
    match = BY_CONTENT.fullmatch(name)
    return f'"{match[1]}"' if match else f'"{status.st_mtime_ns:x}-{status.st_size:x}"'


def cache_control(name: str) -> str:
    """Return how long a browser may keep a file: for ever, or until the server has a newer one."""
    return f"public, max-age={YEAR}, immutable" if BY_CONTENT.fullmatch(name) else "no-cache"


def _is_name(name: str) -> bool:
    return bool(name) and not name.startswith(".") and name.isprintable() and "\\" not in name
