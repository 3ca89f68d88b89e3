"""What the probe of a driver found, kept in the user's cache folder while nothing of the driver changes.

The probe compiles two models on the GPU. Its result holds until the machine starts again, or the driver's
files, the devices, LiteRT, WebGPU's implementation or our code are others. What fails is probed each time.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msd.errors import OutputUnwritable
from msd.files import bounded, schema
from msd.files.atomic import atomic_write
from msd.files.cache import cache_root
from msd.files.fingerprint import code_fingerprint, fingerprint
from msd.files.packages import installed_versions
from msd.gpu.gpu_api import IMPLEMENTATIONS, GpuApi
from msd.run.runners.probe import ProbeResult, probe

FORMAT = 1
MOST = 16
"""The most results that are kept; the oldest go first."""
BOOT = Path("/proc/sys/kernel/random/boot_id")
MODULE = Path("/proc/driver/nvidia/version")
VARIABLES = ("VK_DRIVER_FILES", "VK_ICD_FILENAMES", "LD_LIBRARY_PATH")


@dataclass(frozen=True)
class RememberedProbe:
    """The file of a result."""

    result: ProbeResult
    format: int = FORMAT


def probed(environment: Mapping[str, str], devices: list[Path], api: GpuApi | None = None) -> ProbeResult:
    """Return what the probe of `api` found before under an environment with these devices, or finds now.

    Raises NoDelegate as the probe does.
    """
    path = _path(environment, devices, api)
    if path is None:
        return probe(environment, api)
    if known := _recall(path):
        return known
    found = probe(environment, api)
    _remember(path, found)
    return found


def recalled(
    environment: Mapping[str, str], devices: list[Path], api: GpuApi | None = None
) -> ProbeResult | None:
    """Return what the probe found before, as `probed` does, None if that is unknown."""
    path = _path(environment, devices, api)
    return _recall(path) if path else None


def _recall(path: Path) -> ProbeResult | None:
    try:
        return schema.load(RememberedProbe, path, FORMAT, "a probe's result").result
    except (OSError, ValueError):
        return None


def _remember(path: Path, result: ProbeResult) -> None:
    """Keep what was found, if the cache can be written."""
    with suppress(OSError, OutputUnwritable):
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(path) as temporary:
            temporary.write_text(schema.dump(RememberedProbe(result)), "utf-8")
        kept = sorted(path.parent.glob("*.json"), key=lambda each: each.stat().st_mtime, reverse=True)
        for old in kept[MOST:]:
            old.unlink()


def _path(environment: Mapping[str, str], devices: list[Path], api: GpuApi | None) -> Path | None:
    """Return the file of a result; None on a system that does not tell when it was started."""
    if not BOOT.exists():
        return None
    variables = {name: environment.get(name, os.environ.get(name, "")) for name in VARIABLES}
    started = [path.read_text() for path in (BOOT, MODULE) if path.exists()]
    drivers = [
        fact for name in VARIABLES[:2] for file in variables[name].split(os.pathsep) for fact in _facts(file)
    ]
    versions = installed_versions(IMPLEMENTATIONS[api].package if api else "ai-edge-litert")
    code = code_fingerprint("msd/run/runners", *(["msd/gpu"] if api else []))
    facts = [variables, started, drivers, sorted(map(str, devices)), api, versions, code]
    return cache_root() / "adapters" / f"{fingerprint(facts)[:32]}.json"


def _facts(file: str) -> Iterator[Any]:
    """Yield the content of a driver's ICD file, and the size and time of the library that it names."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        content = bounded.read_json(Path(file))
        yield content
        library = (Path(file).parent / content["ICD"]["library_path"]).stat()
        yield library.st_size, library.st_mtime_ns
