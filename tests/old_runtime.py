"""Whether TensorFlow Lite's last own runtime is here, which exists for Python 3.11 and older."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

MISSING = find_spec("tflite_runtime") is None
WHY = "tflite-runtime exists for Python 3.11 and older"

needs_old_runtime = pytest.mark.skipif(MISSING, reason=WHY)


def require_old_runtime() -> None:
    """Skip the test that runs without it."""
    if MISSING:
        pytest.skip(WHY)
