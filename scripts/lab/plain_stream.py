"""Do the minimum of a conversion in plain NumPy: read each tensor, quantise it per channel, write it.

    python scripts/lab/plain_stream.py build/sd21 build/plain

`bench_convert.py` compares msd-convert with this.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import BinaryIO

import numpy as np
from safetensors import safe_open

FOLDERS = ("text_encoder", "text_encoder_2", "unet", "vae")
NOT_DECODED = ("encoder.", "quant_conv.")


def main(source: Path, out: Path) -> None:
    """Write one file of raw int8 weights, float32 vectors and scales for each component."""
    out.mkdir(parents=True, exist_ok=True)
    for folder in (folder for folder in FOLDERS if (source / folder).is_dir()):
        with (out / f"{folder}.bin").open("wb") as file:
            for shard in sorted((source / folder).glob("*.safetensors")):
                stream(shard, NOT_DECODED if folder == "vae" else (), file)


def stream(path: Path, left_out: tuple[str, ...], file: BinaryIO) -> None:
    """Write what a .safetensors file has, but for tensors with one of the prefixes `left_out`."""
    with safe_open(path, "np") as tensors:
        for key in tensors.keys():  # noqa: SIM118, it is no dict
            if key.startswith(left_out):
                continue
            values = tensors.get_tensor(key).astype(np.float32)
            if values.ndim < 2:
                values.tofile(file)
                continue
            rows = values.reshape(len(values), -1)
            scale = np.abs(rows).max(axis=1) / np.float32(127)
            np.rint(rows / scale[:, None]).astype(np.int8).tofile(file)
            scale.tofile(file)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
