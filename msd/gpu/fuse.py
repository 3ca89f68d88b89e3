"""Rules that fuse TFLite's operators into those of msd.gpu.kinds, in the language of graph_rewrites.

`canonicalize` recognises norms, activations and attention; `fuse` makes convolutions and moves into them what
surrounds them. Rules of a phase may run in any order.
"""

from __future__ import annotations

from dataclasses import dataclass

from msd.gpu.fusion.fuse_activation import fuse_activation, fuse_gelu, fuse_leaky_relu, fuse_prelu
from msd.gpu.fusion.fuse_gate import fuse_gate
from msd.gpu.fusion.fuse_padding import fuse_padding
from msd.gpu.fusion.fuse_residual import fuse_residual
from msd.gpu.fusion.fuse_upsampling import fuse_upsampling
from msd.gpu.fusion.fuse_vector import fuse_vector
from msd.gpu.fusion.make_convolution import make_convolution, make_product
from msd.gpu.fusion.merge_vectors import merge_vectors
from msd.gpu.fusion.recognise_attention import recognise_attention
from msd.gpu.fusion.recognise_gelu import (
    recognise_clipped_gelu,
    recognise_gelu_of_clipped_slope,
    recognise_quick_gelu,
)
from msd.gpu.fusion.recognise_group_norm import (
    add_shift,
    fuse_silu,
    join_means,
    recognise_group_norm,
    square_one_difference,
)
from msd.gpu.fusion.recognise_layer_norm import (
    recognise_layer_norm,
    recognise_plain_layer_norm,
    scale_layer_norm,
    shift_layer_norm,
)
from msd.gpu.fusion.recognise_silu import recognise_silu
from msd.gpu.fusion.use_stored_weights import use_stored_weights
from msd.graph.ir import Graph
from msd.graph.rewrite import Ledger, Rewrite, apply


@dataclass(frozen=True)
class Switches:
    """The optimisations of "Speed Is All You Need" (arXiv 2304.11267) and of msd, each of which may be off.

    `norms`: group and layer norm in one or two dispatches. `gelu`: GELU in one, with the product of its gate.
    `softmax`: only its row statistics in a dispatch of their own. `flash`: FlashAttention. `winograd`:
    Winograd's convolutions. `kept_transforms`: Winograd's transforms of filters may be constants, which no
    program to be fetched should have: they are eight times as large as int8 weights. `short_sums`: where
    operands are bounded, 16 products are summed in float16 before they join a float32 sum. `matrices`: the
    GPU's matrix units multiply where f16 holds the operands; sums are then float32 from end to end.
    """

    norms: bool = True
    gelu: bool = True
    softmax: bool = True
    flash: bool = True
    winograd: bool = True
    kept_transforms: bool = True
    short_sums: bool = True
    matrices: bool = True


def fuse(graph: Graph, switches: Switches) -> Ledger:
    """Fuse the operators of `graph` and return what each rule did."""
    rules: list[Rewrite] = [
        use_stored_weights,
        recognise_silu,
        recognise_attention,
        make_convolution,
        make_product,
        fuse_padding,
        fuse_upsampling,
        fuse_activation,
        fuse_leaky_relu,
        fuse_prelu,
        fuse_vector,
        fuse_residual,
        merge_vectors,
    ]
    if switches.norms:
        rules += [join_means, square_one_difference, recognise_group_norm, add_shift, fuse_silu]
        rules += [recognise_layer_norm, recognise_plain_layer_norm, scale_layer_norm, shift_layer_norm]
    if switches.gelu:
        rules += [recognise_clipped_gelu, recognise_gelu_of_clipped_slope, recognise_quick_gelu]
        rules += [fuse_gelu, fuse_gate]
    return apply(graph, rules)
