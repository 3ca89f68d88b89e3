"""Timelines as files: JSON, or a plot like Mobile Stable Diffusion's Figure 4 (arXiv 2307.01193)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msd.errors import BadValue
from msd.files import schema
from msd.files.atomic import atomic_write
from msd.files.packages import require_packages
from msd.models.families import place_of
from msd.run.runtime.timeline import Timeline

FORMATS = (".json", ".png", ".svg")
COLOURS = {"load": "tab:orange", "run": "tab:blue", "unload": "tab:gray"}
CURVES = ("tab:green", "tab:red", "tab:purple")
ROW, MARGIN, MEMORY, WIDTH = 0.22, 0.45, 2.2, 8.0
"""Inches: a component's bar, the margin around bars, the height of the memory curve, the width."""


def check_timeline(path: Path) -> None:
    """Raise BadValue for a suffix of no known format, BadConfig for a plot without matplotlib."""
    if path.suffix.lower() not in FORMATS:
        raise BadValue(f"{path} is not a name for a timeline; it should end in {', '.join(FORMATS)}")
    if path.suffix.lower() != ".json":
        require_packages("a plot", "plots", "matplotlib")


def save_timeline(timeline: Timeline, path: Path, force: bool = True) -> None:
    """Write a timeline in the format of the file's suffix.

    Raises BadConfig, OutputUnwritable, and OutputExists unless `force`.
    """
    check_timeline(path)
    if path.suffix.lower() != ".json":
        save_plot([timeline], path, force)
        return
    with atomic_write(path, force) as temporary:
        temporary.write_text(schema.dump(timeline), "utf-8")


def save_plot(timelines: Sequence[Timeline], path: Path, force: bool = True) -> None:
    """Plot the activities of each component, one timeline below the other, and a curve of memory for each.

    The parts of a loading are thin bars inside it.
    The same timelines give the same bytes. Raises OutputUnwritable, and OutputExists unless `force`.
    """
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    rows = [len(_components(timeline)) * ROW + MARGIN for timeline in timelines]
    heights = [*rows, MEMORY]
    kind = path.suffix.lower().removeprefix(".")
    with matplotlib.rc_context({"svg.hashsalt": "msd", "font.size": 8, "svg.fonttype": "none"}):
        figure, axes = pyplot.subplots(
            len(heights),
            figsize=(WIDTH, sum(heights)),
            sharex=True,
            height_ratios=heights,
            layout="constrained",
        )
        for axis, timeline in zip(axes, timelines, strict=False):
            _draw_activity(axis, timeline)
        _draw_memory(axes[-1], timelines)
        with atomic_write(path, force) as temporary:
            figure.savefig(
                temporary, format=kind, dpi=110, metadata={"Date": None} if kind == "svg" else None
            )
        pyplot.close(figure)


def _components(timeline: Timeline) -> list[str]:
    """Return the components of a timeline in the order they run in."""
    return sorted({event.component for event in timeline.events}, key=place_of)


def _draw_activity(axis: Any, timeline: Timeline) -> None:
    names = _components(timeline)
    for event in timeline.events:
        width, colour = event.end - event.begin, COLOURS[event.activity]
        row = names.index(event.component)
        axis.barh(row, width, 0.7, event.begin, color=colour, edgecolor="white", linewidth=0.3)
        for number, part in enumerate(event.parts):
            top = row - 0.35 + 0.7 * number / len(event.parts)
            high = 0.7 / len(event.parts)
            axis.barh(top, part.seconds, high, part.begin, color="tab:brown", align="edge")
            axis.text(part.begin + part.seconds, top + high / 2, f" {part.name}", fontsize=3, va="center")
    axis.set_yticks(range(len(names)), names)
    axis.set_ylim(len(names) - 0.4, -0.6)
    for activity, colour in COLOURS.items():
        axis.barh(0, 0, color=colour, label=activity)
    axis.legend(loc="lower right", bbox_to_anchor=(1, 0.98), ncols=len(COLOURS), frameon=False, borderpad=0)
    axis.set_title(f"{timeline.execution}, {timeline.seconds:.1f} s", loc="left")


def _draw_memory(axis: Any, timelines: Sequence[Timeline]) -> None:
    for timeline, colour in zip(timelines, CURVES, strict=False):
        at = [sample.at for sample in timeline.memory]
        gigabytes = [sample.bytes / 1e9 for sample in timeline.memory]
        label = f"{timeline.execution}, at most {timeline.peak / 1e9:.2f} GB"
        axis.plot(at, gigabytes, color=colour, linewidth=1, label=label)
    axis.set_xlabel("seconds")
    axis.set_ylabel("resident memory in GB")
    axis.set_ylim(bottom=0)
    axis.set_xlim(left=0)
    axis.legend(loc="lower right", frameon=False)
