"""The cost of each storage format of each block, and a mixed recipe that reaches a target."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from msd.bundle import Bundle, open_bundle
from msd.compress.calibration.generated_inputs import Calibration
from msd.compress.calibration.inputs import Runs
from msd.compress.encoding.recipe import Recipe
from msd.conversion.convert import convert
from msd.conversion.job import open_job, require_calibrates
from msd.conversion.settings import Settings
from msd.errors import BadConfig
from msd.graph import tflite
from msd.measure.blockwise.blocks import straddled
from msd.measure.blockwise.candidates import (
    REFERENCE,
    pruned_by_block,
    pruning_of,
    require_mixable,
    require_whole,
    with_one_trunk,
)
from msd.measure.blockwise.choice import Choice, Form, Forms, smallest, total_bytes, within_noise, within_size
from msd.measure.blockwise.labels import Pair
from msd.measure.blockwise.measure import measure, result_snr, unmeasured
from msd.measure.blockwise.result import ComponentErrors, finite

Versions = tuple[Path, dict[str, Path], set[Pair]]
"""A component's file of the reference, those of the candidates, and blocks that stay together."""
INPUTS = "inputs"
OnProgress = Callable[[str, str, int, int], None]
"""Called with the candidate and component, the activity, the amount done, and the total amount."""
Errors = Mapping[str, Mapping[str, ComponentErrors]]
"""The errors of blocks, by component and candidate."""


@dataclass(frozen=True)
class Outcome:
    """A recipe's outcome for a network: the file's bytes, and the SNR of its result, None without error."""

    bytes: int
    snr_db: float | None


@dataclass(frozen=True)
class Sensitivity:
    """The result of `msd sensitivity`: each block's formats, and the one `chosen` by component and block.

    `whole`: the outcome of each candidate for each component. `expected` and `found`: the predicted and the
    measured outcome of the mixed recipe.
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
    """A checkpoint converted in several ways, and the costs of its blocks.

    `outside`: the bytes of each component's file that are in no block. `candidates` by name; the reference is
    not among them.
    """

    reference: Bundle
    runs: Mapping[str, Runs]
    candidates: Mapping[str, Recipe]
    blocks: Sequence[Forms]
    outside: Mapping[str, int]
    whole: dict[str, dict[str, Outcome]]
    """The outcome of each candidate for each component."""
    calibration: Calibration
    """The inputs in files, for pruning."""

    @property
    def least(self) -> int:
        """The fewest bytes that the files can take together."""
        return sum(self.outside.values()) + total_bytes(smallest(self.blocks))

    @property
    def most(self) -> int:
        """The bytes of the reference's files together."""
        return sum(self.outside.values()) + sum(block.forms[-1].bytes for block in self.blocks)

    def outcomes(self, choice: Choice) -> dict[str, Outcome]:
        """Return the expected outcome of a choice, by component."""
        outcomes = {}
        for name, outside in self.outside.items():
            forms = [form for block, form in choice.items() if block.component == name]
            noise = sum(form.noise for form in forms)
            outcomes[name] = Outcome(outside + sum(form.bytes for form in forms), ratio(noise))
        return outcomes


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
    on_stopped: Callable[[Errors], None] = lambda errors: None,
    on_sizes: Callable[[int, int], None] = lambda least, most: None,
) -> Study:
    """Return the cost of each block of the checkpoint in each candidate, converted in `folder`.

    `settings` are those of the conversion, except its recipe; pruning uses the same calibration inputs.
    `on_stopped` gets the errors that were measured before something ended it, and `on_sizes`, before anything
    is measured, the fewest and the most bytes that the files can take together.
    Raises what `require_mixable`, `convert`, `Calibration.runs`, `measure` and `on_sizes` raise.
    """
    require_mixable(candidates, calibration)
    candidates = with_one_trunk(candidates)
    in_files = _in_files(calibration, folder)
    on_conversion = _converting(on_progress)
    job = open_job(source, settings)
    names, required = job.components, job.family.required
    require_calibrates(job.checkpoint, calibration)
    require_whole(candidates, [*map(job.family.component, names)])
    # Generating images needs all required networks, inputs in files none.
    needed = names if in_files is calibration else job.family.ordered({*required, *names})
    exact = Recipe(REFERENCE, (), without=candidates[0].without)
    convert(source, folder / REFERENCE, replace(settings, recipe=exact, components=needed), on_conversion)
    files = {REFERENCE: open_bundle(folder / REFERENCE)}
    runs_of = partial(_runs, calibration, files[REFERENCE], names, folder / INPUTS, on_progress)
    runs = runs_of() if _come_first(calibration, candidates) else None
    for recipe in candidates:
        convert(source, folder / recipe.name, _stored_as(recipe, settings, in_files), on_conversion)
        files[recipe.name] = open_bundle(folder / recipe.name)
    versions = {name: _versions(name, files) for name in names}
    blocks = [forms for name in names for forms in _forms(name, _unmeasured(versions[name]), files)]
    held = {name: sum(f.forms[-1].bytes for f in blocks if f.component == name) for name in names}
    sized = Study(
        reference=files[REFERENCE],
        runs={},
        candidates={recipe.name: recipe for recipe in candidates},
        blocks=blocks,
        outside={name: files[REFERENCE].component(name).bytes - held[name] for name in names},
        whole={},
        calibration=in_files,
    )
    on_sizes(sized.least, sized.most)
    runs = runs_of() if runs is None else runs
    errors = _errors(versions, runs, on_progress, on_stopped)
    return replace(
        sized,
        runs=runs,
        blocks=[forms for name in names for forms in _forms(name, errors[name], files)],
        whole={recipe.name: _whole(recipe.name, errors, files[recipe.name]) for recipe in candidates},
    )


