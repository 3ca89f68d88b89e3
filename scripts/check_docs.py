"""Check the documentation: links, anchors, paths, and every command that a page shows.

    python -m scripts.check_docs

click parses each command of msd without running it; calls of `scripts/` are compared with the options that
the script declares. Prints one line for each mistake and ends with exit code 1 if there is one.
"""

from __future__ import annotations

import ast
import contextlib
import importlib
import io
import re
import shlex
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import click

from msd.cli import msd
from msd.cli.convert import convert
from msd.cli.report import report

ROOT = Path(__file__).parent.parent
ENTRY_POINTS = {"msd-convert": convert, "delegation-report": report}
FENCE = re.compile(r"^(```|~~~)")
CODE_SPAN = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)|(?:src|href)=\"([^\"]+)\"")
PATH = re.compile(r"(?:msd|graph_rewrites|configs|scripts|tests|docs)/[\w./*?-]*")
IMPORT = re.compile(r"^\s*from (msd[\w.]*) import ([\w, ]+?)\s*(?:#.*)?$", re.M)
WORKFLOW = re.compile(r"^\s*run: (.+)$", re.M)


@dataclass(frozen=True)
class Page:
    """A file of the documentation: its path below `root`, and its text."""

    root: Path
    path: str
    text: str

    @staticmethod
    def read(root: Path, path: str) -> Page:
        return Page(root, path, (root / path).read_text("utf-8"))

    @property
    def adds(self) -> bool:
        """Return whether the page shows how to add files, which do not exist yet."""
        return Path(self.path).name.startswith("adding-a-")


def pages(root: Path = ROOT) -> list[Page]:
    """Return README.md, CHANGELOG.md, the pages of docs/ and the workflows that these show."""
    found = [root / "README.md", root / "CHANGELOG.md", *(root / "docs").glob("*.md")]
    found += (root / "docs" / "examples").glob("*.yml")
    return [Page.read(root, str(path.relative_to(root))) for path in sorted(found)]


def split_code(text: str) -> tuple[str, list[str]]:
    """Return the prose of a Markdown text, and the lines of its code blocks, fenced or indented."""
    prose, code = list[str](), list[str]()
    fenced, before = False, ""
    for line in text.splitlines():
        fence = bool(FENCE.match(line))
        indented = line.startswith("    ") and (not before.strip() or before.startswith("    "))
        if not fence:
            (code if fenced or indented else prose).append(line)
        fenced ^= fence
        before = line
    return "\n".join(prose), code


def anchors(text: str) -> set[str]:
    """Return the anchors that GitHub gives the headings of a Markdown text."""
    headings = re.findall(r"^#+ (.+)$", split_code(text)[0], re.M)
    plain = (re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower() for heading in headings)
    return {re.sub(r"[^\w\- ]", "", heading).strip().replace(" ", "-") for heading in plain}


def broken_links(page: Page) -> Iterator[str]:
    """Yield links to files that do not exist and to headings that a page does not have."""
    for target in filter(None, (a or b for a, b in LINK.findall(split_code(page.text)[0]))):
        if re.match(r"\w+:", target):
            continue
        name, _, anchor = target.partition("#")
        path = (page.root / page.path).parent / name
        if not path.exists():
            yield f"links to {target}, which does not exist"
        elif anchor and anchor not in anchors(path.read_text("utf-8") if name else page.text):
            yield f"links to {target}, which has no such heading"


def missing_paths(page: Page) -> Iterator[str]:
    """Yield paths in backticks that do not exist; a page on adding files may name new files of a folder."""
    for span in CODE_SPAN.findall(split_code(page.text)[0]):
        if not PATH.fullmatch(span) or any(page.root.glob(span.rstrip("/"))):
            continue
        if not (page.adds and (page.root / span).parent.is_dir()):
            yield f"names {span}, which does not exist"


def missing_imports(page: Page) -> Iterator[str]:
    """Yield names that a listing imports from msd and that are not there."""
    for module, names in IMPORT.findall("" if page.adds else page.text):
        found = importlib.import_module(module)
        for name in map(str.strip, names.split(",")):
            if not hasattr(found, name):
                yield f"imports {name} from {module}, which has none"


