"""Record what LiteRT's GPU delegate really prints: `python -m tests.recorded.record` rewrites the logs here.

Each is the whole standard error of one child process that compiled, and where it could ran, a model of
tests/tiny_models.py or tests/edited_models.py. Only the folders of installed packages are cut out of the
paths. The logs in the repository were recorded on Debian 12 with ai-edge-litert 2.3.0 on SwiftShader
(chromium-common 150.0.7871.100-1~deb12u1).
"""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

from msd.graph import tflite
from msd.graph.ir.interface import Interface
from msd.run.runners.adapter import find
from msd.run.runners.child import Bounds, Child, ChildRefused
from msd.run.runners.messages import LoadOnGpu, RunModel
from msd.run.runners.random_inputs import random_inputs
from tests import edited_models, tiny_models

HERE = Path(__file__).parent
WITHOUT_DRIVER = {"VK_ICD_FILENAMES": "/nonexistent.json", "VK_DRIVER_FILES": "/nonexistent.json"}
MODELS = "whole five_dimensions constant_of_rank_five cut_off broadcast_to loop winograd_912"


def main() -> None:
    adapter = find().environment
    for name in MODELS.split():
        record(name, tiny_models.model(name), adapter)
    record("cut_off_with_cpu", tiny_models.model("cut_off"), adapter, cpu_too=True)
    record("refused", edited_models.explicit_dequantize("dense_int8", 2), adapter)
    record("no_adapter", tiny_models.model("whole"), {**adapter, **WITHOUT_DRIVER})


def record(name: str, content: bytes, environment: dict[str, str], cpu_too: bool = False) -> None:
    with tempfile.TemporaryDirectory() as folder, Child(environment, Bounds.of(60)) as child:
        path = Path(folder) / f"{name}.tflite"
        path.write_bytes(content)
        try:
            ports = Interface.of(tflite.read(path), path)
            child.ask(LoadOnGpu(path, "fp32", ports.signature, cpu_too))
            child.ask(RunModel(random_inputs(ports.inputs.values())))
        except ChildRefused as problem:
            print(f"{name}: {problem}")
        log = re.sub(r"/\S*?/site-packages/", "", child.log)
    (HERE / f"{name}.log").write_text(log)


if __name__ == "__main__":
    main()
