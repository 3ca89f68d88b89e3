"""The shape of the code: imports point one way, files and functions stay small, only commands print.

Each check is a function of the parsed modules that returns what is wrong: so the second half of this file can
show each one a module that breaks the rule.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from string import ascii_lowercase

import pytest

from scripts.source_modules import Module, Modules, imports, in_folder, read_modules
from scripts.structure import (
    component_literals,
    duplicate_classes,
    family_imports,
    file_lengths,
    function_lengths,
    package_imports,
    packages_in_cycles,
    positional_records,
)

ROOT = Path(__file__).parent.parent
FILE_LINES, FUNCTION_LINES, ROOMS = 400, 40, 16
FRAMEWORKS = {"diffusers", "keras", "keras_cv", "peft", "tensorflow", "torch", "transformers"}
FOR_TESTS = {"diffusers", "peft", "torch", "transformers"}
PYTORCH_USERS = ("msd.train.comparison.clip_score", "msd.train.distill", "msd.train.pytorch")
"""What the extra `msd[train]` is for; the rest of msd does without it."""
SCHEMA_USERS = ("msd.graph.tflite", "msd.graph.ir.opset")
FOR_COMMANDS = {"click", "rich"}
FOR_REWRITES = {"msd.graph.rewrite", "msd.graph.prediction.device", "msd.graph.ir.opset"}


def cycles(modules: Modules) -> list[str]:
    graph = {name: imports(module, modules) & set(modules) for name, module in modules.items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return [" → ".join(error.args[1])]
    return []


def package_cycles(modules: Modules) -> list[str]:
    """Return which packages in cycles import which others of them, at import or inside functions."""
    inside, graph = packages_in_cycles(modules), package_imports(modules)
    arrows = [f"{one} imports {other}" for one in inside for other in sorted(graph[one] & set(inside))]
    return [", ".join(arrows)] if arrows else []


def unlisted_imports(modules: Modules) -> list[str]:
    """Return which rooms import others than their docstring lists, and which have no such list."""
    wrong = []
    for room, others in package_imports(modules).items():
        has_modules = any(name.startswith(f"{room}.") for name in modules)
        if not in_folder(room, "msd") or room not in modules or not has_modules:
            continue
        text = ast.get_docstring(modules[room].tree)
        listed = re.search(r"^Imports: ([^.]+)\.", text or "", re.M)
        if room == "msd" or (listed and listed[1] == "any room"):
            continue
        known = re.split(r",\s+", listed[1]) if listed else []
        found = {other.removeprefix("msd.") for other in others - {"msd"}}
        wrong += [f"{room} imports {other}, which it does not list" for other in sorted(found - {*known})]
        wrong += [f"{room} lists {other}, which it does not import" for other in sorted({*known} - found)]
    return wrong


def crowded_root(modules: Modules) -> list[str]:
    """Return the rooms and modules that lie directly in msd/ if there are too many."""
    found = sorted({".".join(name.split(".")[:2]) for name in modules if name.startswith("msd.")})
    return [f"msd has {len(found)} rooms: {', '.join(found)}"] if len(found) > ROOMS else []


def imports_upwards(modules: Modules) -> list[str]:
    """Return imports of what is above.

    Rewrites know the engine that runs them and its tables. Nothing in msd but a command knows rewrites,
    commands, or what commands print with; nothing in either knows scripts or tests, and only what trains and
    compares checkpoints the frameworks of tests.
    """
    wrong = []
    for name, module in modules.items():
        for other in imports(module, modules):
            in_rewrites = in_folder(name, "graph_rewrites") and in_folder(other, "msd")
            in_engine = in_folder(name, "msd") and not in_folder(name, "msd.cli", "msd.api")
            is_product = in_folder(name, "msd", "graph_rewrites")
            if (
                (in_rewrites and other not in FOR_REWRITES)
                or (in_engine and (in_folder(other, "graph_rewrites", "msd.cli") or other in FOR_COMMANDS))
                or (is_product and other in FOR_TESTS and not in_folder(name, *PYTORCH_USERS))
                or (is_product and in_folder(other, "tests", "scripts"))
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
    wrong, graph = [], imported_at_import(modules)
    for command in (name for name in modules if in_folder(name, "msd.cli")):
        for name in reached_at_import(command, graph):
            wrong += [f"{command} reaches {other} through {name}" for other in graph[name] & FRAMEWORKS]
    return wrong


Graph = Mapping[str, set[str]]


def imported_at_import(modules: Modules) -> Graph:
    """Return what each module imports when it is imported."""
    return {name: imports(module, modules, at_import=True) for name, module in modules.items()}


def reached_at_import(start: str, graph: Graph) -> set[str]:
    """Return a module and those that are imported with it, over any number of modules."""
    seen, waiting = {start}, {start}
    while waiting:
        found = graph[waiting.pop()] & graph.keys() - seen
        waiting |= found
        seen |= found
    return seen


def long_files(modules: Modules) -> list[str]:
    return [
        f"{each.name} has {each.lines} lines" for each in file_lengths(modules) if each.lines >= FILE_LINES
    ]


def long_functions(modules: Modules) -> list[str]:
    """A function's length is that of its body, without the docstring."""
    too_long = (each for each in function_lengths(modules) if each.lines >= FUNCTION_LINES)
    return [f"{each.name} has {each.lines} lines" for each in too_long]


