"""Token embeddings: rows of a table, by number."""

from __future__ import annotations

from msd.errors import DelegateFailed
from msd.ir import Op
from msd.webgpu.lowering.memory import Memory
from msd.webgpu.value import Dispatch


def lower_lookup(op: Op, memory: Memory) -> list[Dispatch]:
    raise DelegateFailed("wip")


LOWER = {"EMBEDDING_LOOKUP": lower_lookup, "GATHER": lower_lookup}
