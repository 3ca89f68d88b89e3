"""Compile and run one file on the real GPU delegate, and compare the results with the CPU's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from time import monotonic

from msd.errors import MsdError
from msd.graph import tflite
from msd.graph.ir import Model
from msd.graph.ir.executed_graphs import executed_graphs
from msd.graph.ir.float_weights import reads_integer_weights
from msd.graph.ir.interface import Interface, compared_ids
from msd.graph.ir.weights import Array
from msd.measure.judging.rejection import rejections
from msd.measure.judging.verdict import Distance, Verdict, distance
from msd.run.runners import native_log
from msd.run.runners.adapter import find
from msd.run.runners.backends.litert_cpu import CpuProcess
from msd.run.runners.backends.litert_gpu import GpuProcess
from msd.run.runners.checks import check, one_line
from msd.run.runners.child import ChildLost, ChildRefused
from msd.run.runners.process_runner import ProcessRunner
from msd.run.runners.random_inputs import random_inputs
from msd.run.runners.runner import Conditions, Precision, VulkanAdapter
from msd.run.runners.wheels.environment import LiteRt

TAIL = 60
"""The number of lines of the native log that a verdict keeps."""

NOISE = ("_registry.cc:", "compiler_plugin.cc:", "Could not load shared library", "environment.cc:36]")
"""Lines about accelerators and plugins other than the GPU's."""


@dataclass(frozen=True)
class Attempt:
    """One attempt to load and run a file in a child process."""

    text: str
    outputs: Mapping[str, Array] | None = None
    compile_seconds: float | None = None
    run_seconds: float | None = None
    failure: str | None = None
    crashed: bool = False

    @property
    def facts(self) -> native_log.NativeLog:
        """The facts in its native log."""
        return native_log.parse(self.text)


def judge(
    path: Path,
    *,
    precision: Precision = "fp32",
    timeout: float = 600.0,
    memory: int | None = None,
    inputs: Mapping[str, Array] | None = None,
    adapter: VulkanAdapter | None = None,
    litert: LiteRt | None = None,
) -> Verdict:
    """Return the verdict of LiteRT's GPU delegate on the .tflite file at `path`.

    A child process compiles the file for the GPU alone and runs it on `inputs` (else seeded random ones); a
    second child runs it on the CPU with float arithmetic. If the delegate rejects operations, the file is
    compiled again with those on the CPU, to compare results. `timeout` is in seconds for each compilation and
    each run, `memory` in bytes for each child. `litert`: another version of LiteRT, in place of the installed
    one; the CPU's results are always the installed one's. Raises BadModelFile for a file that is no model or
    does not accept `inputs`, NoDelegate without an adapter.
    """
    start = monotonic()
    model = tflite.read(path)
    ports = Interface.of(model, path)
    values = (
        random_inputs(ports.inputs.values(), compared=compared_ids(model)) if inputs is None else dict(inputs)
    )
    check(values, ports.inputs, path)
    adapter = adapter or find()
    conditions = Conditions(
        threads=1, precision=precision, isolation="process", seconds=timeout, memory=memory, adapter=adapter
    )
    gpu = _on_gpu(path, conditions, values, litert)
    cpu = None if gpu.outputs is None else _try(lambda: CpuProcess(path, conditions), "loading", values)
    verdict = _verdict(path, model, adapter, precision, gpu, cpu, monotonic() - start)
    return verdict if litert is None else _of_version(verdict, litert, adapter)


def _of_version(verdict: Verdict, litert: LiteRt, adapter: VulkanAdapter) -> Verdict:
    """Return the verdict as one of `litert`, in the precision that this version computes in."""
    fixed: Precision = "fp16" if adapter.half_floats else "fp32"
    precision = verdict.precision if litert.chooses_precision else fixed
    return replace(verdict, litert=litert.version, precision=precision)


def _on_gpu(path: Path, conditions: Conditions, inputs: dict[str, Array], litert: LiteRt | None) -> Attempt:
    alone = _try(lambda: GpuProcess(path, conditions, litert=litert), "compiling", inputs)
    facts = alone.facts
    if alone.crashed or not facts.rejected:
        return alone
    if not facts.delegated:
        return replace(alone, failure=None)
    mixed = _try(lambda: GpuProcess(path, conditions, cpu_too=True, litert=litert), "compiling", inputs)
    return replace(mixed, text=alone.text if mixed.failure is None else mixed.text)


def _try(load: Callable[[], ProcessRunner], loading: str, inputs: dict[str, Array]) -> Attempt:
    """Load and run in a fresh process; a refusal or a crash becomes the attempt's failure."""
    try:
        runner = load()
    except MsdError as problem:
        return _failed(problem, loading, None)
    with runner:
        try:
            outputs = runner.run(inputs)
        except MsdError as problem:
            return _failed(problem, "running", runner.load_seconds)
        return Attempt(
            text=runner.log,
            outputs=outputs,
            compile_seconds=runner.load_seconds,
            run_seconds=runner.run_seconds[-1],
        )


def _failed(problem: MsdError, doing: str, compile_seconds: float | None) -> Attempt:
    cause = problem.__cause__
    if isinstance(cause, ChildLost):
        failure = f"while {doing}, {cause}"
    elif isinstance(cause, ChildRefused):
        failure = f"{doing} failed: {_reason(cause)}"
    else:
        raise problem
    return Attempt(
        text=cause.log,
        compile_seconds=compile_seconds,
        failure=failure,
        crashed=isinstance(cause, ChildLost),
    )


def _reason(problem: ChildRefused) -> str:
    """Return the first error in the native log, which is the cause, else the exception's message."""
    return next(iter(native_log.parse(problem.log).problems), one_line(problem).rpartition("└ ")[2])


def _verdict(
    path: Path,
    model: Model,
    adapter: VulkanAdapter,
    requested: Precision,
    gpu: Attempt,
    cpu: Attempt | None,
    seconds: float,
) -> Verdict:
    facts = gpu.facts
    graphs = executed_graphs(model, facts.rejected)
    ops = [op for graph in graphs for op in graph.ops]
    # The log of a fully delegated graph may lack the line that says so.
    unlogged = gpu.outputs is not None and not facts.replaced and not facts.rejected and facts.initialised > 0
    return Verdict(
        file=str(path),
        adapter=facts.adapter or adapter.name,
        adapter_type=facts.adapter_type or adapter.type,
        precision_asked=requested,
        precision=requested if adapter.half_floats else "fp32",
        operations=len(ops),
        subgraphs=len(graphs),
        delegated=len(ops) if unlogged else facts.delegated,
        partitions=facts.initialised if unlogged else facts.partitions,
        confirmed=bool(facts.replaced) and not facts.restored,
        rejected=rejections(facts.rejected, ops),
        outputs=_distances(gpu, cpu),
        failure=gpu.failure,
        crashed=gpu.crashed,
        problems=facts.problems,
        reference_failure=cpu.failure if cpu else None,
        compile_seconds=gpu.compile_seconds,
        run_seconds=gpu.run_seconds,
        seconds=seconds,
        log=_tail(gpu.text),
        integer_weights=reads_integer_weights(model),
    )


def _distances(gpu: Attempt, cpu: Attempt | None) -> tuple[Distance, ...]:
    if gpu.outputs is None or cpu is None or cpu.outputs is None:
        return ()
    return tuple(distance(name, value, cpu.outputs[name]) for name, value in gpu.outputs.items())


def _tail(text: str) -> tuple[str, ...]:
    lines = [line for line in text.splitlines() if line and not any(noise in line for noise in NOISE)]
    return tuple(lines[-TAIL:])
