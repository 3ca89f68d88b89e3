"""What a GPU reaches at most: bytes from its memory, arithmetic of threads and of matrix units.

Each kernel does one thing for a while. These are measured, not printed figures: what reaches them does all
that this GPU does through this implementation of WebGPU.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from time import perf_counter

import numpy as np

from msd.errors import DelegateFailed
from msd.gpu.assemble import Named, assemble
from msd.gpu.device import OpenDevice
from msd.gpu.gpu import Gpu
from msd.gpu.kernels.shader import shader_dispatch
from msd.gpu.session import Session
from msd.gpu.value import Dispatch, Value
from msd.gpu.wgsl import fill

RUNS, SLOW = 5, 1.0
"""The runs that are timed, and the seconds of a run of a processor, which needs not warm up."""
READ_BYTES = 256 << 20
"""Several times as much as a GPU's caches hold."""
TURNS, CHAINS = 256, 8
"""The repetitions of a loop, and the sums in it that do not depend on one another."""
THREADS = 256


@dataclass(frozen=True)
class Peaks:
    """Bytes and flops a second; a flop is an addition or a multiplication, in the type of the activations.

    `matrix_flops`: of the matrix units, None without. `dispatch_seconds`: a dispatch of no work, by the clock
    that times dispatches.
    """

    bytes: float
    flops: float
    matrix_flops: float | None
    dispatch_seconds: float

    def least_seconds(self, bytes_: int, arithmetic: int, matrices: bool) -> float:
        """Return the longer of the times of the bytes and of the arithmetic (the roofline model)."""
        peak = self.matrix_flops if matrices and self.matrix_flops else self.flops
        return max(bytes_ / self.bytes, arithmetic / peak)


def measure_peaks(device: OpenDevice) -> Peaks:
    """Return the peaks of a device that has timestamp queries, without matrix units if it refuses those.

    Raises DelegateFailed as Session does.
    """
    try:
        return _measured(device)
    except DelegateFailed:
        if device.gpu.matrix is None:
            raise
        return _measured(replace(device, gpu=replace(device.gpu, matrix=None)))


def _measured(device: OpenDevice) -> Peaks:
    gpu = device.gpu
    trials = {"nothing": _nothing(gpu), "bytes": _reading(gpu), "flops": _multiplying(gpu)}
    if gpu.matrix:
        trials["matrices"] = _matrices(gpu)
    program = assemble(list(trials.values()), {}, _outputs(trials.values()), gpu)
    with Session(program, device) as session:
        found = np.array(_times(session))
    least = dict(zip(trials, np.maximum(found.min(axis=0), 1e-9).tolist(), strict=True))
    counts = {name: each.bytes if name == "bytes" else each.flops for name, each in trials.items()}
    rates = {name: count / least[name] for name, count in counts.items()}
    return Peaks(
        bytes=rates["bytes"],
        flops=rates["flops"],
        matrix_flops=rates.get("matrices"),
        dispatch_seconds=least["nothing"],
    )


def _times(session: Session) -> list[list[float]]:
    """Return the seconds of each trial in several runs of a warm GPU, or in two where a run takes long."""
    begun = perf_counter()
    first = session.time({})
    if perf_counter() - begun > SLOW:
        return [first, session.time({})]
    for _ in range(RUNS):
        session.submit()
    session.wait()
    return [session.time({}) for _ in range(RUNS)]


def _outputs(trials: Iterable[Dispatch]) -> dict[str, Named]:
    values = [value for trial in trials for value in trial.writes]
    return {str(i): Named(value, (value.count,), "float32") for i, value in enumerate(values)}


_MAIN = """
@compute @workgroup_size($threads)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32$more) {
    $body
}
"""

_READ = """
    var sum = vec4<f32>();
    for (var at = group.x * ${threads}u + thread; at < p.vectors; at += p.step) { sum += x[at]; }
    y[group.x * ${threads}u + thread] = sum;
"""


def _dispatch(name: str, body: str, y: Value, width: int, groups: int, flops: int = 0) -> Dispatch:
    text = fill(_MAIN, threads=THREADS, more="", body=body)
    return shader_dispatch(name, text, {}, {"y": (y, width)}, {}, (groups, 1, 1), flops)


