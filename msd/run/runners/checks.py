"""What a file takes, compared with what it is given; and how an error of a library is quoted."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from msd.errors import BadModelFile

if TYPE_CHECKING:
    from msd.graph.ir.weights import Array
    from msd.tensor_spec import TensorSpec


def check(inputs: Mapping[str, Array], ports: Mapping[str, TensorSpec], path: Path) -> None:
    """Raise BadModelFile unless `inputs` have exactly the names, shapes and dtypes of `ports`."""
    import numpy as np  # not before processes have been started

    if set(inputs) != set(ports):
        raise BadModelFile(f"{path} takes the inputs {sorted(ports)}, not {sorted(inputs)}")
    for name, port in ports.items():
        value = np.asarray(inputs[name])
        if (value.shape, value.dtype.name) != (port.shape, port.dtype):
            expected = f"{port.dtype}{list(port.shape)}"
            raise BadModelFile(
                f"{path} takes {name} as {expected}, not {value.dtype.name}{list(value.shape)}"
            )


def one_line(problem: Exception) -> str:
    """Return an exception's message as part of a sentence: without line breaks or a final full stop."""
    return " ".join(str(problem).split()).rstrip(".") or type(problem).__name__
