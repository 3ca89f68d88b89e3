"""Plot several timelines of `msd generate --timeline FILE.json` in one figure.

python scripts/lab/draw_execution.py pipelined.json resident.json -o figure.svg
"""

from __future__ import annotations

from pathlib import Path

import click

from msd.run.runtime.timeline import load_timeline
from msd.run.runtime.timeline_plot import save_plot


@click.command()
@click.argument("timelines", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True, help="A .svg or .png file.")
def main(timelines: tuple[Path, ...], output: Path) -> None:
    """Plot TIMELINES: the networks' activities above, their memory below."""
    save_plot([load_timeline(path) for path in timelines], output)


if __name__ == "__main__":
    main()
