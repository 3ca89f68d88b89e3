"""Dispatches become a program: activations and constants get places, equal kernels share a pipeline."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from msd.errors import DelegateFailed
from msd.prediction.memory_plan import Lifetime, live_bytes, offsets
from msd.webgpu.gpu import Gpu
from msd.webgpu.program import ComputePipeline, Constant, Place, Port, Program, ProgramStep
from msd.webgpu.value import ALIGNMENT, Dispatch, Value

if TYPE_CHECKING:
    from msd.ir.weights import Array

ARENA, PARAMS, FIRST_CONSTANTS = range(3)
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
    held, least = _place_activations(dispatches, inputs, outputs)
    loads = _loads(dispatches)
    constants, sizes = _place_constants(loads)
    places = held | constants
    params, param_places = _pack_params(dispatches)
    arena = max((place.offset + _aligned(place.bytes) for place in held.values()), default=ALIGNMENT)
    pipelines = list(dict.fromkeys(map(_pipeline, dispatches)))
    numbers = {pipeline: i for i, pipeline in enumerate(pipelines)}
    program = Program(
        buffers=(arena, max(len(params), 16), *sizes),
        params=params,
        constants=tuple(Constant(v.name, constants[v], load) for v, load in loads.items()),
        pipelines=tuple(pipelines),
        steps=tuple(
            _step(dispatch, numbers[_pipeline(dispatch)], places, place)
            for dispatch, place in zip(dispatches, param_places, strict=True)
        ),
        inputs={name: _port(named, places) for name, named in inputs.items()},
        outputs={name: _port(named, places) for name, named in outputs.items()},
        least_arena=least,
    )
    _require_limits(program, gpu)
    return program


def _place_activations(
    dispatches: Sequence[Dispatch], inputs: Mapping[str, Named], outputs: Mapping[str, Named]
) -> tuple[dict[Value, Place], int]:
    """Return the places of the activations in the arena, and the fewest bytes that any plan needs."""
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
    lifetimes = [Lifetime(_aligned(value.bytes), first[value], last[value]) for value in first]
    starts = offsets(lifetimes)
    places = {v: Place(ARENA, start, v.bytes) for v, start in zip(first, starts, strict=True)}
    return places, max(live_bytes(lifetimes, len(dispatches) or 1), default=0)


def _loads(dispatches: Iterable[Dispatch]) -> dict[Value, Callable[[], Array]]:
    values = dict.fromkeys(value for dispatch in dispatches for value in dispatch.reads)
    return {value: value.load for value in values if value.load is not None}


def _place_constants(constants: Iterable[Value]) -> tuple[dict[Value, Place], list[int]]:
    """Return the places of the constants, and the sizes of their buffers."""
    places: dict[Value, Place] = {}
    sizes: list[int] = []
    for value in constants:
        if not sizes or sizes[-1] + value.bytes > CONSTANT_BYTES:
            sizes.append(0)
        start = _aligned(sizes[-1])
        places[value] = Place(FIRST_CONSTANTS + len(sizes) - 1, start, value.bytes)
        sizes[-1] = start + value.bytes
    return places, sizes


def _pack_params(dispatches: Sequence[Dispatch]) -> tuple[bytes, list[Place | None]]:
    """Return the bytes of all parameters, equal ones stored once, and the place of each dispatch's."""
    known: dict[bytes, Place] = {}
    packed = bytearray()
    places: list[Place | None] = []
    for dispatch in dispatches:
        words = b"".join(map(_word, dispatch.params))
        words += bytes(-len(words) % 16)
        if words and words not in known:
            packed += bytes(-len(packed) % ALIGNMENT)
            known[words] = Place(PARAMS, len(packed), len(words))
            packed += words
        places.append(known.get(words))
    return bytes(packed), places


def _word(number: int | float) -> bytes:
    if isinstance(number, float):
        return struct.pack("<f", number)
    return struct.pack("<I" if number >= 0 else "<i", number)


def _pipeline(dispatch: Dispatch) -> ComputePipeline:
    reads = ["read-only-storage" if v.load is not None else "storage" for v in dispatch.reads]
    bindings = [*reads, *["storage"] * len(dispatch.writes), *["uniform"] * bool(dispatch.params)]
    return ComputePipeline(dispatch.kernel.name, dispatch.kernel.wgsl, tuple(bindings))


def _step(
    dispatch: Dispatch, pipeline: int, places: Mapping[Value, Place], params: Place | None
) -> ProgramStep:
    bound = [places[value] for value in (*dispatch.reads, *dispatch.writes)]
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


def _port(named: Named, places: Mapping[Value, Place]) -> Port:
    return Port(named.shape, named.dtype, named.value.element, places[named.value])


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


def _aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT
