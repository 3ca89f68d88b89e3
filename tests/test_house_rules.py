"""The shape of the code: imports point one way, files and functions stay small, only commands print.

Each check is a function of the parsed modules that returns what is wrong: so the second half of this file can
show each one a module that breaks the rule.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FOLDERS = ("msd", "graph_rewrites", "scripts", "tests")
FILE_LINES, FUNCTION_LINES = 400, 40
FRAMEWORKS = {"diffusers", "keras", "keras_cv", "peft", "tensorflow", "torch", "transformers"}
FOR_TESTS = {"diffusers", "peft", "torch", "transformers"}
SCHEMA_USERS = ("msd.tflite", "msd.ir.opset")
FOR_COMMANDS = {"click", "rich"}
FOR_REWRITES = {"msd.rewrite", "msd.prediction.device", "msd.ir.opset"}
SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


@dataclass(frozen=True)
class Module:
    """A parsed file: `name` as it is imported, `text`, and its syntax tree."""

    name: str
    text: str
    tree: ast.Module

    @staticmethod
    def of(name: str, text: str) -> Module:
        return Module(name, text, ast.parse(text))


Modules = Mapping[str, Module]


def read_modules(root: Path) -> dict[str, Module]:
    found = {}
    for path in sorted(path for folder in FOLDERS for path in (root / folder).rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found[name] = Module.of(name, path.read_text("utf-8"))
    return found


def statements(node: ast.AST, inside_functions: bool) -> Iterator[ast.AST]:
    """Yield every node that runs at import, or ever if `inside_functions`; none that is for type checkers."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            continue
        if isinstance(child, SCOPES) and not inside_functions:
            continue
        yield child
        yield from statements(child, inside_functions)


def imports(module: Module, known: Modules, at_import: bool = False) -> set[str]:
    """Return what a module imports: our modules by full name, other packages by their first name."""
    found = set()
    for node in statements(module.tree, inside_functions=not at_import):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            deeper = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {name if name in known else node.module for name in deeper}
    return {name if name in known else name.partition(".")[0] for name in found}


def in_folder(name: str, *folders: str) -> bool:
    return any(name == folder or name.startswith(f"{folder}.") for folder in folders)


