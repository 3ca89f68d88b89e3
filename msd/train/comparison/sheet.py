"""A contact sheet: a row for each prompt, a column for each column of a comparison, all of them labelled."""

from __future__ import annotations

import textwrap
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

from msd.files.wording import counted
from msd.train.comparison.compare import Comparison
from msd.train.comparison.result import Column, ComparedImage

ROWS = 24
"""The most prompts on a sheet: the first ones."""

SIDE, MARGIN, HEAD, LINE = 256, 4, 52, 12
"""The longest side of an image, the space around one, the height of the columns' labels and of a line."""

CAPTION, LINES = 200, 9
"""The width of the prompts, and the most lines of a text."""


def contact_sheet(comparison: Comparison) -> Image.Image:
    """Return the sheet of the first `ROWS` prompts, RGB; images above `SIDE` pixels are made smaller."""
    columns, width, height = comparison.result.columns, *_size(comparison)
    rows = min(ROWS, comparison.result.prompts)
    size = CAPTION + len(columns) * (width + MARGIN), HEAD + rows * (height + MARGIN)
    page = Image.new("RGB", size, "white")
    for number, column in enumerate(columns):
        left = CAPTION + number * (width + MARGIN)
        _write(page, (left, 2), label_of(column), width)
        for row in range(rows):
            picture = Image.fromarray(comparison.images[number][row].pixels).resize((width, height))
            page.paste(picture, (left, HEAD + row * (height + MARGIN)))
    for row, image in enumerate(columns[0].images[:rows]):
        _write(page, (MARGIN, HEAD + row * (height + MARGIN)), _caption(image), CAPTION - 2 * MARGIN)
    return page


def label_of(column: Column) -> str:
    """Return what a column is in two lines: its label and model; its evaluations and guidance."""
    name = Path(column.model).absolute().name
    return (
        f"{column.label}: {name}\n{counted(column.evaluations, 'evaluation')}, guidance {column.guidance:g}"
    )


def _size(comparison: Comparison) -> tuple[int, int]:
    height, width, _ = comparison.images[0][0].pixels.shape
    scale = min(1.0, SIDE / max(height, width))
    return round(width * scale), round(height * scale)


def _caption(image: ComparedImage) -> str:
    return f"{image.prompt} (seed {image.seed})"


def _write(page: Image.Image, place: tuple[int, int], text: str, width: int) -> None:
    """Write text in lines of `width` pixels."""
    font = ImageFont.load_default(size=10)
    letters = max(8, int(width / font.getlength("n")))
    lines = [part for line in text.splitlines() for part in textwrap.wrap(line, letters)][:LINES]
    draw = ImageDraw.Draw(page)
    for number, line in enumerate(lines):
        draw.text((place[0], place[1] + number * LINE), line, fill="black", font=font)
