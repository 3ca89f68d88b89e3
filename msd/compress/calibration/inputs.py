"""Inputs of one network in .npz files, one run each, checked when they are opened."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from msd.errors import BadCalibration
from msd.files.wording import counted
from msd.graph.ir.weights import Array
from msd.run.runners.checks import one_line
from msd.tensor_spec import TensorSpec

Inputs = dict[str, Array]

MOST_BYTES = 1 << 28
"""Of the arrays of one run; those of Stable Diffusion at 1024x1024 pixels have some 12 MB."""


@dataclass(frozen=True)
class Runs:
    """The inputs of several runs, by name; each iteration reads them from files, one run at a time."""

    files: tuple[Path, ...]
    ports: Mapping[str, TensorSpec] | None = None
    """The shape and dtype of each array where every read checks them, else None."""

    def __len__(self) -> int:
        return len(self.files)

    def __iter__(self) -> Iterator[Inputs]:
        """Yield the inputs of one run after the other; raises BadCalibration for a file that has changed."""
        for path in self.files:
            yield read_arrays(path) if self.ports is None else read_run(path, self.ports)


def open_folder(folder: Path, component: str, ports: Mapping[str, TensorSpec]) -> Runs:
    """Return the runs of a network in `folder`/`component` if it exists, else in `folder`.

    Each .npz file is one run with an array for each input, by name; a .npy file is a run of a network with a
    single input, such as the latents of a VAE decoder. Files are in the order of their names. Raises
    BadCalibration with the file, the array, its shape and dtype, and those of the network's input.
    """
    source = folder / component if (folder / component).is_dir() else folder
    files = tuple(sorted(path for path in source.glob("*.np[yz]") if path.is_file()))
    if not files:
        raise BadCalibration(f"{source} has no .npz files with inputs of the {component}")
    for path in files:
        read_run(path, ports)
    return Runs(files, ports)


def read_run(path: Path, ports: Mapping[str, TensorSpec]) -> Inputs:
    """Return the inputs in a file; raises BadCalibration where they do not fit `ports`."""
    arrays = read_arrays(path)
    if list(arrays) == [""] and len(ports) == 1:
        arrays = {name: arrays[""] for name in ports}
    if set(arrays) != set(ports):
        content = "one array without a name" if "" in arrays else f"the arrays {sorted(arrays)}"
        raise BadCalibration(f"{path} has {content}; the network takes {sorted(ports)}")
    for name, value in arrays.items():
        _check(path, name, value, ports[name])
    return arrays


def _check(path: Path, name: str, value: Array, port: TensorSpec) -> None:
    if (value.shape, value.dtype.name) != (port.shape, port.dtype):
        expected, actual = f"{port.dtype}{list(port.shape)}", f"{value.dtype.name}{list(value.shape)}"
        raise BadCalibration(f"{path} has {name} as {actual}; the network takes {expected}")
    if not np.isfinite(value).all():
        raise BadCalibration(f"{path} has {name} with NaN or infinite values")
    if port.table_length is not None and value.size:
        least, most = int(value.min()), int(value.max())
        if least < 0 or most >= port.table_length:
            raise BadCalibration(
                f"{path} has {name} from {least} to {most}; it indexes a table of"
                f" {counted(port.table_length, 'row')}"
            )


def read_arrays(path: Path) -> Inputs:
    """Return the arrays of an .npz file by name, or that of an .npy file as ""; nothing in it is executed.

    Raises BadCalibration for a file that is neither, is damaged, or holds pickled objects.
    """
    try:
        _require_modest(path.stat().st_size)
        stored = np.load(path, allow_pickle=False)
        if not isinstance(stored, np.lib.npyio.NpzFile):
            return {"": np.asarray(stored)}
        with stored:
            _require_modest(sum(info.file_size for info in stored.zip.infolist()))
            return {name: np.asarray(stored[name]) for name in stored.files}
    except Exception as problem:  # zipfile, zlib, tokenize and struct raise their own for damaged bytes
        raise BadCalibration(
            f"{path} is not a file of inputs that numpy.savez wrote: {one_line(problem)}"
        ) from problem


def _require_modest(size: int) -> None:
    """Refuse arrays that are too large, compressed or not."""
    if size > MOST_BYTES:
        raise ValueError(f"its arrays have {size} bytes, and at most {MOST_BYTES} are read")