def prints(modules: Modules) -> list[str]:
    wrong = []
    for name, module in modules.items():
        if in_folder(name, "graph_rewrites") or (in_folder(name, "msd") and not in_folder(name, "msd.cli")):
            calls = [ast.unparse(node.func) for node in module.nodes if isinstance(node, ast.Call)]
            wrong += [f"{name} calls {call}" for call in calls if call in ("print", "exit", "sys.exit")]
    return wrong


FLAKY = ("wait_for_function", "Pool")
"""Calls that hold on a quiet machine only.

A page's Content-Security-Policy refuses the second time that Playwright evaluates what it waits for; a pool
of multiprocessing forks a process whose threads may hold a lock.
"""


def called(function: ast.expr) -> str | None:
    """Return the last part of a called name."""
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else None


def flaky_calls(modules: Modules) -> list[str]:
    wrong = []
    for name, module in modules.items():
        calls = [called(node.func) for node in module.nodes if isinstance(node, ast.Call)]
        wrong += [f"{name} calls {call}" for call in calls if call in FLAKY]
    return wrong


CHECKS: tuple[Callable[[Modules], list[str]], ...] = (
    *(
        cycles,
        package_cycles,
        crowded_root,
        unlisted_imports,
        imports_upwards,
        schema_readers,
        heavy_commands,
    ),
    *(component_literals, family_imports, duplicate_classes, positional_records),
    *(long_files, long_functions, prints, flaky_calls),
)


@pytest.fixture(scope="module")
def modules() -> Modules:
    """The modules of this checkout."""
    return read_modules(ROOT)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_the_code_keeps_its_shape(check: Callable[[Modules], list[str]], modules: Modules) -> None:
    assert {"msd", "msd.cli.generate", "msd.bundle", "tests.test_house_rules"} <= set(modules)
    assert check(modules) == []


