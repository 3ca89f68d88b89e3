"""Compare float16 programs with short sums and without to the CPU's float arithmetic, in dB.

    VK_DRIVER_FILES=lvp_icd.json PYTHONPATH=. python -m scripts.lab.measure_short_sums demo-out/unet.tflite

Runs on the first adapter with shader-f16; lavapipe of Mesa, which is software, has it. Workgroups are chosen
as for an H100.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

from msd.gpu.compile import compile_file
from msd.gpu.device import BALANCE, MANY, open_device
from msd.gpu.session import Session
from msd.gpu.switches import Switches
from msd.graph.parity import psnr
from msd.run.runners.interpreter import Interpreter
from msd.run.runners.random_inputs import random_inputs


def main() -> None:
    """Print a line for each file and switch."""
    device = open_device()
    gpu = replace(device.gpu, enough_workgroups=MANY, balance=BALANCE)
    for path in map(Path, sys.argv[1:]):
        with Interpreter(path, float_weights=True) as cpu:
            inputs = random_inputs(cpu.inputs.values())
            expected = cpu.run(inputs)
        for short in (False, True):
            with Session(compile_file(path, gpu, Switches(short_sums=short)), device) as session:
                found = session.run(inputs)
            distances = {name: round(psnr(array, found[name]), 1) for name, array in expected.items()}
            print(f"{device.name}, {path.name}, short sums {short}: {distances} dB", flush=True)


if __name__ == "__main__":
    main()
