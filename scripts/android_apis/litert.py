"""LiteRT's Kotlin sources, and what our stub of them says otherwise."""

from __future__ import annotations

import difflib
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from scripts.android_apis.kotlin import Declaration, declarations

FOLDER = "litert/kotlin/src/main/kotlin/com/google/ai/edge/litert"
OURS = "StandIn"


@dataclass(frozen=True)
class Sources:
    """A checkout of LiteRT, or the `revision` of a git directory."""

    folder: Path
    revision: str | None = None

    def read(self) -> dict[str, str]:
        """Return the texts of its Kotlin API by path; raises ValueError where there is none."""
        texts = self._of_revision() if self.revision else self._of_checkout()
        if not texts:
            raise ValueError(f"{self.folder} has no {FOLDER}/*.kt; it should be LiteRT's checkout")
        return texts

    def commit(self) -> str:
        """Return the commit that is read, or "an unknown commit" outside git."""
        said = self._git("rev-parse", self.revision or "HEAD", check=False)
        return said.strip() or "an unknown commit"

    def _of_checkout(self) -> dict[str, str]:
        paths = sorted((self.folder / FOLDER).glob("*.kt"))
        return {f"{FOLDER}/{path.name}": path.read_text("utf-8") for path in paths}

    def _of_revision(self) -> dict[str, str]:
        names = self._git("ls-tree", "--name-only", str(self.revision), f"{FOLDER}/").split()
        return {name: self._git("show", f"{self.revision}:{name}") for name in names if name.endswith(".kt")}

    def _git(self, *arguments: str, check: bool = True) -> str:
        command = ["git", "-C", str(self.folder), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=check).stdout


def declared(texts: dict[str, str]) -> list[Declaration]:
    """Return what Kotlin sources, given by path, declare for others."""
    return [each for path, text in texts.items() for each in declarations(text, path)]


def differences(ours: Iterable[Declaration], real: Iterable[Declaration]) -> list[str]:
    """Return a sentence for each declaration of the stub that is not LiteRT's, and for each that it lacks."""
    by_name: dict[str, list[Declaration]] = {}
    for each in real:
        by_name.setdefault(each.name, []).append(each)
    mine = list(ours)
    wrong = [_wrong(each, by_name.get(each.name, [])) for each in mine]
    return [*filter(None, wrong), *_missing(mine, by_name)]


def _wrong(each: Declaration, candidates: list[Declaration]) -> str | None:
    if any(each.text == other.text for other in candidates):
        return None
    where = f"{each.file}:{each.line} declares {each.text}"
    if not candidates:
        return f"{where}; LiteRT has no {each.name}"
    closest = difflib.get_close_matches(each.text, [other.text for other in candidates], 1, 0)[0]
    other = next(other for other in candidates if other.text == closest)
    return f"{where}; LiteRT declares {other.text} ({other.file}:{other.line})"


def _missing(ours: list[Declaration], real: dict[str, list[Declaration]]) -> list[str]:
    """Return the entries of enums, and the abstract members, that a caller of the real class would meet."""
    names, classes = {each.name for each in ours}, {each.name: each for each in ours if each.kind == "class"}
    wanted = [
        each
        for found in real.values()
        for each in found
        if each.name.rpartition(".")[0] in classes and each.name not in names
        if each.kind == "entry" or "abstract " in each.text
    ]
    return [
        f"{stub.file} lacks {each.text} of {stub.name} ({each.file}:{each.line})"
        for each in wanted
        for stub in [classes[each.name.rpartition(".")[0]]]
    ]