BOX = "@dataclass(frozen=True)\nclass Box:\n    a: int\n"
LONG_BODY = "def f():\n" + "    x = 1\n" * 41
BREAKS = [
    (cycles, {"msd.a": "import msd.b", "msd.b": "def f():\n    from msd import a"}, "msd.a → msd.b → msd.a"),
    (
        package_cycles,
        {"msd.a.x": "import msd.b", "msd.a.y": "", "msd.b": "def f():\n    from msd.a import y"},
        "msd.a imports msd.b, msd.b imports msd.a",
    ),
    (crowded_root, {f"msd.{letter}": "" for letter in ascii_lowercase}, "msd has 26 rooms: msd.a, "),
    (
        unlisted_imports,
        {
            "msd.a": '"""A.\n\nImports: b.\n"""',
            "msd.a.x": "import msd.b\nimport msd.c",
            "msd.b": "",
            "msd.c": "",
        },
        "msd.a imports c",
    ),
    (
        unlisted_imports,
        {"msd.a": '"""A.\n\nImports: b, c.\n"""', "msd.a.x": "import msd.b", "msd.b": "", "msd.c": ""},
        "msd.a lists c",
    ),
    (component_literals, {"msd.a": "x = {'unet': 1}"}, "msd.a names unet"),
    (component_literals, {"msd.models.families": "'unet'", "msd.a": "f'{x}unet'"}, "msd.a names unet"),
    (
        family_imports,
        {
            "msd.models.families": "",
            "msd.models.families.calls": "",
            "msd.models.families.one": "",
            "msd.train.distill.x": "from msd.models.families.one import A",
            "msd.a": "from msd.models.families import calls\n"
            "def f():\n    from msd.models.families.one import A",
        },
        "msd.a imports msd.models.families.one",
    ),
    (
        duplicate_classes,
        {"msd.a": "class Box: pass", "scripts.b": "def f():\n    class Box: pass"},
        "scripts.b defines Box as msd.a does",
    ),
    (
        positional_records,
        {"msd.a": BOX + "Box(1, 2, 3, 4, 5)"},
        "msd.a builds Box with 5 positional arguments",
    ),
    (
        positional_records,
        {"msd.a": BOX, "scripts.b": "from msd import a\na.Box(1, *x, 3, 4, 5, e=6)"},
        "scripts.b builds Box with 5 positional arguments",
    ),
    (
        positional_records,
        {"msd.a": BOX, "msd.b": "def f():\n    from msd.a import Box\n    return Box(1, 2, 3, 4, 5)"},
        "msd.b builds Box with 5 positional arguments",
    ),
    (
        positional_records,
        {"msd.a": "class Box(NamedTuple):\n    def of(cls): return cls(1, 2, 3, 4, 5)"},
        "msd.a builds Box with 5 positional arguments",
    ),
    (
        imports_upwards,
        {"graph_rewrites.r": "import msd.graph.ir", "msd.graph.ir": ""},
        "graph_rewrites.r imports msd.graph.ir",
    ),
    (
        imports_upwards,
        {"msd.graph.ir": "def f():\n    import graph_rewrites"},
        "msd.graph.ir imports graph_rewrites",
    ),
    (
        imports_upwards,
        {"msd.graph.ir": "from msd.cli import generate", "msd.cli": ""},
        "msd.graph.ir imports msd.cli",
    ),
    (imports_upwards, {"msd.graph.ir": "import rich.table"}, "msd.graph.ir imports rich"),
    (imports_upwards, {"msd.cli.convert": "import torch"}, "msd.cli.convert imports torch"),
    (imports_upwards, {"msd.graph.ir": "from tests import harness"}, "msd.graph.ir imports tests"),
    (
        schema_readers,
        {"msd.b": "def f():\n    from ai_edge_litert import schema_py_generated as schema"},
        "msd.b uses the schema",
    ),
    (
        heavy_commands,
        {"msd.cli.convert": "from msd.models import trace", "msd.models.trace": "import keras.ops"},
        "msd.cli.convert reaches keras through msd.models.trace",
    ),
    (long_files, {"msd.a": "\n" * 401}, "msd.a has 401 lines"),
    (long_functions, {"msd.a": LONG_BODY}, "msd.a.f has 41 lines"),
    (prints, {"msd.a": "print(1)"}, "msd.a calls print"),
    (flaky_calls, {"tests.a": "page.wait_for_function('x')"}, "tests.a calls wait_for_function"),
    (flaky_calls, {"scripts.a": "with multiprocessing.Pool() as pool: pass"}, "scripts.a calls Pool"),
]


@pytest.mark.parametrize(("check", "sources", "found"), BREAKS)
def test_each_check_finds_what_it_is_for(
    check: Callable[[Modules], list[str]], sources: dict[str, str], found: str
) -> None:
    wrong = check({name: Module(name, text) for name, text in sources.items()})
    assert len(wrong) == 1
    assert found in wrong[0] or set(found.split(" → ")) == set(wrong[0].split(" → "))


FINE = {
    "msd.cli.convert": "import click\ndef f():\n    from msd.models import trace\n    print(1)",
    "msd.graph.tflite.read": "from ai_edge_litert import schema_py_generated as schema",
    "msd.models.trace": "import keras\nif TYPE_CHECKING:\n    import msd.cli.convert",
    "graph_rewrites.r": "from msd.graph.rewrite import rule",
    "msd.graph.rewrite": "",
    "tests.t": "import torch",
    "msd.train.pytorch.modules": "import torch",
    "msd.models.families.stable_diffusion": "NAMES = ('unet', 'vae_decoder')",
    "msd.conversion.sources.diffusers": "NAMES = {'text_encoder': 'text_encoder'}",
    "msd.a": BOX + "Box(1, 2, 3, 4, e=5)\nfile = 'unet.tflite'",
    "tests.a": BOX + "'unet', Box(1, 2, 3, 4, 5)",
    "scripts.a": "from torch import Box\nBox(1, 2, 3, 4, 5)",
    "msd.b": "def f():\n    '''" + "\n" * 60 + "'''\n    return 1",
}


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_what_is_fine_is_found_fine(check: Callable[[Modules], list[str]]) -> None:
    assert check({name: Module(name, text) for name, text in FINE.items()}) == []


COLLECTED_WITHOUT = {
    *("accelerate", "diffusers", "keras", "keras_cv", "matplotlib", "peft", "scipy", "skimage"),
    *("tensorflow", "transformers"),
}
"""What test files import inside functions: each worker imports all of them to know their tests."""


def test_collecting_tests_imports_no_tensorflow(modules: Modules) -> None:
    graph = imported_at_import(modules)
    wrong = [
        f"{name} reaches {other} through {place}"
        for name in modules
        if in_folder(name, "tests") and name.rpartition(".")[2].startswith("test_")
        for place in reached_at_import(name, graph)
        for other in sorted(graph[place] & COLLECTED_WITHOUT)
    ]
    assert wrong == []
