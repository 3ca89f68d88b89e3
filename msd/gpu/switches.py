"""The optimisations of a program, each of which may be off."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Switches:
    """The optimisations of "Speed Is All You Need" (arXiv 2304.11267) and of msd, each of which may be off.

    `norms`: group and layer norm in one or two dispatches. `gelu`: GELU in one, with the product of its gate.
    `softmax`: only its row statistics in a dispatch of their own. `flash`: FlashAttention. `winograd`:
    Winograd's convolutions. `kept_transforms`: Winograd's transforms of filters may be constants, which no
    program to be fetched should have: they are eight times as large as int8 weights. `short_sums`: where
    operands are bounded, 16 products are summed in float16 before they join a float32 sum. `matrices`: the
    GPU's matrix units multiply where f16 holds the operands; sums are then float32 from end to end.
    `measured_outputs`: a Winograd convolution measures its result for the group norm that reads it.
    """

    norms: bool = True
    gelu: bool = True
    softmax: bool = True
    flash: bool = True
    winograd: bool = True
    kept_transforms: bool = True
    short_sums: bool = True
    matrices: bool = True
    measured_outputs: bool = True
