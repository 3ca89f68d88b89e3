"""A file as a session on a device: from the cache of compiled programs, or compiled and put there."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter

from msd.errors import BadBundle, ProgramRefused
from msd.gpu.device import OpenDevice
from msd.gpu.phases import Phases
from msd.gpu.program_cache import entry_of, forget, read_entry, written_entry
from msd.gpu.session import Session
from msd.gpu.switches import Switches


@dataclass(frozen=True)
class OpenedFile:
    """A session of a file of `operations`, and remarks for people, a clause each."""

    session: Session
    operations: int
    remarks: tuple[str, ...] = ()


def open_session(path: Path, device: OpenDevice, switches: Switches, phases: Phases) -> OpenedFile:
    """Return the session of a file; `phases` says what took how long, and "cache" that it came from there.

    Where the GPU refuses a shader with matrix units, an experiment of Dawn, the file runs without them and a
    remark says so. Raises what `msd.gpu.compile.compile_file` and Session raise.
    """
    try:
        return _opened(path, device, switches, phases)
    except ProgramRefused as problem:
        if device.gpu.matrix is None or not switches.matrices:
            raise
        opened = _opened(path, device, replace(switches, matrices=False), phases)
        remark = f"it runs without the GPU's matrix units, whose shaders were refused: {problem}"
        return replace(opened, remarks=(remark, *opened.remarks))


def _opened(path: Path, device: OpenDevice, switches: Switches, phases: Phases) -> OpenedFile:
    entry = entry_of(path, device, switches)
    remarks: tuple[str, ...] = ()
    if entry:
        try:
            if opened := _cached(entry, device, phases):
                return opened
        except BadBundle as problem:
            forget(entry)
            remarks = (f"its compiled program in the cache was unusable and was made anew: {problem}",)
    return replace(_compiled(path, device, switches, phases, entry), remarks=remarks)


def _cached(entry: Path, device: OpenDevice, phases: Phases) -> OpenedFile | None:
    begin = perf_counter()
    found = read_entry(entry)
    if found is None:
        return None
    phases.add("cache", begin, perf_counter())
    program, operations = found
    return OpenedFile(Session(program, device, phases), operations)


def _compiled(
    path: Path, device: OpenDevice, switches: Switches, phases: Phases, entry: Path | None
) -> OpenedFile:
    from msd.gpu.compile import compile_model  # slow, and not needed for a program in the cache
    from msd.graph import tflite

    with phases.time("read"):
        model = tflite.read(path)
    operations = len(model.main.ops)
    with phases.time("compile"):
        program = compile_model(model, device.gpu, switches)
    if entry is None:
        return OpenedFile(Session(program, device, phases), operations)
    with written_entry(entry, program, operations, device.gpu.half) as kept:
        return OpenedFile(Session(kept, device, phases), operations)
