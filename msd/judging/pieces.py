"""The real delegate's verdict on a file that is too large for it here, piece by piece."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from msd import tflite
from msd.errors import BadModelFile
from msd.ir import Model
from msd.ir.interface import Interface
from msd.ir.split import split_graph
from msd.ir.weights import Array
from msd.judging.judge import judge
from msd.judging.verdict import Verdict
from msd.runners.backends.litert_cpu import open_file
from msd.runners.random_inputs import random_inputs
from msd.runners.runner import Conditions


def judge_pieces(
    path: Path, count: int, inputs: Mapping[str, Array] | None = None, **judging: Any
) -> Iterator[Verdict]:
    """Yield the verdict on each of about `count` pieces of the file's first graph, one after the other.

    Each is fed what those before it make on the CPU in float arithmetic, the first `inputs` or seeded random
    ones. `judging` goes to `judge`. Raises what `judge` raises, and BadModelFile for a graph that cannot be
    cut.
    """
    model = tflite.read(path)
    ports = Interface.of(model, path)
    given = random_inputs(ports.inputs.values()) if inputs is None else dict(inputs)
    named = (
        model.main.signatures[0].inputs if model.main.signatures else {t.name: t for t in model.main.inputs}
    )
    known = {tensor.name: given[name] for name, tensor in named.items()}
    try:
        pieces = split_graph(model.main, count)
    except ValueError as problem:
        raise BadModelFile(f"{path} cannot be cut into pieces: {problem}") from problem
    with tempfile.TemporaryDirectory(prefix="msd-pieces-") as folder:
        for number, piece in enumerate(pieces, 1):
            file = Path(folder) / f"{path.stem}.{number}-of-{len(pieces)}.tflite"
            tflite.write(Model([piece]), file)
            fed = {tensor.name: known[tensor.name] for tensor in piece.inputs}
            with open_file(file, Conditions()) as network:
                known |= network.run(fed)
            verdict = judge(file, inputs=fed, **judging)
            file.unlink()
            yield replace(verdict, file=path.with_name(file.name))
