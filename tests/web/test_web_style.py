"""The page's JavaScript keeps the shape of the rest of the code, and runs in any browser."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.web.node import SITE

MODULES = sorted(SITE.rglob("*.js"))
LINE, LINES = 110, 400
ELSEWHERE = {
    "a module that is no file of the page": r"(?:from|import\() *['\"](?!\.)",
    "what only Node.js has": r"\brequire\(|\bprocess\.|\bBuffer\.(?:from|alloc)|\b__dirname\b",
    "code from a text": r"\beval\(|new Function\(|\.innerHTML\b|\.outerHTML\b|insertAdjacentHTML",
    "words for a developer's console": r"\bconsole\.|\bdebugger\b|\balert\(",
    "another origin": r"['\"`](?:https?:)?//",
    "a variable of a whole function": r"^\s*var ",
}


def faults(text: str) -> list[str]:
    """Return what in a module should not be there."""
    lines = text.splitlines()
    code = [line for line in lines if not line.lstrip().startswith(("*", "/*", "//"))]
    found = [what for what, pattern in ELSEWHERE.items() if any(re.search(pattern, line) for line in code)]
    found += [f"line {i} of {len(line)} letters" for i, line in enumerate(lines, 1) if len(line) > LINE]
    return found + ([f"{len(lines)} lines"] if len(lines) > LINES else [])


@pytest.mark.parametrize("module", MODULES, ids=lambda path: path.name)
def test_a_module_keeps_its_shape(module: Path) -> None:
    assert faults(module.read_text("utf-8")) == []


@pytest.mark.parametrize(
    "line",
    [
        "import fs from 'node:fs';",
        "const { x } = await import('left-pad');",
        "const x = process.env.X;",
        "element.innerHTML = text;",
        "  console.log(1);",
        "await fetch('https://example.org/a');",
        "var x = 1;",
        "x" * 111,
        "\n" * 401,
    ],
)
def test_what_should_not_be_there_is_found(line: str) -> None:
    assert len(faults(line)) == 1
    assert faults("import { x } from './x.js';\n// https://www.w3.org/TR/webgpu/\nconst y = 1;\n") == []
