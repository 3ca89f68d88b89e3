"""The part of a manifest about one component's graph: the effect of each rewrite, and of pruning."""

from __future__ import annotations

from dataclasses import dataclass, field

from msd.files import schema


@dataclass(frozen=True)
class SkipCount:
    """The number of matches that a rewrite skipped for one reason, and the name of one tensor."""

    count: int
    example: str


@dataclass(frozen=True)
class RewriteEffect:
    """The effect of one rewrite: how often it fired, operators added minus operators removed, and skips.

    `kinds` has that change by kind of operator, `skipped` a count by reason.
    """

    rule: str
    fired: int
    ops: int
    kinds: dict[str, int]
    skipped: dict[str, SkipCount]


@dataclass(frozen=True)
class PrunedUnit:
    """A unit that lost channels, hidden units or heads, which `width` and `kept` count.

    Each of `groups` lost the same number, unless `whole_groups` were removed. `error` is the loss by the
    criterion. With a calibration, `output_error` is the squared error of the next layer's output, relative to
    the output before (0.01: 20 dB), and `refitted_error` the same with its weights refitted.
    """

    component: str
    unit: str
    kind: str
    groups: int
    width: int
    kept: int
    whole_groups: bool
    parameters: int
    error: float
    output_error: float | None = None
    refitted_error: float | None = None


@dataclass(frozen=True)
class ComponentPruning:
    """The pruning of one component: `parameters` counts those before, `removed` those that were pruned."""

    criterion: str
    budget: str | None
    parameters: int
    removed: int
    units: tuple[PrunedUnit, ...]


@dataclass(frozen=True)
class StoredWeights:
    """Large learnt weights of one kind: `store` as in a recipe, and for integers how they were rounded.

    `algorithm` is "gptq", "min-max", "mse" or "rms", else empty. `names` are those of `count` constants in
    the file; for the kind with the most they are left out: it has all others.
    """

    store: str
    algorithm: str
    count: int
    names: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.store} {self.algorithm}".strip()


@dataclass(frozen=True)
class ComponentLedger:
    """One component: its operators `before` and `after` all rewrites, each rewrite's effect, and pruning.

    `weights` says how its large learnt weights are stored. `remarks` are sentences on what its files lost, or
    have no place for: they count wherever the files are reused.
    """

    before: int
    after: int
    rules: tuple[RewriteEffect, ...]
    pruning: ComponentPruning | None = field(default=None, metadata=schema.UNLESS_EMPTY)
    weights: tuple[StoredWeights, ...] = field(default=(), metadata=schema.UNLESS_EMPTY)
    remarks: tuple[str, ...] = field(default=(), metadata=schema.UNLESS_EMPTY)
