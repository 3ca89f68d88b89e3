"""A choice of forms as a recipe, in TOML, with what was measured beside it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from msd.blockwise.choice import Choice, Form, Forms
from msd.blockwise.sensitivity import REFERENCE, Outcome, ratio
from msd.recipe import BITS, Line, Recipe

DEFAULTS = Line("float32")


def mixed_recipe(
    choice: Choice,
    candidates: Mapping[str, Recipe],
    expected: Mapping[str, Outcome],
    target: str,
    notes: Sequence[str],
) -> str:
    """Return the text of a recipe that stores each block in the form chosen for it.

    Later lines override earlier ones. So blocks that others are within come first, and of the rest those of
    more bits later: projections of several blocks that are merged get the most that one of these has. `notes`
    are put above it all as comments.
    """
    recipes = list(candidates.values())
    said = "; ".join(f"{name} {o.bytes / 1e6:.2f} MB, {_db(o.snr_db)}" for name, o in expected.items())
    parts = [*(f"# {note}" for note in notes), f"# Expected: {said}.", ""]
    parts.append(f"description = {json.dumps(f'mixed for {target}: ' + ', '.join(candidates))}")
    if len({recipe.delegate for recipe in recipes}) == 1 and recipes[0].delegate:
        parts.append(f"delegate = {json.dumps(recipes[0].delegate)}")
    if recipes[0].without:
        parts.append(f"without = {json.dumps(list(recipes[0].without))}")
    lines = {name: recipe.lines[0] for name, recipe in candidates.items()} | {REFERENCE: DEFAULTS}
    names = sorted(lines, key=lambda name: BITS[lines[name].store])
    around = {b for b in choice if any(_holds(b, other) for other in choice)}
    for blocks in (around, set(choice) - around):
        for name in names:
            for component in expected:
                chosen = {
                    block.block: form
                    for block, form in choice.items()
                    if block in blocks and block.component == component and form.candidate == name
                }
                parts += _line(lines[name], component, chosen) if chosen else []
    return "\n".join(parts) + "\n"


def _holds(block: Forms, other: Forms) -> bool:
    """Whether one block's name is the beginning of the other's."""
    return block.component == other.component and other.block.startswith(f"{block.block}.")


def _line(line: Line, component: str, chosen: Mapping[str, Form]) -> list[str]:
    """Return a line of the recipe, each block with what it costs."""
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


def _cost(form: Form) -> str:
    if form.candidate == REFERENCE:
        return ""
    return f"  # alone {_db(form.snr_db)}, the result {_db(ratio(form.noise))}"


def _db(snr: float | None) -> str:
    return "exact" if snr is None else f"{snr:.1f} dB"
