"""Opening a device beside the other libraries of a process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from msd.errors import BadConfig
from msd.gpu.device import UNCHECKED, ZEROED_BY_DRIVER, _adapter, _request
from msd.gpu.gpu import MatrixUnit
from msd.gpu.gpu_api import GpuApi, choose_api, load_api
from msd.run.runners.backends.webgpu import WebGpuProcess
from msd.run.runners.interpreter import Interpreter
from msd.run.runners.random_inputs import random_inputs
from msd.run.runners.runner import Conditions
from tests import tiny_models
from tests.webgpu_device import DAWN, device

TENSORFLOW = "import tensorflow; assert (tensorflow.constant(1.0) + 1) == 2"
WEBGPU = "from tests.webgpu_device import device; opened = device(); assert opened.software"


@pytest.mark.parametrize("lines", [[TENSORFLOW, WEBGPU], [WEBGPU, TENSORFLOW]], ids=["before", "after"])
def test_tensorflow_in_the_same_process(lines: list[str]) -> None:
    """Mesa's OpenGL driver, if it were loaded, would crash with it, at the import or at the end."""
    done = subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]


def without(package: str, api: str | None) -> str:
    """Return what open_device says where a package is missing."""
    program = (
        f"import sys; sys.modules['{package}'] = None\n"
        "from msd.errors import BadConfig\n"
        "from msd.gpu.device import open_device\n"
        f"try: open_device(api={api!r})\n"
        "except BadConfig as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return done.stdout


@pytest.mark.parametrize(
    ("package", "api", "install"),
    [("wgpu", "wgpu", "pip install 'msd[webgpu]'"), ("wgpudawn", "dawn", "pip install 'msd[dawn]'")],
)
def test_an_implementation_is_missing(package: str, api: str, install: str) -> None:
    assert without(package, api) == (
        f"the package {package} is not installed; the backend webgpu needs it for the GPU API {api}: "
        f"{install}\n"
    )


def test_an_unknown_implementation() -> None:
    with pytest.raises(BadConfig, match=r"the GPU API is 'cuda'; it should be dawn or wgpu"):
        Conditions(gpu_api="cuda")  # type: ignore[arg-type]


def test_the_choice_is_what_is_installed() -> None:
    assert choose_api() == ("dawn" if DAWN else "wgpu")
    assert choose_api("wgpu") == "wgpu"


@pytest.mark.skipif(not DAWN, reason="wgpudawn is not installed")
def test_dawn_beside_wgpu_native() -> None:
    """Both see the same adapter, in one process."""
    first, other = device("dawn"), device("wgpu")
    assert (first.api, other.api) == ("dawn", "wgpu")
    assert first.software
    assert first.timestamps
    assert first.gpu.subgroups
    assert first.gpu.workgroup_bytes == other.gpu.workgroup_bytes


@pytest.mark.parametrize(
    "api", ["wgpu", pytest.param("dawn", marks=pytest.mark.skipif(not DAWN, reason="no wgpudawn"))]
)
def test_a_child_process_opens_the_implementation_that_is_asked_for(api: GpuApi, tmp_path: Path) -> None:
    path = tiny_models.save("two_by_two", tmp_path)
    with Interpreter(path) as cpu, WebGpuProcess(path, Conditions(gpu_api=api)) as process:
        assert ("on Dawn" in process.placement.notes[0]) == (api == "dawn")
        inputs = random_inputs(process.inputs.values())
        for name, wanted in cpu.run(inputs).items():
            np.testing.assert_allclose(process.run(inputs)[name], wanted, atol=1e-5)


@pytest.mark.skipif(not DAWN, reason="wgpudawn is not installed")
@pytest.mark.parametrize("unit", [MatrixUnit(16, 16, 16, 32), None])
def test_only_devices_with_matrix_units_leave_indices_unchecked(unit: MatrixUnit | None) -> None:
    device("dawn")
    assert {*UNCHECKED}.issubset(toggles(unit, software=True)) == (unit is not None)


@pytest.mark.skipif(not DAWN, reason="wgpudawn is not installed")
@pytest.mark.parametrize("software", [True, False])
def test_a_software_driver_is_not_asked_to_clear_workgroup_memory(software: bool) -> None:
    device("dawn")
    assert {*ZEROED_BY_DRIVER}.issubset(toggles(None, software)) != software


def toggles(unit: MatrixUnit | None, software: bool) -> set[str]:
    """Return Dawn's toggles that are on in a new device."""
    opened = _request("dawn", unit, software)(_adapter("dawn"), required_features=[], required_limits={})
    return {*load_api("dawn")[1].get_toggles(opened)}
