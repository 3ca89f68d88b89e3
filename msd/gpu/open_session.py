"""A file as a session on a device: from the cache of compiled programs, or compiled and put there.

A file that was not compiled before is read and fused while the device opens, and its first pipelines are made
while the rest is compiled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

from msd.errors import BadBundle, ProgramRefused
from msd.gpu.device import OpenDevice
from msd.gpu.mapped_pages import MappedPages
from msd.gpu.phases import Phases
from msd.gpu.program import ComputePipeline
from msd.gpu.program_cache import entry_of, forget, is_compiled, read_entry, written_entry
from msd.gpu.session import COMPILING, Session
from msd.gpu.switches import Switches

if TYPE_CHECKING:
    from msd.gpu.fuse import FusedGraph


@dataclass(frozen=True)
class OpenedFile:
    """A session of a file of `operations` on a device, and remarks for people, a clause each."""

    session: Session
    device: OpenDevice
    operations: int
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True)
class FusedFile:
    """The fused graph of a file of `operations`, which is mapped to memory."""

    graph: FusedGraph
    operations: int
    pages: MappedPages


Fused = Callable[[], FusedFile]


def open_session(
    path: Path, open_device: Callable[[], OpenDevice], switches: Switches, phases: Phases
) -> OpenedFile:
    """Return the session of a file; `phases` says what took how long, and "cache" that it came from there.

    Where the GPU refuses a shader with matrix units, an experiment of Dawn, the file runs without them and a
    remark says so. Raises what `open_device`, `msd.gpu.compile.compile_file` and Session raise.
    """
    with _fused_ahead(path, switches, phases) as fused:
        device = open_device()
        try:
            return _opened(path, device, switches, phases, fused)
        except ProgramRefused as problem:
            if device.gpu.matrix is None or not switches.matrices:
                raise
            without = replace(switches, matrices=False)
            opened = _opened(path, device, without, phases, partial(_fused, path, without, phases))
            remark = f"it runs without the GPU's matrix units, whose shaders were refused: {problem}"
            return replace(opened, remarks=(remark, *opened.remarks))


@contextmanager
def _fused_ahead(path: Path, switches: Switches, phases: Phases) -> Iterator[Fused]:
    """Yield what returns the fused file: a thread fuses it in the `with` block if it is not in the cache."""
    fuse = partial(_fused, path, switches, phases)
    if is_compiled(path, switches):
        yield fuse
        return
    with ThreadPoolExecutor(1) as pool:
        yield pool.submit(fuse).result


def _fused(path: Path, switches: Switches, phases: Phases) -> FusedFile:
    from msd.gpu.compile import fused_graph  # slow, and not needed for a program in the cache
    from msd.graph import tflite

    with phases.time("read"):
        view = tflite.map_file(path)
        model = tflite.parse(view, str(path))
    operations = len(model.main.ops)
    with phases.time("compile"):
        return FusedFile(fused_graph(model, switches), operations, MappedPages(view))


def _opened(path: Path, device: OpenDevice, switches: Switches, phases: Phases, fused: Fused) -> OpenedFile:
    entry = entry_of(path, device, switches)
    remarks: tuple[str, ...] = ()
    if entry:
        try:
            if opened := _cached(entry, device, phases):
                return opened
        except BadBundle as problem:
            forget(entry)
            remarks = (f"its compiled program in the cache was unusable and was made anew: {problem}",)
    return replace(_compiled(fused(), device, switches, phases, entry), remarks=remarks)


def _cached(entry: Path, device: OpenDevice, phases: Phases) -> OpenedFile | None:
    begin = perf_counter()
    found = read_entry(entry)
    if found is None:
        return None
    phases.add("cache", begin, perf_counter())
    program, operations = found
    return OpenedFile(Session(program, device, phases), device, operations)


def _compiled(
    fused: FusedFile, device: OpenDevice, switches: Switches, phases: Phases, entry: Path | None
) -> OpenedFile:
    from msd.gpu.compile import compile_fused

    with _made_ahead(device) as on_pipeline:
        with phases.time("compile"):
            program = compile_fused(fused.graph, device.gpu, switches, on_pipeline)
        program = replace(program, constants=tuple(map(fused.pages.released, program.constants)))
        if entry is None:
            return OpenedFile(Session(program, device, phases), device, fused.operations)
        with written_entry(entry, program, fused.operations, device.gpu.half) as kept:
            return OpenedFile(Session(kept, device, phases), device, fused.operations)


@contextmanager
def _made_ahead(device: OpenDevice) -> Iterator[Callable[[ComputePipeline], None]]:
    """Yield what begins to make a pipeline that a session will ask for, and then learn why it cannot be."""
    pool, begun = ThreadPoolExecutor(COMPILING), set[ComputePipeline]()

    def begin(wanted: ComputePipeline) -> None:
        if wanted not in begun:
            begun.add(wanted)
            pool.submit(device.pipeline, wanted)

    try:
        yield begin
    finally:
        pool.shutdown(cancel_futures=True)
