"""The table of tests/android_stubs/calls.md: each call of exported code, and where it is declared."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scripts.android_apis.calls import ExternalCall
from scripts.android_apis.kotlin import Declaration
from scripts.android_apis.types import Class

LITERT = "com.google.ai.edge.litert"
REFERENCE = "https://developer.android.com/reference"
BEGIN, END = "<!-- calls: begin -->", "<!-- calls: end -->"
HEADS = {
    LITERT: ("LiteRT", "declared in"),
    "play": ("Play and its tasks", "page of the reference"),
    "android": ("Android", "line, and page of the reference"),
}


@dataclass(frozen=True)
class Judges:
    """What says where a call is declared: LiteRT's sources, Android's types, pages of Play's reference."""

    litert: list[Declaration]
    android: Mapping[str, Class]
    play: Mapping[str, Any]

    def of(self, call: ExternalCall) -> tuple[str, str]:
        """Return where a call is declared, and since which API level; raises ValueError if nobody knows."""
        if call.owner.startswith(LITERT):
            return self._kotlin(call), ""
        if call.owner.startswith("android."):
            return self._framework(call)
        package = call.owner.rpartition(".")[0]
        if package not in self.play["packages"]:
            raise ValueError(f"{call} is in no package of play.json")
        page = self.play["packages"][package]
        return f"[{page['library']}]({page['address']}/{call.owner.rpartition('.')[2]})", ""

    def _kotlin(self, call: ExternalCall) -> str:
        name = call.owner.removeprefix(LITERT + ".")
        plain = call.member.removeprefix("set").removeprefix("get")
        names = {f"{name}.{call.member}", f"{name}.{plain[:1].lower()}{plain[1:]}"}
        names |= {name} if call.member in ("<init>", "") else set()
        found = [each for each in self.litert if each.name in names]
        if not found:
            raise ValueError(f"{call} is not in LiteRT's sources")
        exact = [each for each in found if each.parameters == call.arguments] or found
        lines = ", ".join(str(each.line) for each in exact)
        return f"{found[0].file.rpartition('/')[2]}:{lines}"

    def _framework(self, call: ExternalCall) -> tuple[str, str]:
        owner = self.android.get(call.owner)
        members = [
            each
            for each in (owner.named(call.member) if owner else ())
            if (None if each.parameters is None else len(each.parameters)) == call.arguments
        ]
        page = f"{REFERENCE}/{_path(call.owner)}"
        if owner and not call.member:
            return f"[{owner.line}]({page})", str(owner.since or "")
        if not members or owner is None:
            return f"[page]({page})", ""
        since = max(owner.since, min(each.since for each in members))
        return f"[{members[0].line}]({page})", str(since) if since else ""


def read_play(path: Path) -> dict[str, Any]:
    """Return the pages that Play's declarations were read from."""
    found: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return found


def rows(calls: Iterable[ExternalCall], judges: Judges) -> str:
    """Return the tables as Markdown; raises ValueError for a call that no judge knows."""
    groups: dict[str, list[str]] = {key: [] for key in HEADS}
    for call in calls:
        where, since = judges.of(call)
        key = LITERT if call.owner.startswith(LITERT) else "android" if _is_android(call) else "play"
        level = f" {since} |" if key == "android" else ""
        groups[key].append(f"| `{call}` | {where} |{level} {', '.join(call.users)} |")
    return "\n\n".join(_table(key, lines) for key, lines in groups.items())


def replaced(page: str, table: str) -> str:
    """Return a page with a new table between its marks."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{table}\n\n{END}{after}"


def _table(key: str, lines: list[str]) -> str:
    title, where = HEADS[key]
    level, rule = (" API |", "---|") if key == "android" else ("", "")
    head = f"### {title}\n\n| call | {where} |{level} used in |\n|---|---|{rule}---|"
    return "\n".join([head, *lines])


def _is_android(call: ExternalCall) -> bool:
    return call.owner.startswith("android.")


def _path(owner: str) -> str:
    """Return a class's page: packages are folders, classes inside classes are not."""
    words = owner.split(".")
    packages = [word for word in words if word[0].islower()]
    classes = words[len(packages) :]
    if packages[-1:] and owner.startswith(("android.Manifest", "android.R")):
        packages, classes = words[:1], words[1:]
    return "/".join([*packages, ".".join(classes)])
