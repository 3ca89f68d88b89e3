"""The operators that fusion makes of TFLite's, defined beside them in msd.graph.ir.opset."""

from __future__ import annotations

from typing import Any, cast

from msd.gpu.operations import Activation
from msd.graph.ir import Op, opset
from msd.graph.ir.opset import Attrs, OpSpec


def _first(inputs: Any, attrs: Attrs) -> list[tuple[int, ...]]:
    return [inputs[0].shape]


def _given(inputs: Any, attrs: Attrs) -> list[tuple[int, ...]]:
    return [tuple(attrs["shape"])]


NORM = {"groups": 0, "epsilon": 0.0, "activation": "NONE"}

CONVOLUTION = {
    "shape": (),
    "stride": (1, 1),
    "pad": (0, 0),
    "dilation": (1, 1),
    "upsample": 1,
    "activation": "NONE",
}
X, FILTER, BIAS, GATE_FILTER, GATE_BIAS, VECTOR, SLOPES, RESIDUAL = range(8)
"""The inputs of CONVOLUTION. All but the first two may be None; the filters are OHWI, as CONV_2D has them.
The slopes, one constant per channel, are those of the activation PRELU."""

HEADS = {f"{name}_{part}": 0 for name in ("q", "k", "v", "y") for part in ("offset", "batch", "head", "row")}
ATTENTION = {
    **HEADS,
    "shape": (),
    "batch": 0,
    "heads": 0,
    "queries": 0,
    "keys": 0,
    "size": 0,
    "value_size": 0,
    "scale": 1.0,
}
"""The fields of msd.gpu.operations.Attention; the inputs are q, k, v, and a mask or None."""


def activation_of(op: Op) -> Activation:
    """Return the activation that an operator is; GELU's `approximate` names its tanh form."""
    if op.kind == "GELU" and op.attrs["approximate"]:
        return "TANH_GELU"
    return cast(Activation, op.kind)


def define_kinds() -> None:
    """Define the operators; does nothing the second time."""
    for spec in (
        OpSpec(kind="GROUP_NORM", options=None, attrs=NORM, infer=_first),
        OpSpec(kind="LAYER_NORM", options=None, attrs={"epsilon": 0.0}, infer=_first),
        OpSpec(kind="SILU", options=None, attrs={}, infer=_first),
        OpSpec(kind="QUICK_GELU", options=None, attrs={}, infer=_first),
        OpSpec(kind="CONVOLUTION", options=None, attrs=CONVOLUTION, infer=_given),
        OpSpec(kind="ATTENTION", options=None, attrs=ATTENTION, infer=_given),
    ):
        opset.define(spec)
