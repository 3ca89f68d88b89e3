"""A program in a folder: `program.json`, and the constants in shards that go to the GPU as they are.

Shards are named after their content, so that programs of one folder share those that are equal.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from msd.errors import BadBundle
from msd.files import schema
from msd.gpu.program import ComputePipeline, Constant, Place, Port, Program, ProgramStep

if TYPE_CHECKING:
    from msd.graph.ir.weights import Array

NAME = "program.json"
FORMAT = 1
SHARD_BYTES = 64 << 20
"""The most bytes of a shard: one that is cut off is fetched again, and web servers and caches take it."""


@dataclass(frozen=True)
class Shard:
    """A file whose content belongs at `place`, and its SHA-256 in hexadecimal digits."""

    file: str
    place: Place
    sha256: str


@dataclass(frozen=True)
class StoredProgram:
    """The content of program.json; `params` is in base64."""

    half: bool
    buffers: tuple[int, ...]
    params: str
    shards: tuple[Shard, ...]
    pipelines: tuple[ComputePipeline, ...]
    steps: tuple[ProgramStep, ...]
    inputs: dict[str, Port]
    outputs: dict[str, Port]
    least_arena: int
    format: int = FORMAT


def store_program(program: Program, folder: Path, half: bool) -> StoredProgram:
    """Return the description of a program whose shards are written to `folder`, unless they are there.

    A buffer is in memory at a time. `half`: the program needs the feature shader-f16.
    """
    return describe_program(program, _store_shards(program, folder), half)


def describe_program(program: Program, shards: Iterable[Shard], half: bool) -> StoredProgram:
    """Return the description of a program whose constants are in `shards`."""
    return StoredProgram(
        half=half,
        buffers=program.buffers,
        params=base64.b64encode(program.params).decode(),
        shards=tuple(shards),
        pipelines=program.pipelines,
        steps=program.steps,
        inputs=program.inputs,
        outputs=program.outputs,
        least_arena=program.least_arena,
    )


def content_name(sha256: str) -> str:
    """Return the name of a file of binary data after its SHA-256 in hexadecimal digits."""
    return f"{sha256[:32]}.bin"


def _store_shards(program: Program, folder: Path) -> Iterator[Shard]:
    for buffer in program.constant_buffers:
        content = _content(program, buffer)
        for start in range(0, content.size, SHARD_BYTES):
            piece = content[start : start + SHARD_BYTES]
            sha256 = hashlib.sha256(piece.data).hexdigest()
            path = folder / content_name(sha256)
            if not path.exists():
                path.write_bytes(piece.data)
            yield Shard(path.name, Place(buffer, start, piece.size), sha256)


def _content(program: Program, buffer: int) -> npt.NDArray[np.uint8]:
    """Return what a buffer of constants holds at first."""
    content = np.zeros(program.buffers[buffer], np.uint8)
    for constant in program.constants:
        if constant.place.buffer == buffer:
            values = np.ascontiguousarray(constant.load()).reshape(-1).view(np.uint8)
            content[constant.place.offset :][: values.size] = values
    return content


def read_program(folder: Path) -> Program:
    """Return the program in a folder, whose shards are read, and compared with their SHA-256, when they are
    loaded. Raises BadBundle for one that is damaged, incomplete or newer than this program."""
    try:
        stored: StoredProgram = schema.load(StoredProgram, folder / NAME, FORMAT, "a program")
    except OSError as problem:
        raise BadBundle(f"{folder / NAME} cannot be read ({problem.strerror})") from None
    except ValueError as problem:
        raise BadBundle(str(problem)) from None
    return described_program(stored, folder, _load)


def described_program(stored: StoredProgram, folder: Path, load: Callable[[Path, Shard], Array]) -> Program:
    """Return the program of a description in a folder, whose shards `load(folder, shard)` returns when they
    are loaded. Raises BadBundle for one that contradicts itself."""
    try:
        params = base64.b64decode(stored.params, validate=True)
    except ValueError as problem:
        raise BadBundle(f"{folder / NAME} has parameters that are not base64 ({problem})") from None
    _check(stored, folder, len(params))
    return Program(
        buffers=stored.buffers,
        params=params,
        constants=tuple(Constant(s.file, s.place, partial(load, folder, s)) for s in stored.shards),
        pipelines=stored.pipelines,
        steps=stored.steps,
        inputs=stored.inputs,
        outputs=stored.outputs,
        least_arena=stored.least_arena,
    )


def _load(folder: Path, shard: Shard) -> Array:
    path = folder / shard.file
    try:
        content = path.read_bytes()
    except OSError as problem:
        raise BadBundle(f"{path} cannot be read ({problem.strerror})") from None
    if hashlib.sha256(content).hexdigest() != shard.sha256:
        raise BadBundle(f"{path} is damaged: its SHA-256 is not the one in {NAME}")
    return np.frombuffer(content, np.uint8)


def _check(stored: StoredProgram, folder: Path, params: int) -> None:
    """Raise BadBundle where a place lies outside its buffer, or a number has no buffer or pipeline."""
    places = [place for step in stored.steps for place in step.places]
    places += [shard.place for shard in stored.shards]
    places += [port.place for port in (*stored.inputs.values(), *stored.outputs.values())]
    inside = all(
        0 <= p.buffer < len(stored.buffers)
        and p.offset >= 0
        and p.offset + p.bytes <= stored.buffers[p.buffer]
        for p in places
    )
    known = all(
        0 <= step.pipeline < len(stored.pipelines)
        and len(step.places) == len(stored.pipelines[step.pipeline].bindings)
        for step in stored.steps
    )
    names = all(Path(shard.file).name == shard.file for shard in stored.shards)
    if not (inside and known and names) or len(stored.buffers) < 2 or params > stored.buffers[1]:
        raise BadBundle(f"{folder / NAME} is damaged: a binding lies outside its buffer, or names none")
