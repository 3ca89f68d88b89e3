"""The parsed Python files of a checkout: its modules and their imports."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

FOLDERS = ("msd", "graph_rewrites", "scripts", "tests")
SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef)
HOLDERS = (ast.stmt, ast.ExceptHandler, ast.match_case)
"""What statements are made of; an expression has none inside."""


@dataclass(frozen=True)
class Module:
    """A file: `name` as it is imported, `text`, its syntax tree and all nodes of that."""

    name: str
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    @cached_property
    def nodes(self) -> tuple[ast.AST, ...]:
        return tuple(ast.walk(self.tree))


Modules = Mapping[str, Module]


def read_modules(root: Path, folders: Sequence[str] = FOLDERS) -> dict[str, Module]:
    """Return the modules below the `folders` of the checkout at `root`, by name."""
    found = {}
    for path in sorted(path for folder in folders for path in (root / folder).rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found[name] = Module(name, path.read_text("utf-8"))
    return found


def in_folder(name: str, *folders: str) -> bool:
    """Return whether a module is one of `folders` or lies below one."""
    return any(name == folder or name.startswith(f"{folder}.") for folder in folders)


def statements(node: ast.AST, inside_functions: bool) -> Iterator[ast.AST]:
    """Yield the statements that run at import, or all if `inside_functions`; none for type checkers alone."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, HOLDERS):
            continue
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            continue
        if isinstance(child, SCOPES) and not inside_functions:
            continue
        yield child
        yield from statements(child, inside_functions)


@cache
def _imported_names(module: Module, at_import: bool) -> frozenset[tuple[str, str]]:
    """Return what a module imports, or what a name of it is imported from and that with the name."""
    found = set()
    for node in statements(module.tree, inside_functions=not at_import):
        if isinstance(node, ast.Import):
            found |= {(alias.name, alias.name) for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {(node.module, f"{node.module}.{alias.name}") for alias in node.names}
    return frozenset(found)


def imports(module: Module, known: Modules, at_import: bool = False) -> set[str]:
    """Return the imports of a module: our modules by full name, other packages by their first name."""
    names = _imported_names(module, at_import)
    found = {deeper if deeper in known else package for package, deeper in names}
    return {name if name in known else name.partition(".")[0] for name in found}
