"""A child process in the environment of a wheel, asked and answered as `msd.run.runners.child.Child` is."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msd
from msd.graph import tflite
from msd.graph.ir.interface import Interface
from msd.run.runners.child import Bounds, Child, program
from msd.run.runners.messages import Done, LoadOnGpu, Refused, Reply, RunModel
from msd.run.runners.wheels.message import pack, unpack

WORKER = "msd.run.runners.wheels.worker"

ALONE = """
import sys, types
msd = sys.modules["msd"] = types.ModuleType("msd")
msd.__path__ = [{folder!r}]
"""
"""Makes msd's modules importable, but none of the packages installed beside it."""


class WheelChild(Child):
    """A child run by `python`, an environment's own; it loads files for the GPU only."""

    def __init__(self, python: Path, environment: Mapping[str, str], bounds: Bounds) -> None:
        self.python = python
        super().__init__(environment, bounds, WORKER)

    def _command(self, worker: str, handle: int, lifeline: int) -> list[str]:
        """Return the command; -I ignores the variables and folders that would add other packages."""
        alone = ALONE.format(folder=str(Path(msd.__file__).parent))
        return [str(self.python), "-I", "-c", alone + program(worker, handle, lifeline)]

    def _inherited(self) -> dict[str, str]:
        return {**os.environ}

    def _send(self, request: object) -> None:
        if isinstance(request, RunModel):
            self._connection.send_bytes(pack({"do": "run"}, request.inputs))
        else:
            assert isinstance(request, LoadOnGpu), f"a wheel's child does not know {request}"
            self._connection.send_bytes(pack({"do": "load", **_facts(request)}, {}))

    def _receive(self) -> Reply:
        facts, arrays = unpack(self._connection.recv_bytes())
        if "refused" in facts:
            return Refused(facts["refused"])
        done = facts["done"]
        return Done(done["seconds"], arrays, done["peak"], done.get("before", 0))


def _facts(request: LoadOnGpu) -> dict[str, Any]:
    """Return a request in JSON's terms, with what older versions do not tell of the file."""
    ports = Interface.of(tflite.read(request.path), request.path)
    return {
        "path": str(request.path.absolute()),
        "precision": request.precision,
        "signature": request.signature,
        "cpu_too": request.cpu_too,
        "inputs": [*ports.inputs],
        "outputs": {name: [spec.shape, spec.dtype] for name, spec in ports.outputs.items()},
    }
