"""A benchmark of what a browser measured: the JSON that an exported page saves."""

from __future__ import annotations

import msd
from msd.bundle import Bundle
from msd.measure.bench.image_time import image_time
from msd.measure.bench.result import Benchmark, BundleMeasurements, Measurement, Refusal, when_and_what
from msd.measure.judging.browser import NOTES, BrowserNetwork, BrowserVerdict
from msd.run.runners.machine import Machine
from msd.run.runners.runner import ProcessMemory
from msd.run.runners.timings import Effort, summarise

DELEGATES = {"msd": "msd.gpu", "litert": "LiteRT.js"}


def browser_benchmark(
    bundle: Bundle, measured: BrowserVerdict, command: str, steps: int | None = None
) -> Benchmark:
    """Return the measurements of a bundle's networks, and the time of an image of `steps` steps.

    Without `steps`, those of the bundle's manifest. Raises BadReport for a network that the browser did not
    measure.
    """
    results = list[Measurement | Refusal]()
    for name, part in bundle.manifest.components.items():
        network = measured.network(bundle.folder / part.file, part.sha256)
        results.append(_result(name, part.bytes, network, measured))
    measurements = tuple(each for each in results if isinstance(each, Measurement))
    time = image_time(bundle, _backend(measured), measurements, steps, None)
    return Benchmark(
        command=command,
        machine=_machine(measured),
        versions={"msd": msd.__version__, **measured.versions},
        effort=Effort(repeats=max((len(each.runs_ms) for each in measured.networks), default=0), warmups=0),
        bundles=(
            BundleMeasurements(
                bundle=str(bundle.folder),
                model_hash=bundle.model_hash,
                recipe=bundle.manifest.configuration.recipe.name,
                measurements=measurements,
                wholes=(time,) if time else (),
                refusals=tuple(each for each in results if isinstance(each, Refusal)),
            ),
        ),
        **when_and_what(),
    )


def _result(name: str, size: int, network: BrowserNetwork, measured: BrowserVerdict) -> Measurement | Refusal:
    """Return what was measured of one network, or why it did not run."""
    if network.failure or network.open_ms is None or network.first_ms is None or not network.runs_ms:
        why = network.failure or "it was not timed"
        return Refusal(name, _backend(measured), f"{name} did not run on {measured.adapter}: {why}")
    return Measurement(
        component=name,
        backend=_backend(measured),
        adapter=measured.adapter,
        precision=measured.precision,
        threads=None,
        bytes=size,
        operations=network.operations,
        delegate=DELEGATES[measured.runtime],
        nodes=network.operations,
        delegated=network.delegated,
        partitions=network.partitions,
        timings=summarise(
            network.open_ms / 1000, network.first_ms / 1000, (), [each / 1000 for each in network.runs_ms]
        ),
        memory=ProcessMemory(None, None),
        notes=(NOTES[measured.runtime], *_memory(network)),
    )


def _memory(network: BrowserNetwork) -> list[str]:
    return (
        [] if network.gpu_bytes is None else [f"its buffers take {network.gpu_bytes / 1e6:.0f} MB of the GPU"]
    )


def _backend(measured: BrowserVerdict) -> str:
    return f"browser-{measured.runtime}"


def _machine(measured: BrowserVerdict) -> Machine:
    return Machine(
        system=measured.browser,
        architecture=measured.api,
        processor=measured.adapter,
        cores=measured.cores,
        memory_bytes=0,
        load=0.0,
    )
