"""Networks compiled by msd.webgpu for the page, in the model's folder.

    programs/unet.fp16.json     msd.webgpu.store's description of the program
    weights/3f0c….bin           its shards, named after their content

Weights have the same bytes in both precisions, so that the second costs only its description.
"""

from __future__ import annotations

import json
from pathlib import Path

from msd.errors import DelegateFailed
from msd.export.web.manifest import WebFile, WebProgram
from msd.export.web.web_file import web_file
from msd.files import schema
from msd.webgpu.compile import compile_file
from msd.webgpu.fuse import Switches
from msd.webgpu.gpu import Gpu
from msd.webgpu.program import Program
from msd.webgpu.store import StoredProgram, store_program

PROGRAMS, WEIGHTS = "programs", "weights"
PRECISIONS = {"fp16": True, "fp32": False}
"""The precisions of programs, and whether they need the feature shader-f16."""

BINDINGS = tuple(Gpu.binding_bytes << doubled for doubled in range(5))
"""The largest bindings that are tried: the standard's default first, which every WebGPU has."""

FETCHED = Switches(kept_transforms=False)


def write_programs(path: Path, role: str, folder: Path) -> dict[str, WebProgram]:
    """Compile a .tflite file for each precision into the model's folder; return the programs by precision.

    A buffer of weights is in memory at a time. Raises BadModelFile for a file that is no model,
    DelegateFailed for one that has operators without kernels, or needs larger bindings than any in BINDINGS.
    """
    for name in (PROGRAMS, WEIGHTS):
        (folder / name).mkdir(exist_ok=True)
    return {precision: _write(path, role, precision, folder) for precision in PRECISIONS}


def compile_for_page(path: Path, half: bool) -> Program:
    """Return a file's program for any WebGPU, of a phone's profile, in as small buffers as may be.

    Raises as `write_programs` does.
    """
    refusals: list[DelegateFailed] = []
    for largest in BINDINGS:
        gpu = Gpu(half=half, binding_bytes=largest, buffer_bytes=max(largest, Gpu.buffer_bytes))
        try:
            return compile_file(path, gpu, FETCHED)
        except DelegateFailed as refusal:
            refusals.append(refusal)
    raise refusals[-1]


def _write(path: Path, role: str, precision: str, folder: Path) -> WebProgram:
    half = PRECISIONS[precision]
    program = compile_for_page(path, half)
    stored = store_program(program, folder / WEIGHTS, half)
    description = folder / PROGRAMS / f"{role}.{precision}.json"
    description.write_text(json.dumps(schema.to_json(stored), separators=(",", ":")) + "\n", "utf-8")
    return WebProgram(
        program=web_file(description, folder),
        shards=_shards(stored),
        limits=limits(program),
        memory=sum(program.buffers),
    )


def _shards(stored: StoredProgram) -> tuple[WebFile, ...]:
    return tuple(WebFile(f"{WEIGHTS}/{s.file}", s.place.bytes, s.sha256) for s in stored.shards)


def limits(program: Program) -> dict[str, int]:
    """Return the limits that a program needs beyond the standard's defaults, by WebGPU's names.

    The others, such as the memory of a workgroup, its kernels keep to.
    """
    storage = [
        place.bytes
        for step in program.steps
        for kind, place in zip(program.pipelines[step.pipeline].bindings, step.places, strict=True)
        if kind != "uniform"
    ]
    needed = {
        "maxBufferSize": (max(program.buffers), Gpu.buffer_bytes),
        "maxStorageBufferBindingSize": (max(storage, default=0), Gpu.binding_bytes),
    }
    return {name: least for name, (least, default) in needed.items() if least > default}
