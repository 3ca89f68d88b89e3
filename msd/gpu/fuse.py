"""Rules that fuse TFLite's operators into those of msd.gpu.kinds, in the language of graph_rewrites.

`canonicalize` recognises norms, activations and attention; `fuse` makes convolutions and moves into them what
surrounds them. Rules of a phase may run in any order.
"""

from __future__ import annotations

from collections.abc import Mapping
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
from msd.gpu.switches import Switches
from msd.graph.ir import Graph, Op
from msd.graph.rewrite import Ledger, Rewrite, apply


@dataclass(frozen=True)
class FusedGraph:
    """A graph whose operators are fused; `numbers` are those of the file's operators by their results' names.

    What rules put in between leads to one of these.
    """

    graph: Graph
    numbers: Mapping[str, int]

    def number(self, op: Op) -> int:
        """Return the number in the file of an operator, or of the one whose result it is a part of."""
        tensor = op.outputs[0]
        while tensor.name not in self.numbers and tensor.uses:
            tensor = next(iter(tensor.uses))[0].outputs[0]
        return self.numbers.get(tensor.name, len(self.numbers))


def numbered(graph: Graph) -> dict[str, int]:
    """Return the number of the operator that makes each tensor, by its name."""
    return {tensor.name: number for number, op in enumerate(graph.ops) for tensor in op.outputs}


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
