"""What a GPU delegate is: its rules, and how it keeps what a model is made of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from msd.prediction.device import ConvSize, Device
    from msd.prediction.rules.ruleset import RuleSet


@dataclass(frozen=True)
class Delegate:
    """One GPU delegate.

    `title` is what people call it. `rules`: which operations it takes. `worth_winograd`: whether it runs a
    3x3 convolution as Winograd F(4x4, 3x3), going by its number of tiles, `winograd_tiles`, on a device.
    `keeps_integers`: weights of fully connected layers and 1x1 convolutions stay in few bits on the GPU.
    `stacks_batches`: it lays the batches of a BATCH_MATMUL under one another in a texture. `splits_lookup`:
    it cannot look up the rows of tokens, so a bundle for it has them in a file of their own, for the CPU.
    `is_judged`: msd.judging asks the real one.
    """

    name: str
    title: str
    rules: RuleSet
    worth_winograd: Callable[[Device, ConvSize], bool]
    winograd_tiles: Callable[[ConvSize], int]
    keeps_integers: bool = False
    stacks_batches: bool = False
    splits_lookup: bool = False
    is_judged: bool = False
