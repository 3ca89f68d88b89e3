"""Networks compiled by msd.gpu for the page, in the model's folder.

    programs/unet.fp16.json              msd.gpu.store's description of the program
    programs/unet.fp16-discrete.json     that of the program for a discrete GPU
    programs/unet.fp16-16x16x16.json     that of the program for a GPU whose matrix units have that size
    weights/3f0c….bin                    their shards, named after their content

Weights have the same bytes in all programs of a network, so that another one costs only its description.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from msd.errors import DelegateFailed
from msd.export.web.manifest import WebFile, WebProgram
from msd.export.web.web_file import web_file
from msd.files import schema
from msd.gpu.compile import compile_file
from msd.gpu.device import BALANCE, MANY
from msd.gpu.gpu import Gpu, MatrixUnit
from msd.gpu.program import Program
from msd.gpu.store import StoredProgram, store_program
from msd.gpu.switches import Switches

PROGRAMS, WEIGHTS = "programs", "weights"
PHONE, DISCRETE = Gpu(), Gpu(enough_workgroups=MANY, balance=BALANCE)
"""What programs are compiled for: how many processors a GPU has, which WebGPU does not tell."""

MATRIX = MatrixUnit(rows=16, columns=16, depth=16, subgroup=32)
"""NVIDIA's, the only one that was measured."""

KINDS = {
    "fp16": replace(PHONE, half=True),
    "fp32": PHONE,
    "fp16-discrete": replace(DISCRETE, half=True),
    "fp32-discrete": DISCRETE,
    "fp16-16x16x16": replace(DISCRETE, half=True, subgroups=True, matrix=MATRIX),
}
"""The programs of a network, and the GPU that each is for."""

BINDINGS = tuple(Gpu.binding_bytes << doubled for doubled in range(5))
"""The largest bindings that are tried: the standard's default first, which every WebGPU has."""

FETCHED = Switches(kept_transforms=False)


def write_programs(path: Path, role: str, folder: Path) -> dict[str, WebProgram]:
    """Compile a .tflite file for each of KINDS into the model's folder; return the programs by kind.

    A buffer of weights is in memory at a time. Raises BadModelFile for a file that is no model,
    DelegateFailed for one that has operators without kernels, or needs larger bindings than any in BINDINGS.
    """
    for name in (PROGRAMS, WEIGHTS):
        (folder / name).mkdir(exist_ok=True)
    try:
        return {kind: _write(path, role, kind, folder) for kind in KINDS}
    except DelegateFailed as problem:
        raise DelegateFailed(f"{path} cannot be compiled for the page: {problem}") from problem


def compile_for_page(path: Path, profile: Gpu) -> Program:
    """Return a file's program for any WebGPU in as small buffers as may be.

    Raises as `write_programs` does.
    """
    refusals: list[DelegateFailed] = []
    for largest in BINDINGS:
        gpu = replace(profile, binding_bytes=largest, buffer_bytes=max(largest, Gpu.buffer_bytes))
        try:
            return compile_file(path, gpu, FETCHED)
        except DelegateFailed as refusal:
            refusals.append(refusal)
    raise refusals[-1]


def _write(path: Path, role: str, kind: str, folder: Path) -> WebProgram:
    program = compile_for_page(path, KINDS[kind])
    stored = store_program(program, folder / WEIGHTS, KINDS[kind].half)
    description = folder / PROGRAMS / f"{role}.{kind}.json"
    description.write_text(json.dumps(schema.to_json(stored), separators=(",", ":")) + "\n", "utf-8")
    return WebProgram(
        program=web_file(description, folder),
        shards=_shards(stored),
        limits=limits(program),
        memory=sum(program.buffers),
        matrix=KINDS[kind].matrix,
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
