"""A choice of storage formats as a recipe in TOML, with its measured errors as comments."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace

from msd.compress.encoding.quantize import PLAIN
from msd.compress.encoding.recipe import BITS, Line, Recipe
from msd.measure.blockwise.candidates import REFERENCE, pruning_of
from msd.measure.blockwise.choice import Choice, Form
from msd.measure.blockwise.labels import joined_blocks
from msd.measure.blockwise.sensitivity import Outcome, ratio

DEFAULTS = Line("float32")


def mixed_recipe(
    choice: Choice,
    candidates: Mapping[str, Recipe],
    expected: Mapping[str, Outcome],
    target: str,
    notes: Sequence[str],
) -> str:
    """Return the text of a recipe that stores each block in its chosen format.

    Later lines override earlier ones. Therefore blocks that contain others come first, and of the rest those
    with more bits last: merged projections of several blocks get the most bits of any of them. The units that
    a chosen format prunes are listed one by one. `notes` become comments at the top.
    """
    recipes = list(candidates.values())
    listed = "; ".join(f"{name} {o.bytes / 1e6:.2f} MB, {_db(o.snr_db)}" for name, o in expected.items())
    text = [*(f"# {note}" for note in notes), f"# Expected: {listed}.", ""]
    text.append(f"description = {json.dumps(f'mixed for {target}: ' + ', '.join(candidates))}")
    if len({recipe.delegate for recipe in recipes}) == 1 and recipes[0].delegate:
        text.append(f"delegate = {json.dumps(recipes[0].delegate)}")
    if trunk := next((recipe.trunk for recipe in recipes if recipe.trunk), None):
        text.append(f"trunk = {json.dumps(trunk)}")
    if recipes[0].without:
        text.append(f"without = {json.dumps(list(recipes[0].without))}")
    return "\n".join([*text, *_lines(choice, candidates), *_prune(choice, recipes)]) + "\n"


def _lines(choice: Choice, candidates: Mapping[str, Recipe]) -> list[str]:
    lines = {name: recipe.lines[0] for name, recipe in candidates.items()} | {REFERENCE: DEFAULTS}
    names = sorted(lines, key=lambda name: BITS[lines[name].store])
    forms = {(b.component, part): form for b, form in choice.items() for part in joined_blocks(b.block)}
    around = {name for name in forms if any(_holds(name, other) for other in forms)}
    text = []
    for blocks in (around, set(forms) - around):
        for name in names:
            for component in dict.fromkeys(component for component, _ in forms):
                chosen = {
                    block[1]: form
                    for block, form in forms.items()
                    if block in blocks and block[0] == component and form.candidate == name
                }
                text += _line(lines[name], component, chosen) if chosen else []
    return text


def _holds(block: tuple[str, str], other: tuple[str, str]) -> bool:
    """Whether one block's name is the beginning of the other's, in the same component."""
    return block[0] == other[0] and other[1].startswith(f"{block[1]}.")


def _line(line: Line, component: str, chosen: Mapping[str, Form]) -> list[str]:
    """Return a line of the recipe, each block with its cost."""
    # A calibration for one format must not change another that was measured without.
    line = replace(line, algorithm=PLAIN.get(line.store, "auto")) if line.algorithm == "auto" else line
    changed = {
        key: value
        for key in ("granularity", "algorithm", "explicit")
        if (value := getattr(line, key)) != getattr(DEFAULTS, key)
    }
    return [
        "",
        "[[line]]",
        f"store = {json.dumps(line.store)}",
        *(f"{key} = {json.dumps(value)}" for key, value in changed.items()),
        f"component = {json.dumps(component)}",
        "name = [",
        *(f"    {json.dumps(f'{block}.*')},{_cost(form)}" for block, form in chosen.items()),
        "]",
    ]


def _prune(choice: Choice, recipes: Sequence[Recipe]) -> list[str]:
    """Return the table [prune] with the units that the chosen formats prune; no lines where none does."""
    pruned = {block: form.pruned for block, form in choice.items() if form.pruned}
    if not pruned:
        return []
    asked = next(p for p in map(pruning_of, recipes) if p)
    table = ["", "[prune]", f"criterion = {json.dumps(asked.criterion)}"]
    if asked.refit is not None:
        table.append(f"refit = {json.dumps(asked.refit)}")
    table.append(f"components = {json.dumps(list(dict.fromkeys(block.component for block in pruned)))}")
    for units in pruned.values():
        for unit in units:
            table += ["", "[[prune.unit]]", f"name = {json.dumps(unit.name)}", f"keep = {unit.keep}"]
    return table


def _cost(form: Form) -> str:
    if form.candidate == REFERENCE:
        return ""
    return f"  # alone {_db(form.snr_db)}, the result {_db(ratio(form.noise))}"


def _db(snr: float | None) -> str:
    return "exact" if snr is None else f"{snr:.1f} dB"
