"""Judge a file in pieces where it is too large for the real delegate on this machine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from msd.errors import BadModelFile
from msd.files.scratch import scratch_folder
from msd.graph import tflite
from msd.graph.ir import Model
from msd.graph.ir.interface import Interface, compared_ids
from msd.graph.ir.split import split_graph
from msd.graph.ir.weights import Array
from msd.measure.judging.judge import judge
from msd.measure.judging.verdict import Verdict
from msd.run.runners.backends.litert_cpu import open_file
from msd.run.runners.random_inputs import random_inputs
from msd.run.runners.runner import Conditions


def judge_pieces(
    path: Path, count: int, inputs: Mapping[str, Array] | None = None, **judging: Any
) -> Iterator[Verdict]:
    """Yield the verdict on each of about `count` pieces of the file's first graph, one after the other.

    The first piece runs on `inputs` or seeded random ones, each other on the results of the pieces before it
    on the CPU in float arithmetic. `judging` are keywords of `judge`. Raises the errors of `judge`, and
    BadModelFile for a graph that cannot be cut.
    """
    model = tflite.read(path)
    ports = Interface.of(model, path)
    first = (
        random_inputs(ports.inputs.values(), compared=compared_ids(model)) if inputs is None else dict(inputs)
    )
    names = (
        model.main.signatures[0].inputs if model.main.signatures else {t.name: t for t in model.main.inputs}
    )
    values = {tensor.name: first[name] for name, tensor in names.items()}
    try:
        pieces = split_graph(model.main, count)
    except ValueError as problem:
        raise BadModelFile(f"{path} cannot be cut into pieces: {problem}") from problem
    with scratch_folder() as folder:
        for number, piece in enumerate(pieces, 1):
            file = folder / f"{path.stem}.{number}-of-{len(pieces)}.tflite"
            tflite.write(Model([piece]), file)
            of_piece = {tensor.name: values[tensor.name] for tensor in piece.inputs}
            with open_file(file, Conditions()) as network:
                values |= network.run(of_piece)
            verdict = judge(file, inputs=of_piece, **judging)
            file.unlink()
            yield replace(verdict, file=str(path.with_name(file.name)))
