"""The schema's form of sparse constants."""

from __future__ import annotations

from typing import Any

import numpy as np
from ai_edge_litert import schema_py_generated as schema

from msd.graph.ir.sparsity import Level, Sparsity
from msd.graph.ir.weights import Array

VECTORS = {
    "int32": (schema.SparseIndexVector.Int32Vector, schema.Int32VectorT),
    "uint16": (schema.SparseIndexVector.Uint16Vector, schema.Uint16VectorT),
    "uint8": (schema.SparseIndexVector.Uint8Vector, schema.Uint8VectorT),
}
"""The tables of sparse indices, by NumPy's dtype."""


def read_sparsity(raw: Any) -> Sparsity | None:
    """Return a tensor's sparsity, None for a dense one; raises ValueError for a level without indices."""
    if raw is None:
        return None
    return Sparsity(_ints(raw.traversalOrder), _ints(raw.blockMap), tuple(map(_level, raw.dimMetadata or [])))


def write_sparsity(sparsity: Sparsity | None) -> Any:
    """Return the schema's form, None for None."""
    if sparsity is None:
        return None
    raw = schema.SparsityParametersT()
    raw.traversalOrder = np.asarray(sparsity.order, np.int32)
    raw.blockMap = np.asarray(sparsity.block_map, np.int32) if sparsity.block_map else None
    raw.dimMetadata = [_metadata(level) for level in sparsity.levels]
    return raw


def _level(raw: Any) -> Level:
    if raw.format == schema.DimensionType.DENSE:
        return Level(size=int(raw.denseSize))
    vectors = (raw.arraySegments, raw.arrayIndices)
    if any(vector is None or vector.values is None for vector in vectors):
        raise ValueError("a level of a sparse constant has no indices")
    segments, indices = (np.asarray(vector.values) for vector in vectors)
    return Level(int(raw.denseSize), segments, indices)


def _metadata(level: Level) -> Any:
    raw = schema.DimensionMetadataT()
    raw.denseSize = level.size
    if level.segments is not None and level.indices is not None:
        raw.format = schema.DimensionType.SPARSE_CSR
        raw.arraySegmentsType, raw.arraySegments = _vector(level.segments)
        raw.arrayIndicesType, raw.arrayIndices = _vector(level.indices)
    return raw


def _vector(values: Array) -> tuple[int, Any]:
    kind, table = VECTORS[values.dtype.name]
    vector = table()
    vector.values = values
    return kind, vector


def _ints(values: Any) -> tuple[int, ...]:
    return () if values is None else tuple(int(value) for value in values)
