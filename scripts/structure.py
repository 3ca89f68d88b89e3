"""Facts about the structure of the code, counted in its syntax trees."""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeGuard

from scripts.source_modules import Module, Modules, imports, in_folder

COMPONENT_NAMES = {"text_encoder", "unet", "vae_decoder", "token_embedding"}
NAMED_IN = ("msd.models.families", "msd.conversion.sources")
"""The modules in which component names may be literals: families define them, checkpoints spell them."""
FAMILY_LANGUAGE = ("calls", "family", "wiring", "control")
"""The modules of msd/models/families that every family is described with."""
OF_ONE_FAMILY = (
    "msd.train.distill",
    "msd.train.pytorch.modules",
    "msd.conversion.sources.clip_skip",
    "msd.conversion.sources.compvis.xl",
    "msd.conversion.sources.keras_cv",
    "msd.conversion.sources.lora_model",
    "msd.conversion.sources.lora_names",
    "msd.conversion.sources.single_file",
)
"""What knows Stable Diffusion's networks: it trains them in PyTorch, or reads files that have only them."""
CODE = ("msd", "graph_rewrites", "scripts")
POSITIONAL = 4
"""The most positional arguments for the constructor of a record."""
RECORDS = ("dataclass", "NamedTuple")


@dataclass(frozen=True)
class Measure:
    """A length in lines, and the name of the thing measured."""

    lines: int
    name: str


def package_of(module: str) -> str:
    """Return `msd.X` for everything below it; other packages by their first name."""
    depth = 2 if in_folder(module, "msd") else 1
    return ".".join(module.split(".")[:depth])


def package_imports(modules: Modules) -> dict[str, set[str]]:
    """Return the packages that each package imports at run time, also inside functions."""
    graph: dict[str, set[str]] = defaultdict(set)
    for name, module in modules.items():
        if in_folder(name, "msd", "graph_rewrites"):
            found = {package_of(other) for other in imports(module, modules) & set(modules)}
            graph[package_of(name)] |= found - {package_of(name)}
    return graph


def packages_in_cycles(modules: Modules) -> list[str]:
    """Return the packages that import themselves through others."""
    graph = package_imports(modules)
    return sorted(package for package in graph if package in _reached(graph, package))


def _reached(graph: dict[str, set[str]], start: str) -> set[str]:
    found: set[str] = set()
    waiting = list(graph[start])
    while waiting:
        package = waiting.pop()
        if package not in found:
            found.add(package)
            waiting += graph.get(package, ())
    return found


def root_modules(modules: Modules) -> list[str]:
    """Return the modules that lie directly in msd/: those that are not packages."""
    return [
        name
        for name in modules
        if name.count(".") == 1 and in_folder(name, "msd")
        if not any(other.startswith(f"{name}.") for other in modules)
    ]


def component_literals(modules: Modules) -> list[str]:
    """Return "MODULE names COMPONENT", once for each literal that is a component's name."""
    return [
        f"{name} names {node.value}"
        for name, module in modules.items()
        if in_folder(name, "msd", "graph_rewrites") and not in_folder(name, *NAMED_IN)
        for node in module.nodes
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in COMPONENT_NAMES
    ]


def family_imports(modules: Modules) -> list[str]:
    """Return "MODULE imports FAMILY" for each module that knows a family, unless it is declared to.

    `families/` finds its modules itself; what reads a checkpoint's naming, or trains one, is of one family.
    """
    concrete = {
        name
        for name, module in modules.items()
        if in_folder(name, "msd.models.families") and name.rpartition(".")[2] not in FAMILY_LANGUAGE
        if name != "msd.models.families"
    }
    return [
        f"{name} imports {family}"
        for name, module in modules.items()
        if in_folder(name, "msd", "graph_rewrites")
        if not in_folder(name, "msd.models.families", *OF_ONE_FAMILY)
        for family in sorted(imports(module, modules) & concrete)
    ]