def _nothing(gpu: Gpu) -> Dispatch:
    body = "if (thread == 0u) { y[0] = f32(group.x); }"
    return _dispatch("nothing", body, Value("nothing", "f32", 4), 1, groups=1)


def _reading(gpu: Gpu) -> Dispatch:
    size = min(READ_BYTES, gpu.binding_bytes, gpu.buffer_bytes // 2)
    groups = 8 * gpu.enough_workgroups
    x, y = Value("read", "f32", size // 4), Value("sums", "f32", groups * THREADS * 4)
    params = {"vectors": size // 16, "step": groups * THREADS}
    body = fill(_MAIN, threads=THREADS, more="", body=fill(_READ, threads=THREADS))
    return shader_dispatch("bytes", body, {"x": (x, 4)}, {"y": (y, 4)}, params, (groups, 1, 1))


def _multiplying(gpu: Gpu) -> Dispatch:
    groups, kind = 8 * gpu.enough_workgroups, f"vec4<{gpu.real}>"
    sums = range(CHAINS)
    body = f"let a = {kind}({gpu.real}(thread) * 0.0001);\n"
    body += "".join(f"var c{i} = {kind}({gpu.real}(group.x + {i}u) * 0.001);\n" for i in sums)
    body += f"for (var turn = 0u; turn < {TURNS}u; turn++) {{\n"
    body += "".join(f"c{i} = fma(c{i}, a, a);\n" for i in sums) + "}\n"
    body += f"y[group.x * {THREADS}u + thread] = {' + '.join(f'c{i}' for i in sums)};\n"
    flops = groups * THREADS * TURNS * CHAINS * 4 * 2
    return _dispatch("flops", body, Value("products", gpu.real, groups * THREADS * 4), 4, groups, flops)


_FILL = """
    for (var at = thread; at < ${size}u; at += ${threads}u) {
        left[at] = f16(0.0625);
        right[at] = f16(0.0625);
    }
    workgroupBarrier();
    let a = subgroupMatrixLoad<$left>(&left, 0u, false, ${depth}u);
"""


def _matrices(gpu: Gpu) -> Dispatch:
    unit, subgroups, groups = gpu.matrix, 4, 2 * gpu.enough_workgroups
    assert unit is not None, "only where there are matrix units"
    each, threads = unit.rows * unit.columns, subgroups * unit.subgroup
    size = CHAINS * unit.depth * max(unit.rows, unit.columns)
    left = f"subgroup_matrix_left<f16, {unit.depth}, {unit.rows}>"
    right = f"subgroup_matrix_right<f16, {unit.columns}, {unit.depth}>"
    result = f"subgroup_matrix_result<f32, {unit.columns}, {unit.rows}>"
    body = f"let lane = thread % {unit.subgroup}u;\n"
    body += fill(_FILL, size=size, threads=threads, left=left, depth=unit.depth)
    for i in range(CHAINS):  # each from a place of its own, so that no compiler takes them for one
        at = i * unit.depth * unit.columns
        body += f"let b{i} = subgroupMatrixLoad<{right}>(&right, {at}u, false, {unit.columns}u);\n"
        body += f"var s{i} = {result}();\n"
    body += f"for (var turn = 0u; turn < {TURNS}u; turn++) {{\n"
    body += (
        "".join(f"s{i} = subgroupMatrixMultiplyAccumulate(a, b{i}, s{i});\n" for i in range(CHAINS)) + "}\n"
    )
    body += f"let first = (group.x * {subgroups}u + subgroup) * {CHAINS * each}u;\n"
    for i in range(CHAINS):
        body += f"subgroupMatrixStore(&y, first + {i * each}u, s{i}, false, {unit.columns}u);\n"
    text = f"var<workgroup> left: array<f16, {size}>;\nvar<workgroup> right: array<f16, {size}>;\n"
    text += fill(_MAIN, threads=threads, more=", @builtin(subgroup_id) subgroup: u32", body=body)
    y = Value("matrices", "f32", groups * subgroups * CHAINS * each)
    flops = groups * subgroups * TURNS * CHAINS * 2 * each * unit.depth
    return shader_dispatch("matrices", text, {}, {"y": (y, 1)}, {}, (groups, 1, 1), flops)
