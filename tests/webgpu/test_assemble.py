"""Programs: places in memory, shared pipelines and parameters, and the GPU's limits."""

from __future__ import annotations

import dataclasses
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from msd.errors import DelegateFailed
from msd.gpu.assemble import CONSTANT_BYTES, Named, assemble
from msd.gpu.gpu import Gpu
from msd.gpu.program import ARENA, Constant, Place, Program
from msd.gpu.value import ALIGNMENT, Dispatch, Kernel, Value

KERNEL = Kernel("k", "@compute @workgroup_size(1) fn main() {}")


def named(value: Value) -> Named:
    return Named(value, (value.count,), "float32")


def chain(sizes: list[int]) -> tuple[list[Dispatch], list[Value]]:
    values = [Value(f"v{i}", "f32", size) for i, size in enumerate(sizes)]
    pairs = pairwise(values)
    return [Dispatch(KERNEL, (a,), (b,), (1, 1, 1), (i,)) for i, (a, b) in enumerate(pairs)], values


def overlap(a: Place, b: Place) -> bool:
    return a.buffer == b.buffer and a.offset < b.offset + b.bytes and b.offset < a.offset + a.bytes


@given(st.lists(st.integers(1, 500), min_size=2, max_size=12))
def test_what_a_dispatch_reads_and_writes_never_overlaps(sizes: list[int]) -> None:
    dispatches, values = chain(sizes)
    program = assemble(dispatches, {"x": named(values[0])}, {"y": named(values[-1])}, Gpu())
    for step in program.steps:
        source, result, _ = step.places
        assert not overlap(source, result)
        assert source.offset % ALIGNMENT == result.offset % ALIGNMENT == 0
    assert program.least_arena <= program.buffers[ARENA] <= program.least_arena * 1.5 + ALIGNMENT


@given(st.lists(st.integers(1, 500), min_size=2, max_size=12), st.integers(1, 6))
def test_activations_beyond_a_buffer_are_in_further_ones(sizes: list[int], shares: int) -> None:
    dispatches, values = chain(sizes)
    constant = Value("c", "f32", 8, lambda: np.zeros(8, np.float32))
    dispatches = [dataclasses.replace(dispatch, params=()) for dispatch in dispatches]
    dispatches[0] = dataclasses.replace(dispatches[0], reads=(values[0], constant))
    named_ = {"x": named(values[0])}, {"y": named(values[-1])}
    largest = max(-(-value.bytes // ALIGNMENT) * ALIGNMENT for value in values)
    most = max(largest, assemble(dispatches, *named_, Gpu()).buffers[ARENA] // shares)
    program = assemble(dispatches, *named_, Gpu(buffer_bytes=most))
    assert max(program.buffers[ARENA], *program.buffers[3:], 0) <= most
    assert program.constant_buffers == (2,)
    assert program.tensor_bytes == program.buffers[ARENA] + sum(program.buffers[3:])
    assert program.tensor_bytes >= program.least_arena
    assert program.weight_bytes == 32
    for step in program.steps:
        source, result = step.places[0], step.places[-1]
        assert not overlap(source, result)
        for place in (source, result):
            assert place.buffer in (ARENA, *range(3, len(program.buffers)))
            assert place.offset + place.bytes <= program.buffers[place.buffer]


def test_an_input_read_last_keeps_its_place() -> None:
    x, a, b, y = (Value(name, "f32", 64) for name in "xaby")
    dispatches = [
        Dispatch(KERNEL, (x,), (a,), (1, 1, 1)),
        Dispatch(KERNEL, (a,), (b,), (1, 1, 1)),
        Dispatch(KERNEL, (b, x), (y,), (1, 1, 1)),
    ]
    program = assemble(dispatches, {"x": named(x)}, {"y": named(y)}, Gpu())
    place = program.inputs["x"].place
    assert not any(overlap(place, step.places[-1]) for step in program.steps)


def test_equal_kernels_share_a_pipeline_and_equal_parameters_their_bytes() -> None:
    dispatches, values = chain([4, 4, 4, 4])
    dispatches = [dataclasses.replace(d, params=(7, 2.5, -1)) for d in dispatches]
    program = assemble(dispatches, {"x": named(values[0])}, {"y": named(values[-1])}, Gpu())
    assert len(program.pipelines) == 1
    assert np.frombuffer(program.params, np.uint32)[:3].tolist() == [7, 0x40200000, 0xFFFFFFFF]
    assert {step.places[-1] for step in program.steps} == {Place(1, 0, 16)}


def test_constants_fill_buffers_of_a_shard_and_a_larger_one_has_its_own() -> None:
    words = CONSTANT_BYTES // 4
    sizes = [words - 64, 64, 2 * words, 16]
    constants = [Value(f"c{i}", "f32", n, lambda: np.zeros(1)) for i, n in enumerate(sizes)]
    x, y = Value("x", "f32", 4), Value("y", "f32", 4)
    dispatches = [Dispatch(KERNEL, (x, *constants), (y,), (1, 1, 1))]
    gpu = Gpu(buffer_bytes=1 << 30, binding_bytes=1 << 30)
    program = assemble(dispatches, {"x": named(x)}, {"y": named(y)}, gpu)
    assert [constant.place.buffer for constant in program.constants] == [2, 2, 3, 4]
    assert program.buffers[2:] == (CONSTANT_BYTES, 2 * CONSTANT_BYTES, 64)


@given(st.lists(st.integers(1, 2000), min_size=1, max_size=12), st.integers(256, 4096))
def test_constants_are_joined_up_to_a_limit(sizes: list[int], limit: int) -> None:
    constants = tuple(Constant(f"c{i}", Place(2 + i, 0, n), lambda: np.zeros(1)) for i, n in enumerate(sizes))
    program = Program((256, 16, *sizes), b"", constants, (), (), {}, {}, 0)
    groups = program.joined_constants(limit)
    assert [number for group in groups for number in group] == [*range(2, 2 + len(sizes))]
    taken = [[-(-sizes[n - 2] // ALIGNMENT) * ALIGNMENT for n in group] for group in groups]
    assert all(sum(each) <= limit or len(each) == 1 for each in taken)
    assert all(sum(one) + other[0] > limit for one, other in pairwise(taken))


@pytest.mark.parametrize(
    ("gpu", "groups", "message"),
    [
        (Gpu(buffer_bytes=1024), 1, "a buffer of 2048 bytes is needed; this GPU's buffers have at most 1024"),
        (Gpu(binding_bytes=512), 1, "CONV_2D binds 2000 bytes; this GPU binds at most 512"),
        (Gpu(storage_buffers=1), 1, "k needs more than this GPU's 1 buffers"),
        (Gpu(workgroups=8), 9, "CONV_2D needs 9 workgroups"),
    ],
)
def test_a_limit_that_is_too_low_is_named(gpu: Gpu, groups: int, message: str) -> None:
    x, y = Value("x", "f32", 500), Value("y", "f32", 500)
    dispatches = [Dispatch(KERNEL, (x,), (y,), (groups, 1, 1), step="CONV_2D")]
    with pytest.raises(DelegateFailed, match=message):
        assemble(dispatches, {"x": named(x)}, {"y": named(y)}, gpu)
