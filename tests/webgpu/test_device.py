"""Opening a device beside the other libraries of a process."""

from __future__ import annotations

import subprocess
import sys

import pytest

TENSORFLOW = "import tensorflow; assert (tensorflow.constant(1.0) + 1) == 2"
WEBGPU = "from tests.webgpu_device import device; opened = device(); assert opened.software"


@pytest.mark.parametrize("lines", [[TENSORFLOW, WEBGPU], [WEBGPU, TENSORFLOW]], ids=["before", "after"])
def test_tensorflow_in_the_same_process(lines: list[str]) -> None:
    """Mesa's OpenGL driver, if it were loaded, would crash with it, at the import or at the end."""
    done = subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]


def test_wgpu_is_missing() -> None:
    program = (
        "import sys; sys.modules['wgpu'] = None\n"
        "from msd.errors import BadConfig\n"
        "from msd.gpu.device import open_device\n"
        "try: open_device()\n"
        "except BadConfig as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "the package wgpu is not installed; the backend webgpu needs it\n"
