"""Recipes, which define the storage format of weights: msd's own, or TOML files of users.

A recipe is a list of lines. Each line sets the storage format of the weights that it matches; a later line
overrides an earlier one, and weights that no line matches stay float32. docs/recipes.md is the reference.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from msd.compress.encoding.quantize import COMPENSATED
from msd.errors import BadConfig
from msd.files.configs import CONFIGS, find_config, read_config, shipped_names
from msd.files.fingerprint import fingerprint
from msd.files.wording import listed
from msd.graph.prediction.registry import delegates, find_delegate
from msd.models.families import component_names
from msd.models.families.control import PREFIX

FOLDER = CONFIGS / "recipes"
"""The folder of msd's own recipes, in a checkout or inside the installed package."""

DEFAULT = "gpu-w8"

DTYPES = {"int8": "gpu-w8", "int4": "gpu-w4", "fp16": "float16", "half": "float16", "fp32": "float32"}
"""The recipe that people mean who name a type."""

BITS = {"int4": 4, "int8": 8, "float16": 16, "float32": 32}
INTEGERS = ("int8", "int4")
FILTERS = ("CONV_2D", "EMBEDDING_LOOKUP")
"""Operators whose second input, the weights, may be integers."""

CHOICES: dict[str, tuple[str, ...]] = {
    "store": tuple(BITS),
    "granularity": ("channel", "tensor"),
    "algorithm": ("auto", "gptq", "min-max", "mse", "rms"),
    "delegate": tuple(delegates()),
    "trunk": ("float16", "float32"),
}
FOR_INTEGERS = ("granularity", "algorithm", "explicit")
"""Keys of a line that apply to integers only."""


@dataclass(frozen=True)
class Line:
    """The storage format `store` of the weights that a line matches.

    `op`: the kinds of operators whose weights match, empty for all. `name`: patterns (`*`, `?`, `[…]`) for
    the checkpoint's tensors behind a weight, empty for all; one match is enough. `component`: empty for all.
    `granularity`: one scale per channel or one for the tensor. `algorithm`: how the scale is chosen and
    numbers are rounded (msd/compress/encoding/quantize.py). `explicit`: a DEQUANTIZE in the file converts
    integers to float32, instead of the operator that reads them.
    """

    store: str
    op: tuple[str, ...] = ()
    name: tuple[str, ...] = ()
    component: tuple[str, ...] = ()
    granularity: str = "channel"
    algorithm: str = "auto"
    explicit: bool = False

    def names(self, sources: Iterable[str], component: str) -> bool:
        """Whether the patterns match weights of `component` that come from the tensors `sources`."""
        if self.component and component not in self.component:
            return False
        return not self.name or any(fnmatchcase(s, pattern) for s in sources for pattern in self.name)

    def __str__(self) -> str:
        conditions = {"op": self.op, "name": self.name, "component": self.component}
        parts = [f"{key} {', '.join(values)}" for key, values in conditions.items() if values]
        return f"{self.store} for {listed(parts) or 'all weights'}"


@dataclass(frozen=True)
class Recipe:
    """The storage formats of a bundle's weights, by `lines`.

    `without`: the rewrites to switch off. `delegate`: the delegate that runs the files; encodings that it is
    known to reject or to miscompute are not written. `prune`: the table of that name, unparsed. `trunk`: the
    storage format of the small weights on a network's shortest paths (msd/compress/encoding/trunk.py),
    whatever the lines say. `use`: when to choose it, its size and its quality.
    """

    name: str
    lines: tuple[Line, ...]
    description: str = ""
    delegate: str | None = None
    without: tuple[str, ...] = ()
    prune: Mapping[str, Any] | None = None
    trunk: str | None = None
    use: str = ""

    @property
    def splits_lookup(self) -> bool:
        """Whether the token embedding's lookup needs a file of its own, for this delegate."""
        return self.delegate is not None and find_delegate(self.delegate).splits_lookup

    @property
    def needs_calibration(self) -> bool:
        """Whether a line asks for rounding that only a calibration makes possible."""
        return any(line.algorithm == "gptq" for line in self.lines)

    @property
    def is_rounded_on_calibration(self) -> bool:
        """Whether a calibration changes how any weights are rounded."""
        return any(line.store in INTEGERS and line.algorithm in COMPENSATED for line in self.lines)

    def rounds(self, component: str, algorithms: Collection[str]) -> bool:
        """Whether a line stores weights of `component` as integers by one of `algorithms`."""
        lines = [line for line in self.lines if not line.component or component in line.component]
        return any(line.store in INTEGERS and line.algorithm in algorithms for line in lines)

    @property
    def digest(self) -> str:
        """The SHA-256 of everything but its name and its words."""
        return fingerprint({k: v for k, v in asdict(self).items() if k not in ("name", "description", "use")})