def classes(module: Module) -> Iterator[ast.ClassDef]:
    """Yield the classes that a module defines, at any depth."""
    return (node for node in module.nodes if isinstance(node, ast.ClassDef))


def duplicate_classes(modules: Modules) -> list[str]:
    """Return "MODULE defines CLASS as MODULE does", once for each class whose name is already in use."""
    first: dict[str, str] = {}
    wrong = []
    for name, module in modules.items():
        for node in classes(module) if in_folder(name, *CODE) else ():
            if first.setdefault(node.name, name) != name:
                wrong.append(f"{name} defines {node.name} as {first[node.name]} does")
    return wrong


def is_record(node: ast.ClassDef) -> bool:
    """Return whether a class is a dataclass or a named tuple."""
    marks = [ast.unparse(mark) for mark in (*node.decorator_list, *node.bases)]
    return any(mark.partition("(")[0].rpartition(".")[2] in RECORDS for mark in marks)


def positional_records(modules: Modules) -> list[str]:
    """Return "MODULE builds RECORD with N positional arguments", once for each call with more than four."""
    records = {
        (name, node.name) for name, module in modules.items() for node in classes(module) if is_record(node)
    }
    names = {record for _, record in records}
    homes = {name.partition(".")[0] for name, _ in records}
    wrong = []
    for name, module in modules.items():
        ours = {local for local, origin in _origins(module).items() if origin.partition(".")[0] in homes}
        ours |= {record for home, record in records if home == name}
        for call, made in _long_calls(module) if in_folder(name, *CODE) else ():
            first, last = made.partition(".")[0], made.rpartition(".")[2]
            if first in ours and last in names:
                wrong.append(f"{name} builds {last} with {len(call.args)} positional arguments")
    return wrong


def _origins(module: Module) -> dict[str, str]:
    """Return the origin of each imported name."""
    found = dict[str, str]()
    for node in module.nodes:
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {alias.asname or alias.name: node.module for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {alias.asname or alias.name.partition(".")[0]: alias.name for alias in node.names}
    return found


def _long_calls(module: Module) -> Iterator[tuple[ast.Call, str]]:
    """Yield calls with many positional arguments and the names they call; `cls` is the class around."""
    for node in module.nodes:
        if _is_long(node) and isinstance(node.func, ast.Name | ast.Attribute):
            yield node, ast.unparse(node.func)
    for owner in classes(module):
        for node in ast.walk(owner):
            if _is_long(node) and ast.unparse(node.func) == "cls":
                yield node, owner.name


def _is_long(node: ast.AST) -> TypeGuard[ast.Call]:
    return isinstance(node, ast.Call) and len(node.args) > POSITIONAL


def function_lengths(modules: Modules) -> Iterator[Measure]:
    """Yield the length of every function's body, without its docstring."""
    for name, module in modules.items():
        for node in module.nodes:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                body = node.body[1:] if ast.get_docstring(node) is not None else node.body
                lines = (node.end_lineno or 0) - body[0].lineno + 1 if body else 0
                yield Measure(lines, f"{name}.{node.name}")


def file_lengths(modules: Modules) -> Iterator[Measure]:
    """Yield the length of every file."""
    return (Measure(module.text.count("\n"), name) for name, module in modules.items())


def duplicated_options(modules: Modules) -> list[str]:
    """Return the click options that more than one file of msd.cli spells out with the same arguments."""
    spelled: Counter[str] = Counter()
    for name, module in modules.items():
        if in_folder(name, "msd.cli"):
            calls = (node for node in module.nodes if isinstance(node, ast.Call))
            spelled.update({ast.unparse(call) for call in calls if ast.unparse(call.func) == "click.option"})
    return [option for option, files in spelled.items() if files > 1]


def visits(path: list[str]) -> tuple[list[str], int]:
    """Return the stays along a path of names, and the number of returns to a name that was left."""
    stays = path[:1] + [name for before, name in pairwise(path) if name != before]
    return stays, len(stays) - len(set(stays))
