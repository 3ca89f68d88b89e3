"""The intermediate representation: tensors, the operators between them, and weights not yet read."""

from msd.graph.ir.build import Build
from msd.graph.ir.graph import (
    NUMPY,
    SIGNATURE,
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
    "SIGNATURE",
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
