"""Connected regions of a mask: cells that touch along an edge belong to the same one."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Mask = npt.NDArray[np.bool_]
Labels = npt.NDArray[np.int64]


def label(mask: Mask) -> Labels:
    """Return the number of each cell's region, int64 of the mask's shape (rows, columns); 0 outside of it.

    Regions are numbered from 1 by their first cell, row by row. Runs of cells in a row join those that they
    touch in the row above: Rosenfeld and Pfaltz (1966, doi 10.1145/321356.321357), with runs for cells.
    """
    rows, starts, ends = _runs(mask)
    parents = list(range(len(rows)))
    above, first = 0, np.searchsorted(rows, np.arange(mask.shape[0] + 1))
    for run, row in enumerate(rows.tolist()):
        if run == first[row]:
            above = first[row - 1] if row else run
        while above < first[row] and ends[above] <= starts[run]:
            above += 1
        touching = above
        while touching < first[row] and starts[touching] < ends[run]:
            _join(parents, int(touching), run)
            touching += 1
    return _painted(mask.shape, (rows, starts, ends), [_root(parents, run) for run in range(len(rows))])


def filled(mask: Mask) -> Mask:
    """Return the mask with its holes: regions outside of it that do not reach the border."""
    labels = label(~mask)
    border = np.concatenate([labels[0], labels[-1], labels[:, 0], labels[:, -1]])
    return np.asarray(mask | ~np.isin(labels, [0, *border]))


def _runs(mask: Mask) -> tuple[Labels, Labels, Labels]:
    """Return the row, first column and column past the end of each run of cells, row by row."""
    edges = np.diff(np.pad(mask, ((0, 0), (1, 1))).astype(np.int8), axis=1)
    rows, starts = np.nonzero(edges == 1)
    return rows, starts, np.nonzero(edges == -1)[1]


def _painted(shape: tuple[int, ...], runs: tuple[Labels, Labels, Labels], roots: list[int]) -> Labels:
    labels, numbers = np.zeros(shape, np.int64), dict[int, int]()
    for row, start, end, root in zip(*(each.tolist() for each in runs), roots, strict=True):
        labels[row, start:end] = numbers.setdefault(root, len(numbers) + 1)
    return labels


def _root(parents: list[int], run: int) -> int:
    while parents[run] != run:
        parents[run] = parents[parents[run]]
        run = parents[run]
    return run


def _join(parents: list[int], one: int, other: int) -> None:
    first, second = sorted((_root(parents, one), _root(parents, other)))
    parents[second] = first
