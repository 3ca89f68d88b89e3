"""What a browser measured on the GPU of its device: the JSON that an exported page saves.

    measured = load_browser_verdict(Path("verdict.json"))
    verdict = measured.verdict(path, sha256)

msd/export/web/site/msd/verdict.js writes it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from msd.errors import BadReport
from msd.files import schema
from msd.measure.judging.verdict import Distance, Verdict
from msd.run.runners.runner import Precision

FORMAT = 1
NOTES = {
    "msd": "measured in a browser with msd's own kernels on WebGPU; it is no verdict of LiteRT's delegate",
    "litert": "measured in a browser with LiteRT's delegate on WebGPU; an app's OpenCL may differ",
}


@dataclass(frozen=True)
class BrowserNetwork:
    """One network: the SHA-256 of its .tflite file, its operations, and what became of them.

    `title` is its role in people's words.
    `open_ms` is the time from stored bytes to compiled programs, `first_ms` that of the first run, `runs_ms`
    those of further runs. `gpu_bytes` are those of all buffers; they and `dispatches` are None where the
    runtime does not tell. `failure` says why it did not run; then the others are None or empty.
    """

    role: str
    sha256: str
    operations: int
    delegated: int
    partitions: int
    dispatches: int | None
    open_ms: float | None
    first_ms: float | None
    runs_ms: tuple[float, ...]
    outputs: tuple[Distance, ...]
    gpu_bytes: int | None
    failure: str | None
    log: tuple[str, ...]
    title: str = ""

    @property
    def finite(self) -> bool:
        """Whether all outputs that were compared are finite."""
        return all(each.finite for each in self.outputs)


@dataclass(frozen=True)
class BrowserVerdict:
    """All networks of one model on one device; `model` is the bundle's hash, `browser` its user agent.

    `cores`: the CPU's, as far as the browser tells.
    """

    runtime: Literal["msd", "litert"]
    api: str
    model: str
    precision: Precision
    adapter: str
    features: tuple[str, ...]
    limits: dict[str, int]
    browser: str
    cores: int
    versions: dict[str, str]
    networks: tuple[BrowserNetwork, ...]
    format: int = FORMAT

    def has(self, sha256: str) -> bool:
        """Whether the file with this SHA-256 was measured."""
        return any(each.sha256 == sha256 for each in self.networks)

    def network(self, path: Path, sha256: str) -> BrowserNetwork:
        """Return what was measured of a file; raises BadReport where that was another one."""
        found = next((each for each in self.networks if each.sha256 == sha256), None)
        if found is None:
            raise BadReport(
                f"the browser measured no file with the SHA-256 of {path}: export that page again"
            )
        return found

    def verdict(self, path: Path, sha256: str, subgraphs: int) -> Verdict:
        """Return the verdict on a file of so many graphs; raises BadReport where that was not measured."""
        network = self.network(path, sha256)
        times = [each / 1000 for each in (network.open_ms, network.first_ms) if each is not None]
        return Verdict(
            file=str(path),
            adapter=f"{self.adapter} ({self.api})",
            adapter_type="browser",
            precision_asked=self.precision,
            precision=self.precision,
            operations=network.operations,
            subgraphs=subgraphs,
            delegated=network.delegated,
            partitions=network.partitions,
            confirmed=network.failure is None,
            rejected=(),
            outputs=network.outputs,
            failure=network.failure,
            crashed=False,
            problems=(),
            reference_failure=None if network.outputs else "the page has no expected outputs",
            compile_seconds=times[0] if times else None,
            run_seconds=times[1] if len(times) > 1 else None,
            seconds=sum(times),
            log=(NOTES[self.runtime], *network.log),
        )


def load_browser_verdict(path: Path) -> BrowserVerdict:
    """Return what a page saved; raises BadReport for a file that is missing, damaged or newer."""
    return schema.require(BadReport, BrowserVerdict, path, FORMAT, "a page's verdict")
