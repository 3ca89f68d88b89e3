"""Another program's opinion of a file: that of tflite-runtime 2.14, in a process of its own, which may crash.

TensorFlow's Analyzer is not asked: from 2.18 on it finds every file fit for the GPU without a look at it
(findings/tensorflow-analyzer-never-warns.sh).
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from msd.files.packages import installed_versions
from msd.graph import tflite
from msd.graph.ir.weights import Array
from msd.graph.parity import psnr
from msd.measure.report.report import Witness
from msd.run.runners.backends.tflite_runtime import misread_weights

RUN = """
import importlib, json, sys
import numpy as np
Interpreter = importlib.import_module(sys.argv[3] + ".interpreter").Interpreter
try:
    network = Interpreter(sys.argv[1])
    network.allocate_tensors()
    numbers = np.random.default_rng(0)
    for port in network.get_input_details():
        real = np.issubdtype(port["dtype"], np.floating)
        values = numbers.standard_normal(port["shape"]) if real else np.ones(port["shape"])
        network.set_tensor(port["index"], values.astype(port["dtype"]))
    network.invoke()
    results = [network.get_tensor(port["index"]) for port in network.get_output_details()]
    np.savez(sys.argv[2], *results)
    print(json.dumps([True, "loads and runs it"]))
except (ValueError, RuntimeError) as problem:
    print(json.dumps([False, str(problem)]))
"""

NEWER = re.compile(r"Didn't find op for builtin opcode '(\w+)' version '(\d+)'")

LEAST = 20.0
"""Decibels between results of the two CPU libraries, which round int8's inputs each in its own way."""


def witnesses(path: Path, timeout: float) -> tuple[Witness, ...]:
    """Return the opinion of each installed witness on the file; each run may take `timeout` seconds."""
    installed = installed_versions("tflite-runtime").get("tflite-runtime")
    return (_runtime(path, installed, timeout),) if installed else ()


def _runtime(path: Path, installed: str, timeout: float) -> Witness:
    name = f"tflite-runtime {installed}, CPU"
    with TemporaryDirectory() as folder:
        old, new = Path(folder) / "old.npz", Path(folder) / "new.npz"
        printed = _child(RUN, path, timeout, old, "tflite_runtime")
        if isinstance(printed, str):
            return Witness(name, False, printed)
        ok, says = json.loads(printed[-1])
        says = " ".join(says.split())
        if not ok:
            return Witness(name, False, _refusal(says))
        if clause := misread_weights(tflite.read(path)):
            return Witness(name, False, f"{says}, but {clause}")
        _child(RUN, path, timeout, new, "ai_edge_litert")
        distance = _distance(new, old)
    if distance is not None and not distance >= LEAST:
        return Witness(name, False, f"{says}, but its results are {distance:.1f} dB from LiteRT's")
    return Witness(name, True, says)


def _refusal(says: str) -> str:
    """Return why it did not run; that its operators are older is no fault of the file."""
    if newer := NEWER.search(says):
        return f"is too old for {newer[1]} of version {newer[2]}"
    return says


def _distance(wanted: Path, found: Path) -> float | None:
    """Return the least PSNR in dB of the results; None where LiteRT has none, or none that are finite."""
    if not wanted.is_file():
        return None
    with np.load(wanted) as one, np.load(found) as other:
        pairs = [(_parts(one[key]), _parts(other[key])) for key in one.files]
    finite = [pair for pair in pairs if np.isfinite(pair[0]).all()]
    return min((psnr(*pair) for pair in finite), default=None)


def _parts(values: Array) -> Array:
    """Return float64 numbers, two for a complex one."""
    return (
        values.astype(np.complex128).view(np.float64)
        if np.iscomplexobj(values)
        else values.astype(np.float64)
    )


def _child(script: str, path: Path, timeout: float, *more: object) -> list[str] | str:
    """Return the lines that `script` prints, or in a phrase why there are none."""
    command = [sys.executable, "-c", script, str(path), *map(str, more)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)
    except subprocess.TimeoutExpired:
        return f"was stopped after {timeout:g} s"
    if done.returncode < 0:
        return f"crashed with signal {-done.returncode}"
    if done.returncode or not done.stdout.strip():
        last = done.stderr.strip().splitlines()[-1:] or ["no words"]
        return f"failed: {last[0]}"
    return done.stdout.strip().splitlines()
