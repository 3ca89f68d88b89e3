"""What each form of each block costs, and a mixed recipe that reaches a target."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from msd import tflite
from msd.blockwise.blocks import torn
from msd.blockwise.candidates import REFERENCE, pruned_by_block, pruning_of, require_mixable
from msd.blockwise.choice import Choice, Form, Forms, smallest, total_bytes, within_noise, within_size
from msd.blockwise.measure import measure, result_snr
from msd.blockwise.result import ComponentErrors, finite
from msd.bundle import Bundle, open_bundle
from msd.calibration.drawing import Calibration
from msd.calibration.inputs import Runs
from msd.conversion.convert import convert
from msd.conversion.job import open_job
from msd.conversion.settings import Settings
from msd.encoding.recipe import Recipe
from msd.errors import BadConfig

INPUTS = "inputs"
OnProgress = Callable[[str, str, int, int], None]
"""Called with the candidate and component, what is being done, how much is done, and of how much."""


@dataclass(frozen=True)
class Outcome:
    """What a recipe gives for a network: the file's bytes, and the SNR of its result, None without error."""

    bytes: int
    snr_db: float | None


@dataclass(frozen=True)
class Sensitivity:
    """The JSON form of what was found: each block's forms, and the one `chosen` by component and block.

    `whole`: what each candidate gives for each component. `expected` and `found`: what the mixed recipe was
    to give, and what it gave.
    """

    command: str
    machine: str
    versions: Mapping[str, str]
    calibration: str
    target: str
    blocks: tuple[Forms, ...]
    chosen: dict[str, dict[str, str]]
    whole: dict[str, dict[str, Outcome]]
    expected: dict[str, Outcome]
    found: dict[str, Outcome]
    format: int = 1


@dataclass(frozen=True)
class Study:
    """A checkpoint converted in several ways, and what the blocks of each cost.

    `outside`: the bytes of each component's file that are in no block. `candidates` by name; the reference is
    not among them.
    """

    reference: Bundle
    runs: Mapping[str, Runs]
    candidates: Mapping[str, Recipe]
    blocks: Sequence[Forms]
    outside: Mapping[str, int]
    whole: dict[str, dict[str, Outcome]]
    """What each candidate gives for each component."""
    calibration: Calibration
    """The inputs in files, for pruning."""

    @property
    def least(self) -> int:
        """The fewest bytes that the files can take together."""
        return sum(self.outside.values()) + total_bytes(smallest(self.blocks))

    def outcomes(self, choice: Choice) -> dict[str, Outcome]:
        """Return what a choice is expected to give, by component."""
        found = {}
        for name, outside in self.outside.items():
            forms = [form for block, form in choice.items() if block.component == name]
            noise = sum(form.noise for form in forms)
            found[name] = Outcome(outside + sum(form.bytes for form in forms), ratio(noise))
        return found


def ratio(noise: float) -> float | None:
    """Return the SNR in dB of noise over signal; None without noise."""
    return round(-10 * math.log10(noise), 3) if noise > 0 else None


def study(
    source: Path,
    settings: Settings,
    candidates: Sequence[Recipe],
    calibration: Calibration,
    folder: Path,
    on_progress: OnProgress,
) -> Study:
    """Return what each block of the checkpoint costs in each candidate, converted in `folder`.

    `settings` say how to convert but for the recipe; what is pruned on a calibration is so on the
    same inputs. Raises what `require_mixable`, `convert`, `Calibration.runs` and `measure` raise.
    """
    require_mixable(candidates, calibration)
    in_files = _in_files(calibration, folder)
    told = _converting(on_progress)
    names = open_job(source, settings).components
    # Drawing takes all networks, inputs in files none.
    needed = names if in_files is calibration else ()
    exact = Recipe(REFERENCE, (), without=candidates[0].without)
    convert(source, folder / REFERENCE, replace(settings, recipe=exact, components=needed), told)
    reference = open_bundle(folder / REFERENCE)
    runs = calibration.runs(
        reference, names, folder / INPUTS, lambda done, of, s: on_progress("inputs", "drawing", done, of)
    )
    files: dict[str, Bundle] = {REFERENCE: reference}
    for recipe in candidates:
        convert(source, folder / recipe.name, _stored_as(recipe, settings, in_files), told)
        files[recipe.name] = open_bundle(folder / recipe.name)
    found = {name: _measured(name, files, runs[name], on_progress) for name in names}
    forms = [forms for name in names for forms in _forms(name, found[name], files)]
    held = {name: sum(f.forms[-1].bytes for f in forms if f.component == name) for name in names}
    return Study(
        reference,
        runs,
        {recipe.name: recipe for recipe in candidates},
        forms,
        {name: reference.component(name).bytes - held[name] for name in names},
        {
            recipe.name: {
                name: Outcome(files[recipe.name].component(name).bytes, found[name][recipe.name].final_snr_db)
                for name in names
            }
            for recipe in candidates
        },
        in_files,
    )


