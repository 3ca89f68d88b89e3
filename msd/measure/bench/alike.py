"""Whether the networks of two bundles do the same work, so that their times can be compared."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msd.bundle import Bundle, Configuration
from msd.files.wording import counted, listed
from msd.measure.bench.result import Benchmark


def differences(bundles: Sequence[Bundle], names: Sequence[str]) -> Iterator[str]:
    """Yield a clause for each way in which a run of the first bundle's networks is another work.

    That is: than one of the second's, if there is a second. `names` are what the bundles are called.
    """
    works = [_work(bundle.manifest.configuration) for bundle in bundles]
    for key in works[0]:
        values = [work[key] for work in works]
        if len({*values}) > 1:
            yield listed(f"{name} {value}" for name, value in zip(names, values, strict=True))


def uncompared(benchmark: Benchmark) -> list[str]:
    """Return the networks, with their backends, that were measured of one of two bundles alone."""
    if len(benchmark.bundles) < 2:
        return []
    one, other = ({(m.component, m.backend) for m in each.measurements} for each in benchmark.bundles)
    return [f"{component} on {backend}" for component, backend in sorted(one ^ other)]


def _work(configuration: Configuration) -> dict[str, str]:
    tile, chunks = configuration.vae_tile, configuration.prompt_chunks
    return {
        "size": f"makes images of {configuration.width}x{configuration.height} pixels",
        "batch": f"takes {counted(configuration.batch, 'row')} in a run of the U-Net",
        "chunks": f"takes {counted(chunks, 'chunk')} of a prompt",
        "split": f"has the U-Net in {'two files' if configuration.split else 'one file'}",
        "tile": f"decodes {f'tiles of {tile} pixels' if tile else 'whole images'}",
    }
