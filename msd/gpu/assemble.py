"""Dispatches become a program: activations and constants get places, equal kernels share a pipeline."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from msd.errors import DelegateFailed
from msd.gpu.faults import FAULTS, fault
from msd.gpu.gpu import Gpu
from msd.gpu.program import (
    ARENA,
    FIRST_CONSTANTS,
    PARAMS,
    ComputePipeline,
    Constant,
    Place,
    Port,
    Program,
    ProgramStep,
)
from msd.gpu.value import ALIGNMENT, Dispatch, Value, aligned
from msd.graph.prediction.memory_plan import Lifetime, live_bytes, places

if TYPE_CHECKING:
    from msd.graph.ir.weights import Array

CONSTANT_BYTES = 64 << 20
"""The bytes after which constants go into another buffer; a larger constant has a buffer of its own."""


@dataclass(frozen=True)
class Named:
    """A value that callers write or read, with its shape and dtype in TFLite."""

    value: Value
    shape: tuple[int, ...]
    dtype: str


def assemble(
    dispatches: Sequence[Dispatch], inputs: Mapping[str, Named], outputs: Mapping[str, Named], gpu: Gpu
) -> Program:
    """Return the program of `dispatches` in this order; raises DelegateFailed, naming a low limit."""
    loads = _loads(dispatches)
    constants, sizes = _place_constants(loads)
    held, least = _place_activations(dispatches, inputs, outputs, FIRST_CONSTANTS + len(sizes), gpu)
    arena, *further = _arenas(held.values())
    bound = held | constants
    params, param_places = _pack_params(dispatches)
    pipelines = list(dict.fromkeys(map(pipeline_of, dispatches)))
    numbers = {pipeline: i for i, pipeline in enumerate(pipelines)}
    program = Program(
        buffers=(arena, max(len(params), 16), *sizes, *further),
        params=params,
        constants=tuple(Constant(v.name, constants[v], load) for v, load in loads.items()),
        pipelines=tuple(pipelines),
        steps=tuple(
            _step(dispatch, numbers[pipeline_of(dispatch)], bound, place)
            for dispatch, place in zip(dispatches, param_places, strict=True)
        ),
        inputs={name: _port(named, bound) for name, named in inputs.items()},
        outputs={name: _port(named, bound) for name, named in outputs.items()},
        least_arena=least,
    )
    _require_limits(program, gpu)
    return program


def _place_activations(
    dispatches: Sequence[Dispatch],
    inputs: Mapping[str, Named],
    outputs: Mapping[str, Named],
    further: int,
    gpu: Gpu,
) -> tuple[dict[Value, Place], int]:
    """Return the places of the activations, and the fewest bytes that any plan needs.

    They are in the arena as long as it fits a buffer of the GPU, then also in buffers from `further` on.
    """
    first = {named.value: 0 for named in inputs.values()}
    last = dict(first)
    for i, dispatch in enumerate(dispatches):
        for value in (*dispatch.reads, *dispatch.writes):
            if value.load is None:
                first.setdefault(value, i)
                last[value] = i
    end = max(len(dispatches) - 1, 0)
    for named in outputs.values():
        first.setdefault(named.value, 0)
        last[named.value] = end
    lifetimes = [Lifetime(aligned(value.bytes), first[value], last[value]) for value in first]
    held = {
        value: Place(further + block - 1 if block else ARENA, start, value.bytes)
        for value, (block, start) in zip(first, places(lifetimes, gpu.buffer_bytes), strict=True)
    }
    return held, max(live_bytes(lifetimes, len(dispatches) or 1), default=0)


def _arenas(held: Iterable[Place]) -> list[int]:
    """Return the sizes of the buffers of activations, by their numbers; there is at least the arena."""
    sizes = {ARENA: ALIGNMENT}
    for place in held:
        sizes[place.buffer] = max(sizes.get(place.buffer, 0), place.offset + aligned(place.bytes))
    return [sizes[number] for number in sorted(sizes)]


def _loads(dispatches: Iterable[Dispatch]) -> dict[Value, Callable[[], Array]]:
    loads: dict[Value, Callable[[], Array]] = {}
    for dispatch in dispatches:
        for value in dispatch.reads:
            if value.load is not None and value not in loads:
                loads[value] = partial(_load, value.load, value, dispatch)
    return loads


def _load(load: Callable[[], Array], value: Value, dispatch: Dispatch) -> Array:
    """Return what `load` reads; raises DelegateFailed, naming the operation and the constant."""
    try:
        return load()
    except FAULTS as problem:
        step = dispatch.step or dispatch.kernel.name
        clause = f"{step} reads the constant {value.name}, and kernels fail on it"
        raise fault(clause, problem) from problem


def _place_constants(constants: Iterable[Value]) -> tuple[dict[Value, Place], list[int]]:
    """Return the places of the constants, and the sizes of their buffers."""
    found: dict[Value, Place] = {}
    sizes: list[int] = []
    for value in constants:
        if not sizes or aligned(sizes[-1]) + value.bytes > CONSTANT_BYTES:
            sizes.append(0)
        start = aligned(sizes[-1])
        found[value] = Place(FIRST_CONSTANTS + len(sizes) - 1, start, value.bytes)
        sizes[-1] = start + value.bytes
    return found, sizes


def _pack_params(dispatches: Sequence[Dispatch]) -> tuple[bytes, list[Place | None]]:
    """Return the bytes of all parameters, equal ones stored once, and the place of each dispatch's."""
    known: dict[bytes, Place] = {}
    packed = bytearray()
    found: list[Place | None] = []
    for dispatch in dispatches:
        words = b"".join(map(_word, dispatch.params))
        words += bytes(-len(words) % 16)
        if words and words not in known:
            packed += bytes(-len(packed) % ALIGNMENT)
            known[words] = Place(PARAMS, len(packed), len(words))
            packed += words
        found.append(known.get(words))
    return bytes(packed), found


