"""From a .tflite file to a program: fuse, lower, assemble."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from msd.errors import DelegateFailed
from msd.gpu.assemble import Named, assemble, pipeline_of
from msd.gpu.faults import FAULTS, fault, operator_place
from msd.gpu.fuse import FusedGraph, fuse, numbered
from msd.gpu.gpu import Gpu
from msd.gpu.kernels.pointwise import IDENTITY, Strided, compute
from msd.gpu.lowering import lower
from msd.gpu.lowering.memory import Memory
from msd.gpu.program import ComputePipeline, Program
from msd.gpu.switches import Switches
from msd.gpu.value import Dispatch, Value
from msd.gpu.views import contiguous_strides
from msd.graph import tflite
from msd.graph.ir import Graph, Model, Tensor
from msd.graph.ir.densify import densify
from msd.graph.rewrite.driver import RuleError

OnPipeline = Callable[[ComputePipeline], None]
NUMPY = {"FLOAT32": "float32", "FLOAT16": "float16", "INT32": "int32", "INT64": "int64"}
READABLE = "kernels take and give float32, float16, int32 and int64"


def ignored(pipeline: ComputePipeline) -> None:
    """Make no use of a pipeline before its program is known."""


def compile_file(path: Path, gpu: Gpu, switches: Switches | None = None) -> Program:
    """Return the program of a file's first signature, else of its main graph.

    Raises BadModelFile for a file that is no model, DelegateFailed for one that has operators without kernels
    or needs more than the GPU's limits.
    """
    return compile_model(tflite.read(path), gpu, switches)


def compile_model(model: Model, gpu: Gpu, switches: Switches | None = None) -> Program:
    """Return the program of a model, whose graph is changed; raises DelegateFailed as `compile_file` does."""
    switches = switches or Switches()
    return compile_fused(fused_graph(model, switches), gpu, switches)


def fused_graph(model: Model, switches: Switches) -> FusedGraph:
    """Return the graph of a model that is compiled, its operators fused, which needs no GPU.

    Raises DelegateFailed for one of varying shapes, or whose operators cannot be fused.
    """
    graph = next((each for each in model.graphs if each.signatures), model.main)
    _require_fixed(graph)
    numbers = numbered(graph)
    try:
        densify(graph)
        fuse(graph, switches)
    except (RuleError, *FAULTS) as problem:
        cause = problem.__cause__ if isinstance(problem.__cause__, Exception) else problem
        raise fault("fusing its operators fails", cause) from problem
    return FusedGraph(graph, numbers)


def compile_fused(
    fused: FusedGraph, gpu: Gpu, switches: Switches, on_pipeline: OnPipeline = ignored
) -> Program:
    """Return the program of a fused graph; raises DelegateFailed as `compile_file` does.

    Calls `on_pipeline` with most of its pipelines before the last is known, some of them several times.
    """
    inputs, outputs = _interface(fused.graph)
    for tensor in (*inputs.values(), *outputs.values()):
        if tensor.dtype not in NUMPY:
            raise DelegateFailed(f"{tensor.name}, an input or output, is {tensor.dtype.lower()}; {READABLE}")
    matrix = gpu.matrix if switches.matrices else None
    gpu = replace(gpu, short_sums=switches.short_sums, matrix=matrix)
    dispatches, memory = lower(fused, gpu, switches, lambda dispatch: on_pipeline(pipeline_of(dispatch)))
    given: dict[str, Named] = {}
    for name, tensor in inputs.items():
        given[name], narrowing = _given(tensor, memory)
        dispatches = [*narrowing, *dispatches]
    results: dict[str, Named] = {}
    for name, tensor in outputs.items():
        results[name], copying = _result(tensor, memory)
        dispatches += copying
    needed = _needed(dispatches, [each.value for each in results.values()])
    return assemble(needed, given, results, gpu)


def _interface(graph: Graph) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    if graph.signatures:
        return graph.signatures[0].inputs, graph.signatures[0].outputs
    return {t.name: t for t in graph.inputs}, {t.name: t for t in graph.outputs}


def _require_fixed(graph: Graph) -> None:
    for tensor in graph.inputs:
        if clause := _shape_clause(tensor):
            raise DelegateFailed(f"the shape of {tensor.name} {clause}")
    for number, op in enumerate(graph.ops):
        for clause in filter(None, map(_shape_clause, op.outputs)):
            raise DelegateFailed(f"{operator_place(op, number)}, makes a tensor whose shape {clause}")


def _shape_clause(tensor: Tensor) -> str:
    """Return why kernels cannot compute a tensor of such a shape, "" where they can."""
    if any(n < 0 for n in tensor.shape_signature or ()):
        return "is not fixed; kernels need fixed shapes"
    empty = f"is {list(tensor.shape)}, without an element; kernels need at least one"
    return "" if tensor.size else empty


def _given(tensor: Tensor, memory: Memory) -> tuple[Named, list[Dispatch]]:
    """Return what callers write of an input, and the dispatch that narrows it to f16 where kernels read that.

    A processor narrows slowly: NumPy takes 5 ns an element.
    """
    named = _named(tensor, memory)
    if named.value.element != "f16" or named.dtype != "float32":
        return named, []
    wide, strides = Value(f"{tensor.name} given", "f32", tensor.size), contiguous_strides(tensor.shape)
    operand, result = Strided(wide, strides), Strided(named.value, strides)
    narrowing = compute(IDENTITY, [operand], result, tensor.shape, memory.gpu, step="CAST")
    return Named(wide, tensor.shape, named.dtype), narrowing


def _result(tensor: Tensor, memory: Memory) -> tuple[Named, list[Dispatch]]:
    """Return what callers read of an output, and the dispatch that copies it where it is a constant."""
    named = _named(tensor, memory)
    if named.value.load is None:
        return named, []
    strides = contiguous_strides(tensor.shape)
    copy = Value(f"{tensor.name} copied", named.value.element, tensor.size)
    operand, result = Strided(named.value, strides), Strided(copy, strides)
    copying = compute(IDENTITY, [operand], result, tensor.shape, memory.gpu, step="RESHAPE")
    return Named(copy, tensor.shape, named.dtype), copying


def _named(tensor: Tensor, memory: Memory) -> Named:
    return Named(memory.value(tensor), tensor.shape, NUMPY[tensor.dtype])


def _needed(dispatches: Sequence[Dispatch], outputs: Sequence[Value]) -> list[Dispatch]:
    """Return the dispatches whose results the outputs depend on."""
    wanted, kept = set(outputs), list[Dispatch]()
    for dispatch in reversed(dispatches):
        if wanted.intersection(dispatch.writes):
            wanted.update(dispatch.reads)
            kept.append(dispatch)
    return kept[::-1]