def _come_first(calibration: Calibration, candidates: Sequence[Recipe]) -> bool:
    """Whether inputs are needed before candidates are converted, or are there already."""
    return calibration.is_of_files or any(map(_needs_inputs, candidates))


def _runs(
    calibration: Calibration, bundle: Bundle, names: Sequence[str], folder: Path, on_progress: OnProgress
) -> dict[str, Runs]:
    return calibration.runs(
        bundle, names, folder, lambda done, of, s: on_progress("inputs", "generating", done, of)
    )


def _whole(candidate: str, errors: Errors, bundle: Bundle) -> dict[str, Outcome]:
    """Return the outcome of a candidate for each component."""
    return {
        name: Outcome(bundle.component(name).bytes, parts[candidate].final_snr_db)
        for name, parts in errors.items()
    }


def _unmeasured(versions: Versions) -> dict[str, ComponentErrors]:
    """Return the blocks of a component in each candidate, with their bytes alone."""
    reference, paths, together = versions
    return {candidate: unmeasured(reference, path, together) for candidate, path in paths.items()}


def _versions(name: str, files: Mapping[str, Bundle]) -> Versions:
    """Return what is compared of a component."""
    paths = {candidate: bundle.path(name) for candidate, bundle in files.items()}
    reference = paths.pop(REFERENCE)
    whole = tflite.read(reference).main
    together = {pair for path in paths.values() for pair in straddled(whole, tflite.read(path).main)}
    return reference, paths, together


def _errors(
    versions: Mapping[str, Versions],
    runs: Mapping[str, Runs],
    on_progress: OnProgress,
    on_stopped: Callable[[Errors], None],
) -> Errors:
    """Return the errors of all components' blocks in each candidate."""
    errors: dict[str, dict[str, ComponentErrors]] = {}
    try:
        for name, of_name in versions.items():
            _measure_all(errors, name, of_name, runs[name], on_progress)
    except BaseException:
        if errors:
            on_stopped(errors)
        raise
    return errors


def _measure_all(
    errors: dict[str, dict[str, ComponentErrors]],
    name: str,
    versions: Versions,
    runs: Runs,
    on_progress: OnProgress,
) -> None:
    """Put the errors of a component's blocks in each candidate into `errors`; all have the same blocks.

    Where something ends it, that has the blocks whose error of the network's result is known.
    """

    def keep(candidate: str, found: ComponentErrors) -> None:
        if blocks := tuple(block for block in found.blocks if block.final_share is not None):
            errors.setdefault(name, {})[candidate] = replace(found, blocks=blocks)

    reference, paths, together = versions
    for candidate, path in paths.items():
        told = partial(on_progress, f"{candidate} {name}")
        found = measure(reference, path, runs, True, told, together, on_stopped=partial(keep, candidate))
        errors.setdefault(name, {})[candidate] = found


def _in_files(calibration: Calibration, folder: Path) -> Calibration:
    """Return the same inputs as a folder, so that their images need not be generated again."""
    given = calibration.given
    return (
        calibration if given is not None and given.is_dir() else replace(calibration, given=folder / INPUTS)
    )


def _stored_as(recipe: Recipe, settings: Settings, calibration: Calibration) -> Settings:
    """Return the settings for a conversion with another recipe."""
    return replace(settings, recipe=recipe, calibration=calibration if _needs_inputs(recipe) else None)


def _needs_inputs(recipe: Recipe) -> bool:
    """Whether a conversion prunes or rounds on a calibration."""
    pruning = pruning_of(recipe)
    return recipe.needs_calibration or (pruning is not None and pruning.needs_calibration)


def _converting(on_progress: OnProgress) -> Callable[[str, str, int, int], None]:
    return lambda component, what, done, of: on_progress("converting", f"{component}: {what}", done, of)


