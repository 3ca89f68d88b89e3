"""Rank the indices of a unit by importance, from their weights or from their activations.

Costs are energies, comparable inside a unit: the part of the unit's `total` that is lost.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from msd.compress.pruning.channels import Seed, follow
from msd.compress.pruning.layout import UnitLayout
from msd.compress.pruning.relations import tensor_at
from msd.graph.ir import Graph, Tensor
from msd.graph.ir.weights import Array

PIECE = 1 << 22
"""About how many weights are squared at once."""

RANKS = 256
"""The ranks by which an inverse is behind, where a step has no more."""


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
    refit = _Refit.of(np.linalg.inv(gram), weights.astype(gram.dtype), layout.groups * rows.shape[2])
    order = np.zeros((layout.groups, layout.count), np.int64)
    cost = np.zeros((layout.groups, layout.count))
    for step in range(layout.count):
        for group in range(layout.groups):
            there = np.setdiff1d(np.arange(layout.count), order[group, :step])
            prices = refit.prices(rows[group, there])
            best = int(np.argmin(prices))
            order[group, step], cost[group, step] = there[best], max(0.0, prices[best])
            refit.eliminate(rows[group, there[best]])
        refit.settle()
    return Scores(order, cost, total)


@dataclass
class _Refit:
    """The weights `left` (outputs, inputs) and the `inverse` of the Gram matrix, as inputs are eliminated.

    Both are the matrices less products that are not yet subtracted: `taken` (outputs, ranks) and `columns`
    (inputs, ranks) times `corrections` (ranks, inputs). One product of many ranks takes a fraction of the
    time of as many of few; the inverse has `pending` ranks to subtract, the weights those from `settled`.
    """

    inverse: Array
    left: Array
    columns: Array
    corrections: Array
    taken: Array
    a_step: int
    pending: int = 0
    settled: int = 0

    @staticmethod
    def of(inverse: Array, left: Array, a_step: int) -> _Refit:
        """Return the state before anything is eliminated; between settlings at most `a_step` inputs are."""
        ranks, kind = max(RANKS, a_step), inverse.dtype
        return _Refit(
            inverse=inverse,
            left=left,
            columns=np.zeros((len(inverse), ranks), kind),
            corrections=np.zeros((ranks, len(inverse)), kind),
            taken=np.zeros((len(left), ranks), kind),
            a_step=a_step,
        )

    def prices(self, rows: Array) -> Array:
        """Return the loss of the output without each of `rows` (n, k) when the other inputs are refitted."""
        columns, corrections = self.columns[rows, : self.pending], self.corrections[: self.pending, rows]
        blocks = self.inverse[rows[:, :, None], rows[:, None, :]] - columns @ corrections.transpose(1, 0, 2)
        weights = self._weights(rows.ravel()).T.reshape(*rows.shape, -1)
        prices: Array = (np.linalg.inv(blocks) * (weights @ weights.transpose(0, 2, 1))).sum((1, 2))
        return prices

    def eliminate(self, rows: Array) -> None:
        """Eliminate the inputs `rows` and refit the others."""
        inverse = self.inverse[rows] - self.columns[rows, : self.pending] @ self.corrections[: self.pending]
        weights, more = self._weights(rows), slice(self.pending, self.pending + len(rows))
        self.columns[:, more], self.taken[:, more] = inverse.T, weights
        self.corrections[more] = np.linalg.solve(inverse[:, rows], inverse)
        self.pending = more.stop

    def _weights(self, rows: Array) -> Array:
        since = slice(self.settled, self.pending)
        weights: Array = self.left[:, rows] - self.taken[:, since] @ self.corrections[since, rows]
        return weights

    def settle(self) -> None:
        """Subtract what the weights have pending, and what the inverse has where there is no more room."""
        since = slice(self.settled, self.pending)
        self.left -= self.taken[:, since] @ self.corrections[since]
        self.settled = self.pending
        if self.pending + self.a_step > len(self.corrections):
            for part in np.array_split(np.arange(len(self.inverse)), -(-self.inverse.size // PIECE)):
                here = slice(part[0], part[-1] + 1)
                self.inverse[here] -= self.columns[here, : self.pending] @ self.corrections[: self.pending]
            self.pending = self.settled = 0
