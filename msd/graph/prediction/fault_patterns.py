"""Places of an operator in a graph that faults of phones name: configs/faults/*.toml, `pattern`."""

from __future__ import annotations

from collections.abc import Callable

from msd.graph.ir import Graph, Tensor
from msd.graph.ir.executed_graphs import composite_name
from msd.graph.prediction.arithmetic import ATTENTION
from msd.graph.prediction.rules.view import View

Pattern = Callable[[View, Graph], bool]


def returned_and_read(view: View, graph: Graph) -> bool:
    """A result is an output of the graph, and another operator reads it."""
    return any(result.uses and result in graph.outputs for result in view.outputs)


def batched(view: View, graph: Graph) -> bool:
    """The result is an image, and there are several of them."""
    return any(len(result.shape) == 4 and result.shape[0] > 1 for result in view.outputs)


def batched_with_activation(view: View, graph: Graph) -> bool:
    """The result is several images, and an activation is fused."""
    return batched(view, graph) and view.attrs.get("fused_activation_function", "NONE") != "NONE"


def reads_an_output(view: View, graph: Graph) -> bool:
    """It reads an output of the graph."""
    return any(tensor in graph.outputs for tensor in view.operands)


def behind_integer_layer_of_rank_three(view: View, graph: Graph) -> bool:
    """It reads what a FULLY_CONNECTED with int8 weights makes of a tensor of rank 3."""
    return any(_is_integer_layer_of_rank_three(tensor) for tensor in view.operands)


def _is_integer_layer_of_rank_three(tensor: Tensor) -> bool:
    maker = tensor.producer
    if maker is None or maker.kind != "FULLY_CONNECTED" or len(maker.operands) < 2:
        return False
    source, weights = maker.operands[:2]
    return len(source.shape) == 3 and weights.data is not None and weights.dtype == "INT8"


def attention_of_rank_three(view: View, graph: Graph) -> bool:
    """It multiplies the results of a SOFTMAX, all of rank 3."""
    makers = [tensor.producer.kind for tensor in view.operands if tensor.producer is not None]
    return "SOFTMAX" in makers and all(len(tensor.shape) == 3 for tensor in view.operands)


def composite_attention(view: View, graph: Graph) -> bool:
    """It is the composite odml.scaled_dot_product_attention."""
    return composite_name(view.op) == ATTENTION


PATTERNS: dict[str, Pattern] = {
    "returned-and-read": returned_and_read,
    "reads-an-output": reads_an_output,
    "batched": batched,
    "batched-with-activation": batched_with_activation,
    "behind-integer-layer-of-rank-3": behind_integer_layer_of_rank_three,
    "attention-of-rank-3": attention_of_rank_three,
    "composite-attention": composite_attention,
}
"""The patterns by the names that descriptions of faults use."""
