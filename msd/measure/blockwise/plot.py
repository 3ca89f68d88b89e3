"""A plot of each block's error."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from msd.errors import BadValue
from msd.files.atomic import atomic_write
from msd.files.packages import require_packages
from msd.files.wording import listed
from msd.measure.blockwise.result import BlockReport, ComponentErrors, finite

FORMATS = (".png", ".svg")
ROW, MARGIN, WIDTH = 0.17, 1.1, 9.0
"""Inches: the height of a block's bar, the margin around a network's bars, the width of the plot."""


def check_plot(path: Path) -> None:
    """Raise BadValue for a file name whose suffix is no known image format, BadConfig without matplotlib."""
    if path.suffix.lower() not in FORMATS:
        raise BadValue(f"{path} is not a name for a plot; it should end in {listed(FORMATS, 'or')}")
    require_packages("a plot", "plots", "matplotlib")


def save_plot(report: BlockReport, path: Path, force: bool = True) -> None:
    """Draw a bar for each block, in order of execution, below each other, and the network's error beside it.

    The same report gives the same bytes. Raises OutputUnwritable, and OutputExists unless `force`.
    """
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    heights = [len(part.blocks) * ROW + MARGIN for part in report.components.values()]
    with matplotlib.rc_context({"svg.hashsalt": "msd", "font.size": 7, "svg.fonttype": "none"}):
        figure, axes = pyplot.subplots(
            len(heights),
            figsize=(WIDTH, sum(heights)),
            squeeze=False,
            height_ratios=heights,
            layout="constrained",
        )
        for axis, (name, part) in zip(axes[:, 0], report.components.items(), strict=True):
            _draw(axis, part)
            axis.set_title(f"{name}: {report.compressed} against {report.reference}")
        with atomic_write(path, force) as temporary:
            kind = path.suffix.lower().removeprefix(".")
            figure.savefig(
                temporary, format=kind, dpi=110, metadata={"Date": None} if kind == "svg" else None
            )
        pyplot.close(figure)


def _draw(axis: Any, part: ComponentErrors) -> None:
    places = range(len(part.blocks))
    worst = part.worst_first[0].name
    top = 10 + max((finite(b.snr_db) for b in part.blocks if b.snr_db is not None), default=0)
    colours = ["tab:red" if b.name == worst else "lightsteelblue" for b in part.blocks]
    axis.barh(places, [min(top, finite(b.snr_db)) for b in part.blocks], color=colours, height=0.7)
    for place, block in enumerate(part.blocks):
        if block.snr_db is None:
            axis.annotate("exact", (top, place), (-3, 0), textcoords="offset points", va="center", ha="right")
    axis.set_yticks(places, [b.name for b in part.blocks])
    axis.set_ylim(len(part.blocks) - 0.4, -0.6)
    axis.set_xlabel("SNR of the block alone in dB; the worst is red, the line is the median")
    if part.median_db < top:
        axis.axvline(part.median_db, color="black", linewidth=0.8)
    if any(b.final_share is not None for b in part.blocks):
        beside = axis.twiny()
        beside.plot([100 * (b.final_share or 0) for b in part.blocks], places, "o", color="tab:orange", ms=4)
        beside.set_xlim(left=0)
        beside.set_xlabel("dots: share of the network's error in %", color="tab:orange")