def commands(page: Page) -> Iterator[tuple[str, bool]]:
    """Yield every command that the page shows, and whether it is complete; one in a sentence need not be."""
    if page.path.endswith(".yml"):
        yield from ((line, True) for line in WORKFLOW.findall(page.text) if line != "|")
        return
    prose, code = split_code(page.text)
    for line in "\n".join(code).replace("\\\n", " ").splitlines():
        for part in re.split(r"\s(?:&&|\||>)\s", line.strip()):
            yield part, True
    for span in CODE_SPAN.findall(prose):
        yield span, False


def wrong_command(page: Page, line: str, complete: bool) -> str | None:
    """Return the mistake in a command, or None; also None for commands of other programs."""
    line = re.sub(r"^(\w+=\S* )+", "", line)
    first = line.split(" ", 1)[0]
    if first not in (*ENTRY_POINTS, "msd", "make", "python"):
        return None
    words = shlex.split(line, comments=True)
    if len(words) == 1 or words[1:] == ["-m"]:
        return None
    if first == "make":
        targets = re.findall(r"^([a-z-]+):", (page.root / "Makefile").read_text("utf-8"), re.M)
        return None if words[1] in targets else f"no target of the Makefile is called {words[1]}"
    if first == "python":
        return wrong_script(page.root, words[1:])
    return wrong_options(words, complete and "…" not in line)


def wrong_script(root: Path, words: list[str]) -> str | None:
    """Return the mistake in a call of a file in scripts/, by the options that its text declares."""
    name = words[1].replace(".", "/") + ".py" if words[0] == "-m" else words[0]
    if not name.startswith("scripts/"):
        return None
    if not (root / name).is_file():
        return f"{name} does not exist"
    calls = [n for n in ast.walk(ast.parse((root / name).read_text("utf-8"))) if isinstance(n, ast.Call)]
    literals = {a.value for call in calls for a in call.args if isinstance(a, ast.Constant)}
    known = {part for text in literals if isinstance(text, str) for part in text.split("/")} | {"--help"}
    given = words[1 + (words[0] == "-m") :]
    given = given[: given.index("--")] if "--" in given else given
    unknown = [word for word in given if word.startswith("-") and word.partition("=")[0] not in known]
    grouped = any(isinstance(call.func, ast.Attribute) and call.func.attr == "group" for call in calls)
    if grouped and given and given[0] not in known:
        return f"{name} has no command {given[0]}"
    return f"{name} has no option {', '.join(unknown)}" if unknown else None


def wrong_options(words: list[str], complete: bool) -> str | None:
    """Return click's reason to refuse a command of msd; checks only the options unless it is `complete`."""
    command: click.Command | None = ENTRY_POINTS.get(words[0])
    if words[0] == "msd":
        if words[1].startswith("-"):
            return None
        command, words = msd.get_command(click.Context(msd), words[1]), words[1:]
    if command is None:
        return f"msd has no command {words[0]}"
    if not complete:
        known = {name for p in command.params for name in (*p.opts, *p.secondary_opts)} | {"--help"}
        unknown = [w for w in words[1:] if w.startswith("-") and w.partition("=")[0] not in known]
        return f"{words[0]} has no option {', '.join(unknown)}" if unknown else None
    return refusal(command, words)


def refusal(command: click.Command, words: list[str]) -> str | None:
    """Return click's message for wrong usage, or None; files need not exist."""

    def convert_path(self: click.Path, value: Any, *rest: Any) -> Path:
        return Path(value)

    with patch.object(click.Path, "convert", convert_path), contextlib.redirect_stdout(io.StringIO()):
        try:
            command.make_context(words[0], words[1:])
        except click.UsageError as error:
            return error.format_message()
        except click.exceptions.Exit:
            pass
    return None


def mistakes(page: Page) -> list[str]:
    """Return the mistakes in a page, a sentence each."""
    found = [*broken_links(page), *missing_paths(page), *missing_imports(page)]
    for line, complete in commands(page):
        if wrong := wrong_command(page, line, complete):
            found.append(f"shows `{line}`: {wrong}")
    return [f"{page.path} {mistake}" for mistake in found]


if __name__ == "__main__":
    wrong = [mistake for page in pages() for mistake in mistakes(page)]
    print("\n".join(wrong) or "The documentation's links, paths and commands are right.")
    sys.exit(bool(wrong))
