"""The training timesteps that the steps of an image visit, noisiest first.

"leading", "trailing" and "linspace" after Lin et al. (2023, arXiv 2305.08891), table 2. There are always as
many as were asked for: for 62 of the counts to 1000, of which 61 is the least, rounding gives `numpy.arange`,
and so diffusers' "trailing" timesteps, one more, at -1; `lambda_min_clipped` may leave fewer there.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from msd.errors import BadConfig
from msd.files.wording import counted, plural
from msd.run.runtime.arrays import Double

SPACINGS = ("leading", "trailing", "linspace")


def visited(spacing: str, total: int, steps: int, offset: int) -> Double:
    """Return the timesteps of `steps` steps, of which "leading" adds an `offset`; raises BadConfig."""
    if spacing == "trailing":
        return trailing(total, steps)
    if spacing == "linspace":
        return np.linspace(0, total - 1, steps)[::-1]
    return leading(total - 1, total // steps, np.arange(steps), offset)


def visited_before_the_end(
    spacing: str, total: int, steps: int, offset: int, last: int | None = None
) -> Double:
    """Return the timesteps of `steps` steps, whole numbers, of which none would be the last of `steps` + 1.

    `last` is how many timesteps are left of `total` where the noisiest are cut off. Raises BadConfig.
    """
    last = total if last is None else last
    if spacing == "trailing":
        return trailing(total, steps, last)
    if spacing == "linspace":
        return np.linspace(0, last - 1, steps + 1).round()[:0:-1]
    return leading(total - 1, last // (steps + 1), np.arange(1, steps + 1), offset)


def trailing(total: int, steps: int, last: int | None = None) -> Double:
    """Return the timesteps from the last one in equal strides of `total` / `steps`, rounded."""
    last = total if last is None else last
    timesteps = np.arange(last, 0, -total / steps)[:steps]
    if len(timesteps) < steps:
        timesteps = np.arange(last, 0, -last / steps)[:steps]
    return timesteps.round() - 1


def leading(most: int, stride: int, counts: npt.NDArray[np.int64], offset: int) -> Double:
    """Return `counts` strides plus an `offset`; raises BadConfig where these pass the timestep `most`."""
    timesteps = (counts * stride)[::-1].astype(np.float64) + offset
    if timesteps[0] > most:
        raise BadConfig(
            f"{counted(len(counts), 'step')} from offset {offset} {plural(len(counts), 'passes', 'pass')}"
            f" the last timestep {most}"
        )
    return timesteps


def rounded_timesteps(timesteps: Double) -> list[int]:
    """Return timesteps rounded to whole numbers."""
    return [int(t) for t in timesteps.round()]
