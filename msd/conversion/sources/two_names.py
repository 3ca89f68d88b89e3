"""A tensor that a file has under two names: where their values differ, neither is believed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from msd.errors import BadCheckpoint
from msd.graph.ir.weights import Weights


def by_new_names(where: str, renamed: Iterable[tuple[str, str, Weights]]) -> dict[str, Weights]:
    """Return tensors by their new names, from the name of each in a file, its new one, and the tensor.

    Raises BadCheckpoint, naming the file `where` and both names, for two that differ and would be one.
    """
    found: dict[str, Weights] = {}
    names: dict[str, str] = {}
    for old, new, tensor in renamed:
        if new in found:
            _require_equal(where, {names[new]: found[new], old: tensor})
        else:
            found[new], names[new] = tensor, old
    return found


def require_equal_without(where: str, tensors: Mapping[str, Weights], prefixes: Iterable[str]) -> None:
    """Raise BadCheckpoint, as `by_new_names` does, for a tensor that differs from one without a prefix."""
    for prefix in prefixes:
        for name in tensors:
            if name.startswith(prefix) and (plain := name.removeprefix(prefix)) in tensors:
                _require_equal(where, {plain: tensors[plain], name: tensors[name]})


def _require_equal(where: str, tensors: Mapping[str, Weights]) -> None:
    (one, ours), (other, theirs) = tensors.items()
    if ours.shape != theirs.shape or not np.array_equal(ours.load(), theirs.load()):
        raise BadCheckpoint(
            f"{where} has both {one} and {other}, which are one tensor and differ; remove the wrong one"
        )
