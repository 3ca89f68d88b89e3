"""A program on a device: buffers are allocated and filled once, then the dispatches run many times."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import accumulate
from time import perf_counter
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from msd.errors import DelegateFailed, ProgramRefused
from msd.files.ahead import in_order
from msd.gpu.buffer_usage import usage
from msd.gpu.device import OpenDevice
from msd.gpu.phases import Phases
from msd.gpu.program import PARAMS, ComputePipeline, Constant, Place, Port, Program, ProgramStep
from msd.gpu.readback import Range, Readback
from msd.gpu.upload import Upload
from msd.gpu.value import aligned

if TYPE_CHECKING:
    from msd.graph.ir.weights import Array

NUMPY = {"f32": np.float32, "f16": np.float16, "i32": np.int32, "u32": np.uint32}
COMPILING, PACKING = min(os.cpu_count() or 1, 16), min(os.cpu_count() or 1, 8)
"""The threads that compile pipelines, and those that pack constants while others are uploaded."""
ROOM = 256 << 20
"""The bytes of constants that are packed ahead of their upload."""
FIRST, PIECE = 32, 256
"""The dispatches of the first command buffer and of the others: the driver translates one when it is
submitted, while the GPU runs the last."""


class Session:
    """A program that is ready to run; a context manager that frees the GPU's memory.

    `phases` times packing, uploading and making pipelines. Raises DelegateFailed where the GPU's memory is
    too small, ProgramRefused where a shader is refused, and what loading a constant raises.
    """

    def __init__(self, program: Program, device: OpenDevice, phases: Phases | None = None) -> None:
        self.program, self._device = program, device.wgpu
        self._timestamps, self._places = device.timestamps, list[tuple[Any, int]]()
        self._readback: Readback | None = None
        self._commands: list[Any] = []
        try:
            self._places = self._allocated()
            outputs = [self._range(port.place) for port in program.outputs.values()]
            self._readback = Readback(self._device, outputs)
            pipelines = self._filled(device, phases or Phases())
            self._steps = [self._bound(step, *pipelines[step.pipeline]) for step in program.steps]
        except Exception as problem:
            self.close()
            raise _refusal(problem) from problem

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Return the outputs by name, in TFLite's dtypes; raises DelegateFailed."""
        try:
            self.write(inputs)
            self.submit()
            return self._outputs()
        except Exception as problem:
            raise _refusal(problem) from problem

    def submit(self) -> None:
        """Run all dispatches once; does not wait for them.

        While the GPU runs them, the commands of the next run are encoded, which may take a tenth as long.
        """
        for commands in self._commands or self._encoded():
            self._device.queue.submit([commands])
        self._commands = self._encoded()

    def _encoded(self) -> list[Any]:
        """Return the command buffers of a run, which can be submitted once."""
        pieces = self._steps[:FIRST], *_pieces(self._steps[FIRST:], PIECE)
        return [self._commands_of(steps) for steps in pieces]

    def _commands_of(self, steps: Sequence[tuple[Any, Any, tuple[int, int, int]]]) -> Any:
        encoder = self._device.create_command_encoder()
        compute = encoder.begin_compute_pass()
        for pipeline, group, groups in steps:
            compute.set_pipeline(pipeline)
            compute.set_bind_group(0, group)
            compute.dispatch_workgroups(*groups)
        compute.end()
        return encoder.finish()

    def wait(self) -> None:
        """Wait until everything submitted has run."""
        self._device.queue.read_buffer(self._places[PARAMS][0], 0, 4)

    def time(self, inputs: Mapping[str, Array]) -> list[float]:
        """Run once, each dispatch in a pass of its own, and return the seconds of each.

        Raises DelegateFailed where the device has no timestamp queries.
        """
        if not self._timestamps:
            raise DelegateFailed("this GPU has no timestamp queries, so dispatches cannot be timed")
        self.write(inputs)
        seconds: list[float] = []
        for steps in _pieces(self._steps, 1024):
            seconds += self._timed(steps)
        return seconds

    def _timed(self, steps: Sequence[tuple[Any, Any, tuple[int, int, int]]]) -> list[float]:
        count = 2 * len(steps)
        queries = self._device.create_query_set(type="timestamp", count=count)
        results = self._buffer(8 * count, "QUERY_RESOLVE", "COPY_SRC")
        encoder = self._device.create_command_encoder()
        for i, (pipeline, group, groups) in enumerate(steps):
            writes = {
                "query_set": queries,
                "beginning_of_pass_write_index": 2 * i,
                "end_of_pass_write_index": 2 * i + 1,
            }
            compute = encoder.begin_compute_pass(timestamp_writes=writes)
            compute.set_pipeline(pipeline)
            compute.set_bind_group(0, group)
            compute.dispatch_workgroups(*groups)
            compute.end()
        encoder.resolve_query_set(queries, 0, count, results, 0)
        self._device.queue.submit([encoder.finish()])
        ticks = np.frombuffer(self._device.queue.read_buffer(results), np.uint64).reshape(-1, 2)
        results.destroy()
        return [float(end - begin) * 1e-9 for begin, end in ticks.astype(np.float64)]

    def _allocated(self) -> list[tuple[Any, int]]:
        """Return the GPU's buffer and the offset in it of each of the program's buffers.

        Constants are side by side in as few buffers as the GPU's limit allows: an allocator takes memory in
        blocks of up to 256 MB, which buffers of 64 MB fill badly, and gives a large buffer its own block.
        """
        places: dict[int, tuple[Any, int]] = {}
        for numbers in self.program.joined_constants(self._device.limits["max-buffer-size"]):
            sizes = [aligned(self.program.buffers[number]) for number in numbers]
            buffer = self._buffer(sum(sizes), "COPY_DST", "STORAGE")
            starts = accumulate(sizes[:-1], initial=0)
            places |= {number: (buffer, start) for number, start in zip(numbers, starts, strict=True)}
        for number, size in enumerate(self.program.buffers):
            if number not in places:
                bound = "UNIFORM" if number == PARAMS else "STORAGE"
                places[number] = self._buffer(size, "COPY_SRC", "COPY_DST", bound), 0
        return [places[number] for number in sorted(places)]

    def _buffer(self, size: int, *uses: str) -> Any:
        return self._device.create_buffer(size=-(-size // 16) * 16, usage=usage(*uses))

    def _filled(self, device: OpenDevice, phases: Phases) -> list[tuple[Any, Any]]:
        """Return the pipelines, which threads make while the constants are uploaded."""
        begin = perf_counter()
        with ThreadPoolExecutor(COMPILING) as pool:
            making = [pool.submit(_pipeline, device, each) for each in self.program.pipelines]
            self._fill(phases)
            made = [each.result() for each in making]
        phases.add("pipelines", begin, max((end for _, end in made), default=begin))
        return [pipeline for pipeline, _ in made]

    def _fill(self, phases: Phases) -> None:
        """Write parameters and constants."""
        if self.program.params:
            self._device.queue.write_buffer(self._places[PARAMS][0], 0, self.program.params)
        constants = self.program.constants
        tasks = [(2 * constant.place.bytes, partial(_content, constant)) for constant in constants]
        packed = in_order(tasks, PACKING, ROOM)
        with Upload(self._device) as upload:
            for constant in constants:
                with phases.time("constants"):
                    content = next(packed)
                with phases.time("upload"):
                    buffer, offset, _ = self._range(constant.place)
                    upload.write(buffer, offset, content)

    def _bound(self, step: ProgramStep, pipeline: Any, layout: Any) -> tuple[Any, Any, tuple[int, int, int]]:
        entries = []
        for i, place in enumerate(step.places):
            buffer, offset, size = self._range(place)
            resource = {"buffer": buffer, "offset": offset, "size": size}
            entries.append({"binding": i, "resource": resource})
        return pipeline, self._device.create_bind_group(layout=layout, entries=entries), step.groups

    def write(self, inputs: Mapping[str, Array]) -> None:
        """Put the inputs where the dispatches read them; a run may overwrite them."""
        for name, port in self.program.inputs.items():
            buffer, offset, _ = self._range(port.place)
            content = _words(inputs[name].astype(NUMPY[port.element], copy=False))
            self._device.queue.write_buffer(buffer, offset, content)

    def _range(self, place: Place) -> Range:
        buffer, start = self._places[place.buffer]
        return buffer, start + place.offset, place.bytes

    def _outputs(self) -> dict[str, Array]:
        assert self._readback is not None, "made when the program was loaded"
        contents = self._readback.read()
        return {
            name: _values(port, content)
            for (name, port), content in zip(self.program.outputs.items(), contents, strict=True)
        }

    def read(self, place: Place) -> Array:
        """Return the bytes at a place of an activation."""
        return np.frombuffer(self._device.queue.read_buffer(*self._range(place)), np.uint8)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Free the GPU's memory."""
        for buffer in {id(buffer): buffer for buffer, _ in self._places}.values():
            buffer.destroy()
        if self._readback is not None:
            self._readback.close()


def _values(port: Port, content: Array) -> Array:
    """Return an output of the bytes that the GPU wrote."""
    values = content.view(NUMPY[port.element])[: int(np.prod(port.shape))]
    return values.reshape(port.shape).astype(port.dtype, copy=False)


def _pipeline(device: OpenDevice, wanted: ComputePipeline) -> tuple[tuple[Any, Any], float]:
    """Return a pipeline and the layout of its bindings, and when they were there."""
    return device.pipeline(wanted), perf_counter()


def _content(constant: Constant) -> Array:
    """Return a constant's bytes."""
    return _words(constant.load())


def _words(array: Array) -> Array:
    """Return an array's bytes, whole words of them."""
    content = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    return np.concatenate([content, np.zeros(-content.size % 4, np.uint8)]) if content.size % 4 else content


def _pieces(steps: Sequence[Any], size: int) -> Iterator[Sequence[Any]]:
    yield from (steps[i : i + size] for i in range(0, len(steps), size))


def _refusal(problem: Exception) -> Exception:
    """Return what to raise for an error of wgpu; errors of our own stay what they are."""
    if type(problem).__name__ == "GPUOutOfMemoryError":
        return DelegateFailed("the GPU's memory is too small for the program")
    if type(problem).__name__.startswith("GPU"):
        return ProgramRefused(f"WebGPU refuses the program: {' '.join(str(problem).split())}")
    return problem
