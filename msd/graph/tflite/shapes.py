"""Another choice of the sizes that a file leaves open."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema


def with_shapes(path: Path, shapes: Mapping[int, tuple[int, ...]]) -> bytes:
    """Return the file at `path` whose first graph's tensors have `shapes`, by index, and no open sizes."""
    model = schema.ModelT.InitFromPackedBuf(path.read_bytes(), 0)
    for number, tensor in enumerate(model.subgraphs[0].tensors):
        if number in shapes:
            tensor.shape, tensor.shapeSignature = np.asarray(shapes[number], np.int32), None
    builder = flatbuffers.Builder(1 << 16)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())
