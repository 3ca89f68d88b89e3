"""Time arrays from one process to another, through its socket and through memory that both map, in turn.

python -m scripts.lab.bench_messages -o docs/results/messages.json
"""

from __future__ import annotations

import time
from multiprocessing import Pipe, Process
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median
from typing import Any

import click
import numpy as np

from msd.run.runners.channel import Channel
from scripts.figures import save_figures

SIZES = {"latents of 64x64, batch 2": 1 << 17, "a tile of 768x768": 7 << 20, "SD 1.5's residuals": 53 << 20}
"""Bytes of an array."""


@click.command()
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True)
@click.option("--rounds", type=click.IntRange(3, 1000), default=21, show_default=True)
def main(output: Path, rounds: int) -> None:
    """Write the median milliseconds from a request to the array that answers it as JSON to OUTPUT."""
    rows = []
    for name, size in SIZES.items():
        ends = {way: _answering(way, size) for way in ("socket", "mapped")}
        times: dict[str, list[float]] = {way: [] for way in ends}
        for _ in range(rounds):
            for way, end in ends.items():
                begun = time.perf_counter()
                end.send(None)
                received = end.recv() if isinstance(end, Connection) else end.receive()
                times[way].append(1e3 * (time.perf_counter() - begun))
                assert received.nbytes == size, "the array arrives whole"
        medians = {way: round(median(found), 3) for way, found in times.items()}
        rows.append({"array": name, "bytes": size, "median ms": medians})
        click.echo(f"{name}: {medians}, {medians['socket'] / medians['mapped']:.1f} times", err=True)
    save_figures(output, {"rows": rows}, "msd/run/runners")


def _answering(way: str, size: int) -> Any:
    """Return an end of a connection to a process that answers each message with an array."""
    ours, theirs = Pipe()
    Process(target=_answer, args=(way, theirs, size), daemon=True).start()
    return ours if way == "socket" else Channel(ours)


def _answer(way: str, connection: Connection, size: int) -> None:
    array = np.ones(size // 4, np.float32)
    channel = Channel(connection)
    while True:
        if way == "socket":
            connection.recv()
            connection.send(array)
        else:
            channel.receive()
            channel.send(array)


if __name__ == "__main__":
    main()
