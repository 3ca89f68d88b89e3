"""The graph that everything works on: tensors, the operators between them, and weights not yet read."""

from msd.ir.graph import (
    NUMPY,
    Build,
    Graph,
    InvalidGraph,
    Model,
    NotConstant,
    Op,
    Quant,
    Signature,
    Tensor,
)

__all__ = [
    "NUMPY",
    "Build",
    "Graph",
    "InvalidGraph",
    "Model",
    "NotConstant",
    "Op",
    "Quant",
    "Signature",
    "Tensor",
]
