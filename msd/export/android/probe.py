"""A tiny network that an app compiles for a phone's GPU before it fetches a model: one convolution."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from msd.graph.ir import SIGNATURE
from msd.graph.ir.build import Build
from msd.graph.ir.graph import Graph, Model, Signature, Tensor
from msd.graph.tflite.write import write

PROBE = "gpu-probe.tflite"
WIDTH = 4


def write_probe(path: Path) -> None:
    """Write the network: float32 (1, 4, 4, 4) to (1, 4, 4, 4) by a 1x1 convolution that doubles."""
    new, x = Build(), Tensor("x", (1, WIDTH, WIDTH, WIDTH))
    doubled = np.float32(2) * np.eye(WIDTH, dtype=np.float32).reshape(WIDTH, 1, 1, WIDTH)
    y = new.CONV_2D(x, doubled, np.zeros(WIDTH, np.float32), stride_h=1, stride_w=1, padding="SAME")
    graph = Graph([x], [y], new.ops)
    graph.signatures = [Signature(SIGNATURE, {"x": x}, {"y": y})]
    write(Model([graph]), path)
