"""The spelling of a graph: which of several equal forms the rewrites write for a construct.

The forms compute the same numbers, but a delegate runs them at different speeds: each operator is a dispatch
that reads and writes memory unless the delegate joins it to another. A profile in configs/spellings/, or a
file like those, makes one choice for each construct. docs/spellings.md says what each form is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from msd.errors import BadConfig
from msd.files.configs import CONFIGS, find_config, read_config, shipped_names

FOLDER = CONFIGS / "spellings"
"""The folder of msd's own spellings, in a checkout or inside the installed package."""

DEFAULT = "standard"

FORMS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "group_mean": (
            "mean",
            "rows_first",
            "large_rows_first",
            "average_pool",
            "depthwise",
            "groups_first",
        ),
        "group_variance": ("squares", "squared_difference"),
        "layer_norm": ("scaled", "plain"),
        "gelu": ("clipped", "clipped_slope", "builtin"),
        "gated_layer": ("separate", "split"),
        "attention_heads": ("batched", "in_turn"),
        "attention_key": ("transposed", "adj_y"),
        "projections": ("merged", "separate"),
    }
)
"""The forms of each construct, the standard one first."""

STATED = ("description", "delegate", "measured", "forms")
"""The keys of a profile; only `forms` decides the graph."""


@dataclass(frozen=True)
class Spelling:
    """The forms that are not standard, by construct."""

    name: str = DEFAULT
    forms: tuple[tuple[str, str], ...] = ()

    def __getitem__(self, construct: str) -> str:
        """Return the form of a construct; raises KeyError for a construct that does not exist."""
        return dict(self.forms).get(construct, FORMS[construct][0])

    def with_forms(self, forms: Mapping[str, str]) -> Spelling:
        """Return the spelling with other forms of some constructs, without a name of its own."""
        return spelling_of("", {**dict(self.forms), **forms})


def spelling_of(name: str, forms: Mapping[str, str]) -> Spelling:
    """Return the spelling with these forms; raises BadConfig for a construct or form that does not exist."""
    for construct, form in forms.items():
        if construct not in FORMS:
            raise BadConfig(f"no construct is called {construct!r}; there are {', '.join(FORMS)}")
        if form not in FORMS[construct]:
            raise BadConfig(f"{construct} is {form!r}; choose from {', '.join(FORMS[construct])}")
    others = {construct: forms[construct] for construct in FORMS if construct in forms}
    return Spelling(name, tuple((c, form) for c, form in others.items() if form != FORMS[c][0]))


def shipped() -> list[str]:
    """Return the names of msd's own spellings."""
    return shipped_names(FOLDER)


def find_spelling(name_or_path: str) -> Spelling:
    """Return the spelling of that name, or in that file; raises BadConfig listing the names."""
    return read_spelling(find_config(name_or_path, FOLDER, "spelling"))


def read_spelling(path: Path) -> Spelling:
    """Return the spelling in a TOML file, whose [forms] name one for a construct; the others are standard.

    Raises BadConfig naming the key at fault.
    """
    table = read_config(path, "a spelling")
    if unknown := set(table) - {*STATED}:
        raise BadConfig(f"{path} has no use for {sorted(unknown)}; known keys are {sorted(STATED)}")
    forms = table.get("forms")
    if not isinstance(forms, dict) or not all(isinstance(form, str) for form in forms.values()):
        raise BadConfig(f'{path} needs a table [forms] of forms by construct, as in gelu = "clipped"')
    try:
        return spelling_of(path.stem, forms)
    except BadConfig as error:
        raise BadConfig(f"{path}: {error}") from error
