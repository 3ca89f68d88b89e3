"""Casts of arrays: NumPy's, with a faster way from float16 to float32."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

REBIAS = np.float32(2.0**112)
"""2 to the difference of the exponents' biases, 127 and 15."""


NARROW = frozenset(
    np.dtype(kind)
    for kind in (
        ml_dtypes.bfloat16,
        ml_dtypes.float8_e4m3fn,
        ml_dtypes.float8_e5m2,
        ml_dtypes.float8_e4m3fnuz,
        ml_dtypes.float8_e5m2fnuz,
        ml_dtypes.float8_e8m0fnu,
    )
)
"""The floating-point types that NumPy lacks."""


def is_float(dtype: np.dtype[Any]) -> bool:
    """Return whether it is a floating-point type, of NumPy's or of others."""
    return dtype.kind == "f" or dtype in NARROW


def cast(values: Array, dtype: np.dtype[Any]) -> Array:
    """Return `values` as `dtype` in row-major order, bit by bit as `values.astype(dtype, order="C")`."""
    if values.dtype == np.float16 and dtype == np.float32:
        # Rearranging two bytes an element costs less than rearranging four.
        values = np.ascontiguousarray(values)
        if _is_finite(values):
            return _widened(values)
    return values.astype(dtype, order="C")


def _widened(values: Array) -> Array:
    """Return finite float16 numbers as float32.

    NumPy widens each number by itself, in software. Shifting all bits by the 13 that a mantissa gains leaves
    an exponent that is 112 too small, which a product mends, for subnormal numbers too.
    """
    bits = values.view(np.int16).astype(np.int32)
    bits <<= 13
    bits &= ~0x70000000
    wide: Array = bits.view(np.float32)
    wide *= REBIAS
    return wide


def _is_finite(values: Array) -> bool:
    """Whether no float16 number is infinite or NaN, which have the largest exponent."""
    positive, negative = values.view(np.int16).max(initial=0), values.view(np.uint16).max(initial=0)
    return bool(positive < 0x7C00 and negative < 0xFC00)
