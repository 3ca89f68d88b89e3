"""The description of a GPU delegate: its rules, and how it stores weights and tensors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from msd.graph.prediction.device import ConvSize, Device, Shape

if TYPE_CHECKING:
    from msd.graph.prediction.rules.ruleset import RuleSet


@dataclass(frozen=True)
class Delegate:
    """One GPU delegate.

    `title` is its common name. `rules` decide which operations it accepts. `worth_winograd` says whether it
    runs a 3x3 convolution as Winograd F(4x4, 3x3) on a device, by the number of tiles, `winograd_tiles`.
    `keeps_integers`: quantised weights of fully connected layers and 1x1 convolutions stay quantised on the
    GPU. `stacks_batches`: it stacks the batches of a BATCH_MATMUL vertically in a texture. `splits_lookup`:
    it does not support the token embedding's lookup, which gets a file of its own for the CPU. `joins_moves`:
    it joins neighbouring RESHAPE and TRANSPOSE, and a sum with the reduction that alone reads it.
    `reads_broadcast`: whether an elementwise operator reads an operand of the first shape, the result having
    the second, at another place than that of the result (batch, height, width, channels). `is_judged`:
    msd.measure.judging can run the real delegate.
    """

    name: str
    title: str
    rules: RuleSet
    worth_winograd: Callable[[Device, ConvSize], bool]
    winograd_tiles: Callable[[ConvSize], int]
    reads_broadcast: Callable[[Shape, Shape], bool]
    keeps_integers: bool = False
    stacks_batches: bool = False
    splits_lookup: bool = False
    joins_moves: bool = False
    is_judged: bool = False
