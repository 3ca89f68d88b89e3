"""What scripts that time tiles have in common: their options, and a GPU whose threads multiply."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

from msd.gpu.device import OpenDevice


def by_threads(device: OpenDevice) -> OpenDevice:
    """Return the device as one without matrix units, with short sums where it has f16."""
    return replace(device, gpu=replace(device.gpu, matrix=None, short_sums=device.gpu.half))


def tile_options(description: str | None, seconds: float) -> argparse.Namespace:
    """Return the options of a script that times tiles until a time: output, seconds and threads."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=seconds, help="begin nothing more after this time")
    parser.add_argument("--threads", action="store_true", help="by threads, not by matrix units")
    return parser.parse_args()
