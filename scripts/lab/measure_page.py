"""Print what a visit to an exported page costs before the model is fetched, in bytes.

    python -m scripts.lab.measure_page

The page is its HTML, its style sheet and the modules that it imports; the library is the worker and the
modules that it imports. Modules that are imported later, when somebody asks for them, are not counted. Each
file is compressed by itself with gzip, as servers do.
"""

from __future__ import annotations

import gzip
import re
from dataclasses import dataclass
from pathlib import Path

import click

from msd.export import web

SITE = Path(web.__file__).parent / "site"
IMPORT = re.compile(r"^(?:import|export)\b[^;]*?'(\.[^']+)';", re.MULTILINE)


@dataclass(frozen=True)
class Transfer:
    """How many bytes some files have, and how many when each is compressed."""

    bytes: int
    compressed: int


@click.command(help=__doc__)
def main() -> None:
    """Print two lines."""
    for name, size in measured(SITE).items():
        print(f"{name}: {size.bytes / 1000:.0f} kB, compressed {size.compressed / 1000:.0f} kB")


def measured(site: Path) -> dict[str, Transfer]:
    """Return the sizes of the page and of the library."""
    page = {site / "index.html", site / "page.css", *modules(site / "page" / "main.js")}
    return {"page": _size(page), "library": _size(modules(site / "worker.js"))}


def modules(root: Path) -> set[Path]:
    """Return a module and all that it and they import at once."""
    found: set[Path] = set()
    waiting = [root.resolve()]
    while waiting:
        path = waiting.pop()
        if path not in found:
            found.add(path)
            waiting += [(path.parent / name).resolve() for name in IMPORT.findall(path.read_text("utf-8"))]
    return found


def _size(files: set[Path]) -> Transfer:
    texts = [path.read_bytes() for path in files]
    return Transfer(sum(map(len, texts)), sum(len(gzip.compress(text)) for text in texts))


if __name__ == "__main__":
    main()
