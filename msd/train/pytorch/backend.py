"""A backend that runs the networks of one checkpoint with PyTorch, on a GPU if there is one."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import TracebackType

import torch

from msd.bundle import Bundle
from msd.conversion.sources.checkpoint import Checkpoint
from msd.conversion.sources.diffusers import read_json
from msd.graph.ir.weights import Array
from msd.run.runners.backend import Backend
from msd.run.runners.runner import Conditions, Placement, ProcessMemory
from msd.tensor_spec import TensorSpec
from msd.train.pytorch.modules import Call, network_call


def torch_backend(checkpoint: Checkpoint, bundle: Bundle, device: str | None = None) -> Backend:
    """Return the backend for the `bundle` of a checkpoint (msd/train/pytorch/bundle.py).

    `device` is one of PyTorch's; None is a CUDA GPU where there is one, and else the CPU. Arithmetic is
    float32 throughout: convolutions do not use TF32, as they would by default.
    """
    where = device or ("cuda" if torch.cuda.is_available() else "cpu")
    return Backend(
        name=f"PyTorch on {device_name(torch.device(where))}", open=partial(_open, checkpoint, bundle, where)
    )


@dataclass
class TorchRunner:
    """A network of a checkpoint; `path` names it as its bundle does, though no such file exists."""

    path: Path
    inputs: Mapping[str, TensorSpec]
    outputs: Mapping[str, TensorSpec]
    load_seconds: float
    placement: Placement
    call: Call
    device: str
    memory: ProcessMemory = field(default_factory=lambda: ProcessMemory(None, None))
    log: str = ""
    run_seconds: list[float] = field(default_factory=list)

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Return each output by its name, float32."""
        start = time.perf_counter()
        cudnn = torch.backends.cudnn.flags(enabled=True, deterministic=True, allow_tf32=False)
        with torch.inference_mode(), cudnn:
            placed = {name: torch.from_numpy(values).to(self.device) for name, values in inputs.items()}
            found = {name: output.float().cpu() for name, output in self.call(placed).items()}
        self.run_seconds.append(time.perf_counter() - start)
        return {name: output.contiguous().numpy() for name, output in found.items()}

    def __enter__(self) -> TorchRunner:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        del self.call


def _open(
    checkpoint: Checkpoint, bundle: Bundle, device: str, path: Path, conditions: Conditions
) -> TorchRunner:
    """Return the runner of a network; `conditions` are a file's."""
    start, file = time.perf_counter(), bundle.component(path.name)
    component = checkpoint.family.component(path.name)
    config = read_json(bundle.folder, f"{component.part.folder}/config.json")
    call = network_call(checkpoint, component.name, config, device)
    return TorchRunner(
        path=path,
        inputs={spec.name: spec for spec in file.inputs},
        outputs={spec.name: spec for spec in file.outputs},
        load_seconds=time.perf_counter() - start,
        placement=Placement(device_name(torch.device(device)), "fp32"),
        call=call,
        device=device,
    )


def device_name(device: torch.device) -> str:
    """Return the name of a GPU, or CPU."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"
