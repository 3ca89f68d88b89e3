"""Files of the page's model folder, as web-manifest.json lists them."""

from __future__ import annotations

from pathlib import Path

from msd.bundle import file_facts
from msd.export.web.manifest import WebFile


def web_file(path: Path, folder: Path) -> WebFile:
    """Return the record of a file below `folder`, the manifest's; raises OSError."""
    facts = file_facts(path)
    return WebFile(path.relative_to(folder).as_posix(), facts.bytes, facts.sha256)
