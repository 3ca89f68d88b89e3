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


def combined(verdicts: list[Verdict]) -> dict[str, Any]:
    """Return the JSON form of all pieces' verdicts as one; several are under "pieces" too."""
    forms = [verdict.to_json() for verdict in verdicts]
    if len(forms) == 1:
        return forms[0]
    numbers = [form["psnr_db"] for form in forms]
    return {
        **forms[0],
        "ok": all(form["ok"] for form in forms),
        "operations": sum(form["operations"] for form in forms),
        "delegated": sum(form["delegated"] for form in forms),
        "partitions": max(form["partitions"] for form in forms),
        "crashed": any(form["crashed"] for form in forms),
        "failure": next((form["failure"] for form in forms if form["failure"]), None),
        "rejected": [rejection for form in forms for rejection in form["rejected"]],
        "problems": [problem for form in forms for problem in form["problems"]],
        "objections": [objection for form in forms for objection in form["objections"]],
        "psnr_db": None if None in numbers else min(numbers),
        "pieces": forms,
    }
