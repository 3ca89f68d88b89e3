"""What a test of the WebGPU compiler claims: a graph's program computes LiteRT's numbers, on SwiftShader."""

from __future__ import annotations

import numpy as np

from msd.gpu.compile import compile_model
from msd.gpu.program import Program
from msd.gpu.session import Session
from msd.gpu.switches import Switches
from msd.graph.ir import Build, Graph, Model, Tensor
from msd.graph.ir.weights import Array
from msd.graph.parity import psnr
from tests.harness import Feeds, Ints, Spell, build, evaluate, feeds_for, normal
from tests.webgpu_device import device

LEAST = 100.0
"""Decibels to LiteRT on the CPU, in float32."""


def constant_attention(new: Build, q: Tensor) -> Tensor:
    """Attention of `q`, (2, any, 8), to nine constant keys and values."""
    k, v = new.const(normal(2, 9, 8)), new.const(normal(2, 9, 8, seed=2))
    scores = new.MUL(new.BATCH_MATMUL(q, k, adj_y=True), new.const(np.float32(0.3)))
    return new.BATCH_MATMUL(new.SOFTMAX(scores, beta=1.0), v)


def check_program(
    spell: Spell,
    *,
    kernels: list[str] | None = None,
    switches: Switches | None = None,
    feeds: Feeds | None = None,
    scale: float = 3.0,
    least: float = LEAST,
    reference: Spell | None = None,
    **inputs: tuple[int, ...] | Ints,
) -> Program:
    """The program's outputs are LiteRT's to `least` dB; `kernels` are the operations of its dispatches.

    LiteRT runs `reference` if there is one: the same graph with weights that the CPU reads as a GPU does.
    """
    wanted = build(reference or spell, **inputs)
    fed = {**feeds_for(wanted, scale=scale), **(feeds or {})}
    program, got = run_program(build(spell, **inputs), fed, switches)
    arrays = zip(wanted.signatures[0].outputs, evaluate(wanted, fed), got, strict=True)
    for name, array, result in arrays:
        assert array.shape == result.shape
        assert psnr(array, result) >= least, f"{name}: {psnr(array, result):.1f} dB\n{wanted}"
    if kernels is not None:
        assert [step.operation for step in program.steps] == kernels
    return program


def run_program(graph: Graph, feeds: Feeds, switches: Switches | None = None) -> tuple[Program, list[Array]]:
    """Compile a graph, which is changed, and run it on SwiftShader; returns its outputs too."""
    program = compile_model(Model([graph]), device().gpu, switches)
    with Session(program, device()) as session:
        return program, list(session.run(feeds).values())
