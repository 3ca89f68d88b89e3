"""What is kept from the user's eyes is what was named, and nothing else."""

from __future__ import annotations

import os

import pytest

from msd.files.silence import without_lines
from msd.models.trace import STARTUP_LINE as ON_IMPORT
from msd.run.runners.interpreter import STARTUP_LINE as ON_INTERPRETER


def test_trouble_is_still_told(capfd: pytest.CaptureFixture[str]) -> None:
    with without_lines(ON_IMPORT):
        os.write(2, b"I0000 00:00:1 12 port.cc:1] chatter\nE0000 00:00:1 12 x.cc:1] trouble\n")
    assert capfd.readouterr().err == "E0000 00:00:1 12 x.cc:1] trouble\n"


def test_it_is_told_even_when_something_is_raised(capfd: pytest.CaptureFixture[str]) -> None:
    chatter = b"INFO: Created TensorFlow Lite XNNPACK delegate for CPU.\n"
    with pytest.raises(RuntimeError), without_lines(ON_INTERPRETER):  # noqa: PT012
        os.write(2, chatter + b"ERROR: trouble\n")
        raise RuntimeError
    assert capfd.readouterr().err == "ERROR: trouble\n"