def cycles(modules: Modules) -> list[str]:
    graph = {name: imports(module, modules) & set(modules) for name, module in modules.items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return [" → ".join(error.args[1])]
    return []


def imports_upwards(modules: Modules) -> list[str]:
    """Return imports of what is above.

    Rewrites know the engine that runs them and its tables. Nothing in msd but a command knows rewrites,
    commands, or what commands print with; nothing but the demo's training knows the frameworks of tests.
    """
    wrong = []
    for name, module in modules.items():
        for other in imports(module, modules):
            in_rewrites = in_folder(name, "graph_rewrites") and in_folder(other, "msd")
            in_training = in_folder(name, "scripts.demo_training")
            in_engine = in_folder(name, "msd") and not in_folder(name, "msd.cli")
            if (
                (in_rewrites and other not in FOR_REWRITES)
                or (in_engine and (in_folder(other, "graph_rewrites", "msd.cli") or other in FOR_COMMANDS))
                or (in_folder(name, "msd", "graph_rewrites") and other in FOR_TESTS and not in_training)
                or (in_folder(name, "msd", "graph_rewrites") and in_folder(other, "tests", "scripts"))
            ):
                wrong.append(f"{name} imports {other}")
    return wrong


def schema_readers(modules: Modules) -> list[str]:
    """Return who else than the reader, the writer and the table of operators knows how a file is laid out."""
    return [
        f"{name} uses the schema"
        for name, module in modules.items()
        if in_folder(name, "msd", "graph_rewrites", "scripts") and "schema_py_generated" in module.text
        if not in_folder(name, *SCHEMA_USERS)
    ]


def heavy_commands(modules: Modules) -> list[str]:
    """Return frameworks that are imported, over any number of modules, before a command has begun."""
    wrong = []
    for command in (name for name in modules if in_folder(name, "msd.cli")):
        seen, waiting = set(), [command]
        while waiting:
            name = waiting.pop()
            seen.add(name)
            reached = imports(modules[name], modules, at_import=True)
            wrong += [f"{command} reaches {other} through {name}" for other in reached & FRAMEWORKS]
            waiting += [other for other in reached & set(modules) if other not in seen]
    return wrong


def long_files(modules: Modules) -> list[str]:
    lengths = {name: module.text.count("\n") for name, module in modules.items()}
    return [f"{name} has {count} lines" for name, count in lengths.items() if count > FILE_LINES]


def long_functions(modules: Modules) -> list[str]:
    """A function's length is that of its body, without the docstring."""
    wrong = []
    for name, module in modules.items():
        for node in ast.walk(module.tree):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                body = node.body[1:] if ast.get_docstring(node) is not None else node.body
                count = (node.end_lineno or 0) - body[0].lineno + 1 if body else 0
                wrong += [f"{name}.{node.name} has {count} lines"] if count > FUNCTION_LINES else []
    return wrong


def prints(modules: Modules) -> list[str]:
    wrong = []
    for name, module in modules.items():
        if in_folder(name, "graph_rewrites") or (in_folder(name, "msd") and not in_folder(name, "msd.cli")):
            calls = [ast.unparse(n.func) for n in ast.walk(module.tree) if isinstance(n, ast.Call)]
            wrong += [f"{name} calls {call}" for call in calls if call in ("print", "exit", "sys.exit")]
    return wrong


CHECKS: tuple[Callable[[Modules], list[str]], ...] = (
    cycles, imports_upwards, schema_readers, heavy_commands, long_files, long_functions, prints
)  # fmt: skip


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_the_code_keeps_its_shape(check: Callable[[Modules], list[str]]) -> None:
    modules = read_modules(ROOT)
    assert {"msd", "msd.cli.generate", "msd.bundle", "tests.test_house_rules"} <= set(modules)
    assert check(modules) == []


LONG_BODY = "def f():\n" + "    x = 1\n" * 41
BREAKS = [
    (cycles, {"msd.a": "import msd.b", "msd.b": "def f():\n    from msd import a"}, "msd.a → msd.b → msd.a"),
    (imports_upwards, {"graph_rewrites.r": "import msd.ir", "msd.ir": ""}, "graph_rewrites.r imports msd.ir"),
    (imports_upwards, {"msd.ir": "def f():\n    import graph_rewrites"}, "msd.ir imports graph_rewrites"),
    (imports_upwards, {"msd.ir": "from msd.cli import generate", "msd.cli": ""}, "msd.ir imports msd.cli"),
    (imports_upwards, {"msd.ir": "import rich.table"}, "msd.ir imports rich"),
    (imports_upwards, {"msd.cli.convert": "import torch"}, "msd.cli.convert imports torch"),
    (imports_upwards, {"msd.ir": "from tests import harness"}, "msd.ir imports tests"),
    (
        schema_readers,
        {"msd.b": "def f():\n    from ai_edge_litert import schema_py_generated as schema"},
        "msd.b uses the schema",
    ),
    (
        heavy_commands,
        {"msd.cli.convert": "from msd import trace", "msd.models.trace": "import keras.ops"},
        "msd.cli.convert reaches keras through msd.models.trace",
    ),
    (long_files, {"msd.a": "\n" * 401}, "msd.a has 401 lines"),
    (long_functions, {"msd.a": LONG_BODY}, "msd.a.f has 41 lines"),
    (prints, {"msd.a": "print(1)"}, "msd.a calls print"),
]


@pytest.mark.parametrize(("check", "sources", "found"), BREAKS)
def test_each_check_finds_what_it_is_for(
    check: Callable[[Modules], list[str]], sources: dict[str, str], found: str
) -> None:
    wrong = check({name: Module.of(name, text) for name, text in sources.items()})
    assert len(wrong) == 1
    assert found in wrong[0] or set(found.split(" → ")) == set(wrong[0].split(" → "))


FINE = {
    "msd.cli.convert": "import click\ndef f():\n    from msd import trace\n    print(1)",
    "msd.tflite.read": "from ai_edge_litert import schema_py_generated as schema",
    "msd.models.trace": "import keras\nif TYPE_CHECKING:\n    import msd.cli.convert",
    "graph_rewrites.r": "from msd.rewrite import rule",
    "msd.rewrite": "",
    "tests.t": "import torch",
    "msd.b": "def f():\n    '''" + "\n" * 60 + "'''\n    return 1",
}


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_what_is_fine_is_found_fine(check: Callable[[Modules], list[str]]) -> None:
    assert check({name: Module.of(name, text) for name, text in FINE.items()}) == []
