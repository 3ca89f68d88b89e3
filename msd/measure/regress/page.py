"""A regression as one self-contained HTML page: golden, new image and difference side by side."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterator
from html import escape
from importlib.resources import files

import numpy as np

from msd.files.wording import counted, plural
from msd.measure.regress.compare import ImageComparison, Result, decibels
from msd.measure.regress.metrics import Pixels
from msd.measure.regress.regression import Regression

FACTORS = (64, 32, 16, 8, 4, 2, 1)
CLIPPED = 99.9
"""The percentile of a difference's values that still fits into 8 bits when it is amplified."""

SMALL = 256
"""Narrower images are shown with sharp pixels."""


def to_html(regression: Regression) -> str:
    """Return the page: the verdict, the metrics of all images, then each image, worst first."""
    result = regression.result
    style = (files("msd.measure.report") / "page" / "style.css").read_text("utf-8")
    style += (files("msd.measure.regress") / "style.css").read_text("utf-8")
    title = f"Images of {escape(result.suite)}"
    parts = [
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title>',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<meta name="color-scheme" content="light dark">',
        f"<style>{style}</style><h1>{title}</h1>",
        _verdict(result),
        _cards(result),
        *(f'<p class="dim">{escape(note)}</p>' for note in result.notes),
        *_sentences(result),
        "<h2>Figures</h2>",
        _table(result),
        "<h2>Images</h2>",
    ]
    for picture in result.pictures:
        golden, new = regression.golden[picture.name], regression.new[picture.name].pixels
        parts += _section(picture, golden, new)
    return "\n".join([*parts, "</html>"]) + "\n"


def amplified(golden: Pixels, new: Pixels) -> tuple[Pixels, int]:
    """Return the absolute difference times a power of two, at most 64, and that factor.

    It is the largest factor with which all but a thousandth of the values fit into 8 bits.
    """
    difference = np.abs(golden.astype(np.int32) - new)
    largest = max(1.0, float(np.percentile(difference, CLIPPED)))
    factor = next((f for f in FACTORS if largest * f <= 255), 1)
    return np.minimum(difference * factor, 255).astype(np.uint8), factor


def _verdict(result: Result) -> str:
    count = len(result.broken)
    if not count:
        return '<p class="verdict good">All thresholds hold</p>'
    return f'<p class="verdict bad">{counted(count, "threshold")} broken</p>'


def _sentences(result: Result) -> Iterator[str]:
    if result.broken:
        yield "<h2>Broken thresholds</h2><ul>"
        yield from (f"<li>{escape(sentence)}</li>" for sentence in result.broken)
        yield "</ul>"


def _cards(result: Result) -> str:
    """Return a card for each threshold, with the worst value, and one for the number of images."""
    pictures, limits = result.pictures, result.limits
    broken = {name for picture in pictures for name in picture.broken}
    broken |= {check.threshold for check in result.checks if check.broken}
    measured = {check.threshold: check.found for check in result.checks}
    bits = str(max(p.hash_distance for p in pictures))
    cards = [
        ("psnr_least", "least PSNR", decibels(pictures[0].psnr_db), f"at least {limits.psnr_least} dB"),
        ("ssim_least", "least SSIM", f"{min(p.ssim for p in pictures):.4f}", f"at least {limits.ssim_least}"),
        ("hash_distance_most", "most hash bits apart", bits, f"at most {limits.hash_distance_most}"),
    ]
    if "psnr_median" in measured:
        middle = decibels(measured["psnr_median"])
        cards.insert(0, ("psnr_median", "median PSNR", middle, f"at least {limits.psnr_median} dB"))
    if (share := measured.get("attributes_least")) is not None:
        least = f"at least {limits.attributes_least:.0%}"
        cards.append(("attributes_least", "attributes right", f"{share:.0%}", least))
    html = [f'<div class="card"><b>{len(pictures)}</b>{plural(len(pictures), "image")}</div>']
    for threshold, name, value, limit in cards:
        bound = "no limit" if getattr(limits, threshold) is None else limit
        html.append(
            f'<div class="card"><b class="{_kind(threshold in broken)}">{escape(value)}</b>{name}'
            f'<br><span class="dim">{bound}</span></div>'
        )
    return f'<div class="cards">{"".join(html)}</div>'


def _table(result: Result) -> str:
    names = [name for name, _, _ in _figures(result, result.pictures[0])]
    head = "<th>image</th>" + "".join(f'<th class="right">{name}</th>' for name in names)
    rows = "".join(_row(result, picture) for picture in result.pictures)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"


def _row(result: Result, picture: ImageComparison) -> str:
    """Return a row; each cell knows its title too, for narrow windows, where rows stack."""
    name = escape(picture.name)
    cells = [f'<td class="{_kind(picture.broken)}"><a href="#{name}">{name}</a></td>']
    for title, threshold, value in _figures(result, picture):
        kind = _kind(threshold in picture.broken)
        cells.append(f'<td data-title="{title}" class="right {kind}">{value}</td>')
    return f"<tr>{''.join(cells)}</tr>"


def _figures(result: Result, picture: ImageComparison) -> list[tuple[str, str, str]]:
    """Return title, threshold and text of each metric of an image; attributes if any image has them."""
    figures = [
        ("PSNR", "psnr_least", decibels(picture.psnr_db)),
        ("SSIM", "ssim_least", f"{picture.ssim:.4f}"),
        ("hash bits", "hash_distance_most", str(picture.hash_distance)),
    ]
    if any(each.attributes is not None for each in result.pictures):
        share = "" if picture.attributes is None else f"{picture.attributes:.0%}"
        figures.append(("attributes", "", share))
    return figures


def _kind(broken: object) -> str:
    return "bad" if broken else ""


def _section(picture: ImageComparison, golden: Pixels, new: Pixels) -> Iterator[str]:
    name = escape(picture.name)
    yield f'<section id="{name}"><h3 class="{_kind(picture.broken)}">{name}</h3>'
    without = f", without “{escape(picture.negative_prompt)}”" if picture.negative_prompt else ""
    yield f'<p>{escape(picture.prompt)} <span class="dim">seed {picture.seed}{without}</span></p>'
    difference, factor = amplified(golden, new)
    label = f"difference × {factor}" if picture.psnr_db is not None else "no difference"
    small = " small" if new.shape[1] < SMALL else ""
    trio = (("golden", golden), (f"new, {decibels(picture.psnr_db)}", new), (label, difference))
    figures = "".join(_figure(caption, pixels) for caption, pixels in trio)
    yield f'<div class="trio{small}">{figures}</div></section>'


def _figure(caption: str, pixels: Pixels) -> str:
    height, width, _ = pixels.shape
    source = f"data:image/png;base64,{base64.b64encode(_png(pixels)).decode()}"
    image = f'<img src="{source}" width="{width}" height="{height}" alt="{escape(caption)}">'
    return f"<figure><figcaption>{escape(caption)}</figcaption>{image}</figure>"


def _png(pixels: Pixels) -> bytes:
    from PIL import Image

    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, "PNG", optimize=True)
    return stream.getvalue()