def _forms(name: str, errors: Mapping[str, ComponentErrors], files: Mapping[str, Bundle]) -> list[Forms]:
    """Return the storage formats of each block of a component, the reference's last.

    The bytes that a candidate's file has in excess of weights and the reference's overhead, such as scales,
    are divided among its blocks.
    """
    first = next(iter(errors.values())).blocks
    forms: list[list[Form]] = [[] for _ in first]
    base = files[REFERENCE].component(name).bytes - sum(b.reference_bytes for b in first)
    for candidate, part in errors.items():
        if [b.name for b in part.blocks] != [b.name for b in first]:
            raise BadConfig(f"the candidates' {name} differ in their blocks, which no mix of them can have")
        weights = sum(b.bytes for b in part.blocks)
        share = (files[candidate].component(name).bytes - base) / max(1, weights)
        pruning = files[candidate].manifest.ledger[name].pruning
        pruned = pruned_by_block(pruning.units if pruning else (), [b.name for b in first])
        for each, block in zip(forms, part.blocks, strict=True):
            noise = 10 ** (-finite(block.final_snr_db) / 10)
            size = round(block.bytes * share)
            each.append(
                Form(
                    candidate=candidate,
                    bytes=size,
                    snr_db=block.snr_db,
                    noise=noise,
                    pruned=pruned[block.name],
                )
            )
    for each, block in zip(forms, first, strict=True):
        each.append(Form(REFERENCE, block.reference_bytes, None, 0.0))
    return [Forms(name, block.name, tuple(each)) for block, each in zip(first, forms, strict=True)]


def for_size(study: Study, budget: int) -> Choice:
    """Return the choice whose files have at most `budget` bytes together, with about the least error.

    The error is the sum of the components' errors, each relative to its own signal. Raises BadConfig, with
    the sizes that can be reached, for a size that is too small.
    """
    require_reachable(budget, study.least, study.most)
    return within_size(study.blocks, budget - sum(study.outside.values()))


def require_reachable(budget: int, least: int, most: int) -> None:
    """Raise BadConfig for fewer bytes than the `least`."""
    if budget < least:
        raise BadConfig(
            f"these candidates give files of {least:,} to {most:,} bytes together; {budget:,} is too small"
        )


def for_snr(study: Study, snr_db: Mapping[str, float]) -> Choice:
    """Return the smallest choice with which each component's result has its `snr_db` or more."""
    choice: Choice = {}
    for name in study.outside:
        blocks = [block for block in study.blocks if block.component == name]
        choice |= within_noise(blocks, 10 ** (-snr_db[name] / 10))
    return choice


def raised_aims(
    aims: Mapping[str, float], target: float, expected: Mapping[str, Outcome], given: Mapping[str, Outcome]
) -> dict[str, float] | None:
    """Return new aims where a recipe gave less than `target` dB; None if it did not.

    Errors do not add up exactly: the aim is the dB that were `expected` of the recipe, which may be more than
    was aimed at, and those that were missing.
    """
    missing = {name: max(0.0, target - finite(outcome.snr_db)) for name, outcome in given.items()}
    raised = {
        name: max(aims[name], finite(expected[name].snr_db)) + short
        for name, short in missing.items()
        if short
    }
    return {**aims, **raised} if raised else None


def chosen_formats(choice: Choice, candidates: Mapping[str, Recipe]) -> dict[str, dict[str, str]]:
    """Return the name of the format chosen for each block, by component and block."""
    chosen: dict[str, dict[str, str]] = {}
    for block, form in choice.items():
        chosen.setdefault(block.component, {})[block.block] = format_name(form, candidates)
    return chosen


def format_name(form: Form, candidates: Mapping[str, Recipe]) -> str:
    """Return the candidate's name; where it prunes others but not this block, that of one without pruning."""
    recipe = candidates.get(form.candidate)
    if recipe is None or recipe.prune is None or form.pruned:
        return form.candidate
    alike = [name for name, c in candidates.items() if c.prune is None and c.lines == recipe.lines]
    return alike[0] if alike else f"{form.candidate}, not pruned"


def convert_and_measure(
    study: Study, source: Path, settings: Settings, recipe: Recipe, folder: Path
) -> dict[str, Outcome]:
    """Return the measured outcome of a recipe, by component: convert the checkpoint and run it.

    Files in `folder` are replaced.
    """
    convert(source, folder, replace(_stored_as(recipe, settings, study.calibration), force=True))
    bundle = open_bundle(folder)
    return {
        name: Outcome(
            bundle.component(name).bytes,
            result_snr(study.reference.path(name), bundle.path(name), study.runs[name]),
        )
        for name in study.outside
    }
