"""A .tflite file compiled and loaded on a WebGPU device, inside the child process."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from msd import tflite
from msd.ir.weights import Array
from msd.runners.runner import Placement, Precision
from msd.webgpu.compile import compile_model
from msd.webgpu.device import open_device
from msd.webgpu.session import Session

DELEGATE = "msd.webgpu"


class WebGpuModel:
    """The file's program on this machine's GPU; raises the errors of msd.webgpu."""

    def __init__(self, path: Path, precision: Precision) -> None:
        self._device = open_device(half=precision == "fp16")
        model = tflite.read(path)
        operations = len(model.main.ops)
        program = compile_model(model, self._device.gpu)
        self._session = Session(program, self._device)
        half, name = self._device.gpu.half, self._device.name
        notes = [f"{len(program.steps)} dispatches"]
        if precision == "fp16" and not half:
            notes.append(f"fp16 was requested, but {name} computes in fp32")
        self.placement = Placement(
            processor=name,
            precision="fp16" if half else "fp32",
            delegate=DELEGATE,
            nodes=operations,
            delegated=operations,
            partitions=1,
            notes=tuple(notes),
        )

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Return the outputs by name."""
        return self._session.run(inputs)
