"""Feed mutants of good files to every reader, and keep those that a reader does not refuse in one sentence.

    PYTHONPATH=. python scripts/fuzz.py [--hours H | --minutes M] [--reader NAME]… [--seed N] [--keep]

A failure is an exception that is none of ours, an error that prints as several lines or a very long one, more
than 1 GB of memory beyond that of a process with everything imported, or more than 10 seconds. Each is
printed; with --keep it is also shortened and stored in tests/corpus/READER, which tests/test_fuzz.py replays.
Prints a table of trials. Exit code 3 after a failure.
"""

from __future__ import annotations

import sys
from pathlib import Path

import click

from scripts.fuzzing.readers import READERS
from scripts.fuzzing.work import Trials, run_workers

CORPUS = Path(__file__).parents[1] / "tests" / "corpus"


@click.command()
@click.option("--hours", type=click.FloatRange(0, 1000), help="How long.")
@click.option("--minutes", type=click.FloatRange(0, 1000), default=3.0, show_default=True, help="How long.")
@click.option("--reader", "names", multiple=True, type=click.Choice([*READERS]), help="May be repeated.")
@click.option(
    "--seed", type=click.IntRange(0), default=0, show_default=True, help="Equal seeds, equal mutants."
)
@click.option("--workers", type=click.IntRange(1, 256), default=2, show_default=True, help="Processes.")
@click.option("--keep", is_flag=True, help="Store failures in tests/corpus.")
def fuzz(
    hours: float | None, minutes: float, names: tuple[str, ...], seed: int, workers: int, keep: bool
) -> None:
    """Feed mutants of good files to every reader."""
    seconds = hours * 3600 if hours is not None else minutes * 60
    trials = run_workers([*(names or READERS)], seed, seconds, workers)
    print_table(trials)
    for failure in trials.failures:
        click.echo(f"{failure.reader}: {failure.what}\n{failure.trace}", err=True)
        if keep:
            folder = CORPUS / failure.reader
            folder.mkdir(parents=True, exist_ok=True)
            (folder / failure.name).write_bytes(failure.content)
    if trials.failures:
        sys.exit(3)


def print_table(trials: Trials) -> None:
    """Print the number of mutants and failures of each reader, as Markdown."""
    click.echo("| reader | mutants | refused | failures |\n|---|---|---|---|")
    for name, (count, refused, failed) in trials.counts.items():
        click.echo(f"| {name} | {count:,} | {refused:,} | {failed:,} |")
    total = [sum(column) for column in zip(*trials.counts.values(), strict=True)]
    click.echo(f"| all, in {trials.seconds / 60:.1f} minutes | {total[0]:,} | {total[1]:,} | {total[2]:,} |")


if __name__ == "__main__":
    fuzz()
