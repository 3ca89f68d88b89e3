"""The script that measures the structure of a checkout, on made-up checkouts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from scripts.lab.measure_structure import converted_through, main
from scripts.source_modules import Module
from scripts.structure import duplicated_options, function_lengths, visits

COMMAND = """
import click

from msd import steps

@click.command()
@click.option("-o", "--output")
def convert(output: str) -> None:
    print("converting")
    steps.run()
"""
FILES = {
    "msd/__init__.py": "",
    "msd/cli/__init__.py": "",
    "msd/cli/convert.py": COMMAND,
    "msd/steps.py": """
from msd.graph.ir import graph
from msd.graph.ir.shapes import shape

def run():
    graph.read()
    shape()
    finish()
    shape()

def finish():
    name = "unet"
    graph.write()
    import graph_rewrites
""",
    "msd/graph/ir/__init__.py": "",
    "msd/graph/ir/graph.py": "class Box:\n    size = 1\n\ndef read(): pass\n\ndef write(): pass\n",
    "msd/graph/ir/shapes.py": "class Box:\n    size = 2\n\ndef shape(): pass\n",
    "graph_rewrites/__init__.py": "def mark(f):\n    return f\n\n@mark\ndef rule(): pass\n",
    "scripts/a.py": "",
    "README.md": "Four words and one.\n",
}


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        path = tmp_path / "checkout" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "checkout"


def test_the_way_of_a_conversion_is_that_of_first_calls(checkout: Path) -> None:
    """What runs during an import, and what was called before, is not on it."""
    expected = [
        "msd.cli.convert",
        "msd.steps",
        "msd.graph.ir.graph",
        "msd.graph.ir.shapes",
        "msd.steps",
        "msd.graph.ir.graph",
    ]
    assert converted_through(checkout) == expected


def test_two_checkouts_stand_side_by_side(checkout: Path, tmp_path: Path) -> None:
    out = tmp_path / "results" / "structure.json"
    arguments = [str(checkout), str(checkout), "--suite-minutes", "14.5", "-o", str(out)]
    done = CliRunner().invoke(main, arguments, catch_exceptions=False)
    lines = {line[:-18].rstrip(): line[-18:].split() for line in done.output.splitlines()}
    assert lines.pop("") == ["before", "after"]
    assert lines.pop("minutes of the suite") == ["14.5", "–"]
    stored = json.loads(out.read_text())
    assert stored["command"] == "python scripts/lab/measure_structure.py BEFORE ."
    assert {label: [str(stored["before"][label])] * 2 for label in lines} == lines
    assert stored["after"].pop("ways between rooms") == {
        "msd.steps to msd.graph": 2,
        "msd.graph to msd.steps": 1,
    }
    lengths = stored["after"].pop("lines by room")
    assert lengths["msd.graph"] == 10, "of two files"
    assert next(iter(lengths)) == "msd.steps", "the longest first"
    assert stored["after"] == {
        "modules in msd/ itself": 1,
        "packages in cycles": 0,
        "rooms a checkpoint passes": 2,
        "stays in them": 4,
        "returns to a room left before": 2,
        "literals that name a component": 1,
        "modules with such a literal": 1,
        "lines of the longest function": 4,
        "lines of the longest file": 14,
        "options spelled out in more than one command": 0,
        "class names defined more than once": 1,
        "records built with more than 4 positional arguments": 0,
        "words in README": 4,
        "minutes of the suite": None,
    }


def test_more_than_two_checkouts_are_refused(checkout: Path) -> None:
    assert CliRunner().invoke(main, [str(checkout)] * 3).exit_code == 2


def test_a_return_goes_to_a_room_left_before() -> None:
    assert visits(["a", "a", "b", "a", "c", "c", "b"]) == (["a", "b", "a", "c", "b"], 2)
    assert visits([]) == ([], 0)


def test_options_are_the_same_where_all_of_their_arguments_are() -> None:
    texts = {
        "msd.cli.a": "@click.option('--x', help='One.')\n@click.option('--y')\ndef a(): pass",
        "msd.cli.b": "x = click.option('--x',   help='One.')\ny = click.option('--y', help='Other.')",
        "msd.measure.regress": "click.option('--y')",
    }
    modules = {name: Module(name, text) for name, text in texts.items()}
    assert duplicated_options(modules) == ["click.option('--x', help='One.')"]


def test_a_docstring_is_no_part_of_a_function_s_length() -> None:
    module = Module("msd.a", "def f():\n    '''One.\n\n    Two.\n    '''\n    x = 1\n    return x\n")
    assert [(each.lines, each.name) for each in function_lengths({"msd.a": module})] == [(2, "msd.a.f")]