def shipped() -> list[str]:
    """Return the names of msd's own recipes."""
    return shipped_names(FOLDER)


def find_recipe(name_or_path: str) -> Recipe:
    """Return the recipe of that name, or in that file.

    Raises BadValue listing the names, or BadConfig for a file at fault.
    """
    return read_recipe(find_config(name_or_path, FOLDER, "recipe", meant=DTYPES))


def read_recipe(path: Path) -> Recipe:
    """Return the recipe in a TOML file; raises BadConfig naming the line and the key at fault."""
    table = read_config(path, "a recipe")
    where = str(path)
    _require_keys(table, ("description", "use", "delegate", "without", "trunk", "prune", "line"), where)
    lines = _typed(table, "line", list, "[[line]] entries", where)
    if not all(isinstance(line, dict) for line in lines):
        raise BadConfig(f"{where}: line is not a list of tables; write [[line]] above each")
    return Recipe(
        name=path.stem,
        lines=tuple(_line(line, f"{where}, line entry {n}") for n, line in enumerate(lines, 1)),
        description=_typed(table, "description", str, "a string", where),
        use=_typed(table, "use", str, "a string", where),
        delegate=_choice(table, "delegate", where) if "delegate" in table else None,
        without=_strings(table, "without", where),
        trunk=_choice(table, "trunk", where) if "trunk" in table else None,
        prune=_typed(table, "prune", dict, "a table", where) if "prune" in table else None,
    )


def _line(table: dict[str, Any], where: str) -> Line:
    _require_keys(table, tuple(Line.__dataclass_fields__), where)
    if "store" not in table:
        raise BadConfig(f"{where} lacks store; choose from {', '.join(BITS)}")
    store = _choice(table, "store", where)
    if store not in INTEGERS and (idle := [key for key in FOR_INTEGERS if key in table]):
        raise BadConfig(f"{where}: {idle[0]} has no effect on {store}; it is for {listed(INTEGERS)}")
    kinds = _strings(table, "op", where)
    if store in INTEGERS and (others := [kind for kind in kinds if kind not in FILTERS]):
        raise BadConfig(f"{where}: {others[0]} does not support {store} weights; {listed(FILTERS)} do")
    choices = {key: _choice(table, key, where) for key in ("granularity", "algorithm") if key in table}
    components = _strings(table, "component", where)
    for component in (each for each in components if not each.startswith(PREFIX)):
        _require_one_of(component_names(), "component", component, where)
    return Line(
        store,
        kinds,
        _strings(table, "name", where),
        components,
        explicit=_typed(table, "explicit", bool, "true or false", where),
        **choices,
    )


def _require_keys(table: Mapping[str, Any], known: tuple[str, ...], where: str) -> None:
    if unknown := sorted(set(table) - set(known)):
        raise BadConfig(f"{where} has no use for {', '.join(unknown)}; known keys are {', '.join(known)}")


def _require_one_of(choices: tuple[str, ...], key: str, value: object, where: str) -> None:
    if value not in choices:
        raise BadConfig(f"{where}: {key} is {value!r}; choose from {', '.join(choices)}")


def _choice(table: Mapping[str, Any], key: str, where: str) -> str:
    _require_one_of(CHOICES[key], key, table[key], where)
    return str(table[key])


def _strings(table: Mapping[str, Any], key: str, where: str) -> tuple[str, ...]:
    """Return a key's list of strings, which may be a single string in the file."""
    value = table.get(key, [])
    values = [value] if isinstance(value, str) else value
    if not isinstance(values, list) or not all(isinstance(v, str) and v for v in values):
        raise BadConfig(f"{where}: {key} is {value!r}; a string or a list of strings was expected")
    return tuple(values)


def _typed(table: Mapping[str, Any], key: str, kind: type, expected: str, where: str) -> Any:
    value = table.get(key, kind())
    if type(value) is not kind:
        raise BadConfig(f"{where}: {key} is {value!r}; {expected} was expected")
    return value
