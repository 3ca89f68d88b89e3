"""Other programs' opinions of a file: those of tflite-runtime 2.14 and of TensorFlow's Analyzer.

Each runs in a process of its own, which may crash: the two libraries cannot be loaded together.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from msd.graph import tflite
from msd.measure.report.report import Witness
from msd.run.runners.backends.tflite_runtime import int4_filter

RUN = """
import json, sys
import numpy as np
from tflite_runtime.interpreter import Interpreter
try:
    network = Interpreter(sys.argv[1])
    network.allocate_tensors()
    for port in network.get_input_details():
        network.set_tensor(port["index"], np.ones(port["shape"], port["dtype"]))
    network.invoke()
    print(json.dumps([True, "loads and runs it"]))
except (ValueError, RuntimeError) as problem:
    print(json.dumps([False, str(problem)]))
"""

ANALYZE = """
import sys
import tensorflow as tf
tf.lite.experimental.Analyzer.analyze(model_path=sys.argv[1], gpu_compatibility=True)
"""

WARNING = re.compile(r"GPU COMPATIBILITY WARNING: (?!Subgraph)(.*)")


def witnesses(path: Path, timeout: float) -> tuple[Witness, ...]:
    """Return the opinion of each installed witness on the file; each may take `timeout` seconds."""
    asked = (("tflite-runtime", _runtime), ("tensorflow", _analyzer))
    there = [(ask, installed) for name, ask in asked if (installed := _version(name))]
    with ThreadPoolExecutor(len(asked)) as side_by_side:
        return tuple(side_by_side.map(lambda each: each[0](path, each[1], timeout), there))


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _runtime(path: Path, installed: str, timeout: float) -> Witness:
    name = f"tflite-runtime {installed}, CPU"
    printed = _child(RUN, path, timeout)
    if isinstance(printed, str):
        return Witness(name, False, printed)
    ok, says = json.loads(printed[-1])
    if ok and (named := int4_filter(tflite.read(path))):
        return Witness(name, False, f"loads and runs it, but takes the int4 weights {named} for float32")
    return Witness(name, ok, " ".join(says.split()))


def _analyzer(path: Path, installed: str, timeout: float) -> Witness:
    """Ask TensorFlow's Analyzer: the one of 2.21 was not seen to warn of anything, of GATHER_ND neither."""
    name = f"tf.lite.experimental.Analyzer {installed}"
    printed = _child(ANALYZE, path, timeout)
    if isinstance(printed, str):
        return Witness(name, False, printed)
    warnings = [match.group(1).strip() for line in printed if (match := WARNING.search(line))]
    if not warnings:
        return Witness(name, True, "warns of nothing")
    more = f" and {len(warnings) - 1} more" if len(warnings) > 1 else ""
    return Witness(name, False, f"warns: {warnings[0]}{more}")


def _child(script: str, path: Path, timeout: float) -> list[str] | str:
    """Return the lines that `script` prints, or in a phrase why there are none."""
    command = [sys.executable, "-c", script, str(path)]
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