def _word(number: int | float) -> bytes:
    if isinstance(number, float):
        return struct.pack("<f", number)
    return struct.pack("<I" if number >= 0 else "<i", number)


def pipeline_of(dispatch: Dispatch) -> ComputePipeline:
    """Return the pipeline that a dispatch runs."""
    reads = ["read-only-storage" if v.load is not None else "storage" for v in dispatch.reads]
    bindings = [*reads, *["storage"] * len(dispatch.writes), *["uniform"] * bool(dispatch.params)]
    return ComputePipeline(dispatch.kernel.name, dispatch.kernel.wgsl, tuple(bindings))


def _step(
    dispatch: Dispatch, pipeline: int, held: Mapping[Value, Place], params: Place | None
) -> ProgramStep:
    bound = [held[value] for value in (*dispatch.reads, *dispatch.writes)]
    assert len(set(bound)) == len(bound), f"{dispatch.kernel.name} binds a value twice, which WebGPU forbids"
    return ProgramStep(
        pipeline=pipeline,
        places=(*bound, params) if params else tuple(bound),
        groups=dispatch.groups,
        flops=dispatch.flops,
        arithmetic=dispatch.arithmetic,
        bytes=dispatch.bytes,
        operation=dispatch.step,
    )


def _port(named: Named, held: Mapping[Value, Place]) -> Port:
    return Port(named.shape, named.dtype, named.value.element, held[named.value])


def _require_limits(program: Program, gpu: Gpu) -> None:
    """Raise DelegateFailed, naming the limit, for a program that the GPU cannot run."""
    largest = max(program.buffers)
    if largest > gpu.buffer_bytes:
        raise DelegateFailed(
            f"a buffer of {largest} bytes is needed; this GPU's buffers have at most {gpu.buffer_bytes}"
        )
    for step in program.steps:
        pipeline = program.pipelines[step.pipeline]
        for place in step.places:
            if place.bytes > gpu.binding_bytes:
                raise DelegateFailed(
                    f"{step.operation or pipeline.name} binds {place.bytes} bytes; this GPU binds at most "
                    f"{gpu.binding_bytes}"
                )
        if sum(kind != "uniform" for kind in pipeline.bindings) > gpu.storage_buffers:
            raise DelegateFailed(f"{pipeline.name} needs more than this GPU's {gpu.storage_buffers} buffers")
        if max(step.groups) > gpu.workgroups:
            raise DelegateFailed(f"{step.operation or pipeline.name} needs {max(step.groups)} workgroups")
