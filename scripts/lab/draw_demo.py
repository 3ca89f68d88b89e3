"""Make the two images at the top of the README from the folder that `make demo` wrote.

    python -m scripts.lab.draw_demo demo-out

docs/images/demo.png is the generated image, twice as large. docs/images/verdict.svg is the
output of `delegation-report` about the real delegate.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from io import StringIO
from pathlib import Path

import click
from PIL import Image
from rich.console import Console
from rich.text import Text

IMAGES = Path(__file__).parents[2] / "docs" / "images"
REPORT = "from msd.cli.report import report; report()"
VERDICT, COLUMNS, SCALE = "LiteRT ", 82, 2
"""The first words of the verdict, its columns, and the factor that enlarges the image."""


def verdict(bundle: Path) -> str:
    """Return the output of `delegation-report` about the real delegate, with the colours of a terminal."""
    env = os.environ | {"FORCE_COLOR": "1", "TERM": "xterm-256color", "COLUMNS": str(COLUMNS)}
    command = [sys.executable, "-c", REPORT, str(bundle)]
    printed = subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout
    return printed[printed.index(VERDICT) :]


def terminal(text: str, title: str) -> str:
    """Return an SVG image of a terminal that shows `text`; it loads no fonts from the network."""
    console = Console(record=True, width=COLUMNS, file=StringIO())
    console.print(Text.from_ansi(text), no_wrap=True)
    picture = console.export_svg(title=title, unique_id="verdict")
    return re.sub(r"@font-face \{.*?\}\s*", "", picture, flags=re.S)


@click.command()
@click.argument("bundle", type=click.Path(path_type=Path, exists=True))
def main(bundle: Path) -> None:
    """Write docs/images/demo.png and docs/images/verdict.svg."""
    with Image.open(bundle / "picture.png") as image:
        size = image.width * SCALE, image.height * SCALE
        image.resize(size, Image.Resampling.LANCZOS).save(IMAGES / "demo.png", optimize=True)
    picture = terminal(verdict(bundle), f"delegation-report {bundle.name}")
    (IMAGES / "verdict.svg").write_text(picture, "utf-8")


if __name__ == "__main__":
    main()
