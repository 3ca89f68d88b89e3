"""Seeded random inputs for a model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from msd.graph.ir.weights import Array
from msd.tensor_spec import TensorSpec

SMALL_INTEGERS = 10
"""Integers that are not indices of a table are sampled below this."""


def random_inputs(
    ports: Iterable[TensorSpec], seed: int = 0, compared: Mapping[str, int] | None = None
) -> dict[str, Array]:
    """Return one array for each port, the same for the same seed.

    Floats are sampled from N(0, 1), int8 and uint8 from their full range, other integers from the rows of the
    table that they index or below `SMALL_INTEGERS`, booleans evenly. Ids that are `compared` with one, as
    `msd.graph.ir.interface.compared_ids` has them, end in it.
    """
    generator, ends = np.random.default_rng(seed), compared or {}
    return {port.name: _ended(_sample(port, generator), port, ends.get(port.name)) for port in ports}


def _ended(values: Array, port: TensorSpec, end: int | None) -> Array:
    """Return ids whose last place has `end`, where there is one that the table has a row of."""
    if end is not None and values.ndim and 0 <= end < (port.table_length or end + 1):
        values[..., -1:] = end
    return values


def _sample(port: TensorSpec, generator: np.random.Generator) -> Array:
    dtype = np.dtype(port.dtype)
    if dtype.kind == "f":
        return np.asarray(generator.standard_normal(port.shape)).astype(dtype)
    if dtype.kind == "b":
        return np.asarray(generator.integers(0, 2, port.shape)).astype(dtype)
    if dtype.itemsize == 1:
        info = np.iinfo(dtype)
        return np.asarray(generator.integers(info.min, info.max + 1, port.shape)).astype(dtype)
    return np.asarray(generator.integers(0, port.table_length or SMALL_INTEGERS, port.shape)).astype(dtype)
