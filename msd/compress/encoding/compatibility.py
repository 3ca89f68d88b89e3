"""Checks that a recipe's delegate supports the encoded weights and computes them right."""

from __future__ import annotations

from collections.abc import Iterator

from msd.compress.encoding.recipe import Recipe
from msd.errors import BadConfig
from msd.graph.ir import Model, Op
from msd.graph.ir.executed_graphs import executed_ops
from msd.graph.prediction.rules.apply import predict
from msd.graph.prediction.rules.finding import Finding
from msd.graph.prediction.rules.miscomputed import odd_rows
from msd.graph.prediction.stored_constants import constant

ENCODED = frozenset({"INT8", "INT4", "FLOAT16"})


def require_supported(model: Model, recipe: Recipe, component: str) -> None:
    """Raise BadConfig with the first finding that speaks against an encoded component.

    These are findings about operators that the recipe's delegate computes wrong, or that it refuses and whose
    weights the recipe encoded: only then is the recipe at fault. A recipe without a delegate may encode
    anything but what the CPU is known to compute wrong.
    """
    for op in model.main.ops:
        if op.kind == "EMBEDDING_LOOKUP" and odd_rows(table := op.operands[1]):
            raise BadConfig(
                f"the recipe {recipe.name} stores {table.name} as int4 in rows of {table.shape[-1]} numbers,"
                " which TensorFlow Lite's CPU reads from wrong places; use an even number, or int8"
            )
    for finding in _findings_against(model, recipe):
        verb = "computes wrong" if finding.severity == "wrong" else "refuses"
        raise BadConfig(
            f"the recipe {recipe.name} makes a {component} that {recipe.delegate} {verb}: {finding.sentence}"
            " Change the line that names it, or use a recipe without a delegate."
        )


def _findings_against(model: Model, recipe: Recipe) -> Iterator[Finding]:
    if recipe.delegate is None:
        return
    ops = executed_ops(model)
    for finding in predict(model, recipe.delegate):
        encoded = finding.severity == "rejected" and _reads_encoded(ops[finding.op])
        if finding.severity == "wrong" or encoded:
            yield finding


def _reads_encoded(op: Op) -> bool:
    constants = (constant(tensor) for tensor in op.operands)
    return any(t is not None and t.dtype in ENCODED for t in constants)