def _measured(
    name: str, files: Mapping[str, Bundle], runs: Runs, on_progress: OnProgress
) -> dict[str, ComponentErrors]:
    """Return the errors of a component's blocks in each candidate; all have the same blocks."""
    paths = {candidate: bundle.path(name) for candidate, bundle in files.items()}
    reference = paths.pop(REFERENCE)
    whole = tflite.read(reference).main
    together = {pair for path in paths.values() for pair in torn(whole, tflite.read(path).main)}
    return {
        candidate: measure(reference, path, runs, True, partial(on_progress, f"{candidate} {name}"), together)
        for candidate, path in paths.items()
    }


def _in_files(calibration: Calibration, folder: Path) -> Calibration:
    """Return the same inputs as a folder of them, which need not be drawn again."""
    given = calibration.given
    return (
        calibration if given is not None and given.is_dir() else replace(calibration, given=folder / INPUTS)
    )


def _stored_as(recipe: Recipe, settings: Settings, calibration: Calibration) -> Settings:
    """Return the settings with which to convert as a recipe says."""
    pruning = pruning_of(recipe)
    needed = pruning is not None and pruning.needs_calibration
    return replace(settings, recipe=recipe, calibration=calibration if needed else None)


def _converting(on_progress: OnProgress) -> Callable[[str, str, int, int], None]:
    return lambda component, what, done, of: on_progress("converting", f"{component}: {what}", done, of)


def _forms(name: str, found: Mapping[str, ComponentErrors], files: Mapping[str, Bundle]) -> list[Forms]:
    """Return the forms of each block of a component, the reference's last.

    What a candidate's file has beside the weights, more than the reference's, is shared out: scales.
    """
    first = next(iter(found.values())).blocks
    forms: list[list[Form]] = [[] for _ in first]
    base = files[REFERENCE].component(name).bytes - sum(b.reference_bytes for b in first)
    for candidate, part in found.items():
        if [b.name for b in part.blocks] != [b.name for b in first]:
            raise BadConfig(f"the candidates' {name} differ in their blocks, which no mix of them can have")
        weights = sum(b.bytes for b in part.blocks)
        share = (files[candidate].component(name).bytes - base) / max(1, weights)
        ledger = files[candidate].manifest.ledger[name]
        pruned = pruned_by_block(ledger.get("pruning", {}), [b.name for b in first])
        for each, block in zip(forms, part.blocks, strict=True):
            noise = 10 ** (-finite(block.final_snr_db) / 10)
            size = round(block.bytes * share)
            each.append(Form(candidate, size, block.snr_db, noise, pruned[block.name]))
    for each, block in zip(forms, first, strict=True):
        each.append(Form(REFERENCE, block.reference_bytes, None, 0.0))
    return [Forms(name, block.name, tuple(each)) for block, each in zip(first, forms, strict=True)]


def for_size(found: Study, budget: int) -> Choice:
    """Return the choice whose files have at most `budget` bytes together, with about the least error.

    The error is the sum of the components', each over its own signal. Raises BadConfig, with what can be
    reached, for a size that is too small.
    """
    outside, least = sum(found.outside.values()), found.least
    most = outside + sum(block.forms[-1].bytes for block in found.blocks)
    if budget < least:
        raise BadConfig(
            f"these candidates give files of {least:,} to {most:,} bytes together; {budget:,} is too small"
        )
    return within_size(found.blocks, budget - outside)


def for_snr(found: Study, snr_db: Mapping[str, float]) -> Choice:
    """Return the smallest choice with which each component's result has its `snr_db` or more."""
    choice: Choice = {}
    for name in found.outside:
        blocks = [block for block in found.blocks if block.component == name]
        choice |= within_noise(blocks, 10 ** (-snr_db[name] / 10))
    return choice


def raised(aims: Mapping[str, float], target: float, given: Mapping[str, Outcome]) -> dict[str, float] | None:
    """Return what to aim at where a recipe gave less than `target` dB; None if it gave no less anywhere.

    Errors do not add up quite: what was missing is added to the aim.
    """
    missing = {name: max(0.0, target - finite(outcome.snr_db)) for name, outcome in given.items()}
    return {name: aims[name] + short for name, short in missing.items()} if any(missing.values()) else None


def names(choice: Choice, candidates: Mapping[str, Recipe]) -> dict[str, dict[str, str]]:
    """Return what the form chosen for each block is called, by component and block."""
    found: dict[str, dict[str, str]] = {}
    for block, form in choice.items():
        found.setdefault(block.component, {})[block.block] = called(form, candidates)
    return found


def called(form: Form, candidates: Mapping[str, Recipe]) -> str:
    """Return the candidate's name; where it would prune and does not here, of one that stores alike."""
    recipe = candidates.get(form.candidate)
    if recipe is None or recipe.prune is None or form.pruned:
        return form.candidate
    alike = [name for name, c in candidates.items() if c.prune is None and c.lines == recipe.lines]
    return alike[0] if alike else f"{form.candidate}, not pruned"


def prove(found: Study, source: Path, settings: Settings, recipe: Recipe, folder: Path) -> dict[str, Outcome]:
    """Return what a recipe really gives, by component: the checkpoint is converted and run.

    What is in `folder` already is replaced.
    """
    convert(source, folder, replace(_stored_as(recipe, settings, found.calibration), force=True))
    made = open_bundle(folder)
    return {
        name: Outcome(
            made.component(name).bytes,
            result_snr(found.reference.path(name), made.path(name), found.runs[name]),
        )
        for name in found.outside
    }
