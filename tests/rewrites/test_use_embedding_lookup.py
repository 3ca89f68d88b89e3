"""Rows of a table by number."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graph_rewrites.use_embedding_lookup import use_embedding_lookup
from msd.graph.ir import Build, Graph, Tensor
from tests.harness import Ints, check_no_rewrite, check_rewrite, check_untouched, normal, quantised


@pytest.mark.parametrize("shape", [(3,), (2, 3), (1, 7), (2, 1, 3)])
def test_rows(shape: tuple[int, ...]) -> None:
    def after(new: Build, ids: Tensor) -> Tensor:
        flat = ids if len(shape) == 1 else new.RESHAPE(ids, [ids.size])
        return new.RESHAPE(new.EMBEDDING_LOOKUP(flat, new.const(normal(5, 4))), [*shape, 4])

    check_rewrite(
        [use_embedding_lookup],
        lambda new, ids: new.GATHER(new.const(normal(5, 4)), ids),
        after,
        tolerance=0,
        ids=Ints(shape),
    )


BECAUSE = "it does not gather rows of a float table by 32-bit indices"


@pytest.mark.parametrize(
    "table",
    [
        lambda new: new.const(normal(5)),
        lambda new: new.const(normal(5, 3, 4)),
        lambda new: new.const(np.arange(20, dtype=np.int32).reshape(5, 4)),
        lambda new: quantised(5, 4),
    ],
    ids=["vector", "cube", "integers", "quantised"],
)
def test_not_other_tables(table: Any) -> None:
    def before(new: Build, ids: Tensor) -> Tensor:
        return new.GATHER(table(new), ids)

    check_no_rewrite([use_embedding_lookup], before, BECAUSE, ids=Ints((2, 3)))


def test_not_by_64_bit_numbers() -> None:
    new, ids = Build(), Tensor("ids", (3,), "INT64")
    graph = Graph([ids], [new.GATHER(new.const(normal(5, 4)), ids)], new.ops)
    check_no_rewrite([use_embedding_lookup], graph, BECAUSE)


def test_not_columns() -> None:
    def before(new: Build, ids: Tensor) -> Tensor:
        return new.GATHER(new.const(normal(4, 5)), ids, axis=1)

    check_untouched([use_embedding_lookup], before, ids=Ints((2, 3)))
