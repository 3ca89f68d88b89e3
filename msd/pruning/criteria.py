"""Rank the indices of a unit by importance, from their weights or from their activations.

Costs are energies, comparable inside a unit: the part of the unit's `total` that is lost.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from msd.ir import Graph, Tensor
from msd.ir.weights import Array
from msd.pruning.channels import Seed, follow
from msd.pruning.layout import UnitLayout
from msd.pruning.relations import tensor_at

PIECE = 1 << 22
"""About how many weights are squared at once."""


@dataclass(frozen=True)
class Scores:
    """The `order` of removing the indices of each group, int (groups, count), and the `cost` of each step.

    `total` is the energy of everything that passes, in the unit of the costs.
    """

    order: Array
    cost: Array
    total: float

    @staticmethod
    def of(energy: Array, total: float | None = None) -> Scores:
        """Return the scores of indices that have `energy`, (groups, count), independently of each other."""
        order = np.argsort(energy, axis=1, kind="stable")
        cost = np.take_along_axis(energy, order, axis=1)
        return Scores(order, cost, float(energy.sum()) if total is None else total)

    def kept(self, count: int) -> Array:
        """Return the `count` indices of each group that stay, ascending."""
        return np.sort(self.order[:, self.order.shape[1] - count :], axis=1)

    def error(self, count: int) -> float:
        """Return the share of the total that is lost when `count` of each group stay."""
        lost = float(self.cost[:, : self.cost.shape[1] - count].sum())
        return lost / self.total if self.total else 0.0


def magnitude(graph: Graph, seed: Seed) -> Scores:
    """Return the scores of the unit at `seed` by the size of its weights, one constant in memory at a time.

    The score of an index is the mean square of its weights in each learned constant, divided by that
    constant's own, summed over the constants: a gamma of one number per index counts as much as a filter of
    thousands. The grouping is that of Torch-Pruning's MagnitudeImportance (p=2, means over the group;
    arXiv:2301.12900).
    """
    worth = np.zeros((seed.groups, seed.count))
    done = set[Tensor]()
    for (op, place), layout in follow(graph, seed).constants.items():
        tensor = tensor_at(op, place)
        if tensor in done or tensor.weights.exact:
            continue
        done.add(tensor)
        energy = energies(tensor.weights.load(), layout)
        if mean := energy.mean():
            worth += energy / mean
    return Scores.of(worth)


def energies(values: Array, layout: UnitLayout) -> Array:
    """Return the sum of squares of each index of a unit in `values`, float64 (groups, count)."""
    view = values.reshape(layout.shape)
    total = np.zeros((layout.groups, layout.count))
    for part in np.array_split(view, max(1, min(layout.pre, view.size // PIECE))):
        total += np.square(part, dtype=np.float32).sum(axis=(0, 3), dtype=np.float64)
    return total


def activation(weights: Array, power: Array, layout: UnitLayout, total: float) -> Scores:
    """Return the scores by |weight| times the root mean square of its input.

    `weights` (outputs, inputs) are those of the layer that sums over the unit, `power` (inputs,) the sums of
    squares of its inputs, in which the unit has `layout`. The cost of an index is the loss of the output if
    inputs were not correlated (Wanda, Sun et al., arXiv:2306.11695, there for single weights).
    """
    each = np.square(weights).sum(axis=0, dtype=np.float64) * power
    return Scores.of(each.reshape(layout.shape).sum(axis=(0, 3)), total)


def reconstruction(
    weights: Array, gram: Array, layout: UnitLayout, total: float, ridge: float = 1e-4
) -> Scores:
    """Return the scores by the loss of the output when all remaining weights are refitted, greedily.

    `weights` (outputs, inputs) are those of the layer, `gram` (inputs, inputs) the sum of products of its
    inputs, in which the unit has `layout`. Each round removes the cheapest index of each group and refits the
    rest: the block form of the Optimal Brain Surgeon (Hassibi and Stork 1993; Frantar and Alistarh,
    arXiv:2208.11580). `gram` is overwritten; two matrices of its size are in memory.
    """
    members = np.arange(weights.shape[1]).reshape(layout.shape)
    rows = members.transpose(1, 2, 0, 3).reshape(layout.groups, layout.count, -1)
    amount = ridge * float(np.trace(gram)) / len(gram)
    gram[np.diag_indices_from(gram)] += max(amount, float(np.finfo(np.float32).tiny))
    inverse, left = np.linalg.inv(gram), weights.astype(gram.dtype)
    order = np.zeros((layout.groups, layout.count), np.int64)
    cost = np.zeros((layout.groups, layout.count))
    for step in range(layout.count):
        for group in range(layout.groups):
            there = np.setdiff1d(np.arange(layout.count), order[group, :step])
            prices = _prices(inverse, left, rows[group, there])
            best = int(np.argmin(prices))
            order[group, step], cost[group, step] = there[best], max(0.0, prices[best])
            _eliminate(inverse, left, rows[group, there[best]])
    return Scores(order, cost, total)


def _prices(inverse: Array, left: Array, rows: Array) -> Array:
    """Return the loss of the output without each of `rows` (n, k), k inputs, when the others are refitted."""
    blocks = inverse[rows[:, :, None], rows[:, None, :]]
    weights = left[:, rows].transpose(1, 2, 0)
    prices: Array = np.einsum("nko,nko->n", weights, np.linalg.solve(blocks, weights))
    return prices


def _eliminate(inverse: Array, left: Array, rows: Array) -> None:
    """Eliminate the inputs `rows` and refit the others; the eliminated entries become zero."""
    block = inverse[np.ix_(rows, rows)]
    correction = np.linalg.solve(block, inverse[rows])
    left -= left[:, rows] @ correction
    inverse -= inverse[:, rows] @ correction
    inverse[rows, :] = inverse[:, rows] = 0
    inverse[rows, rows] = 1
    left[:, rows] = 0
