"""What compiled Kotlin uses of LiteRT, Play, AndroidX and Android: each member, where it is declared."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from scripts.android_apis.classfile import JavaClass, Use
from scripts.android_apis.types import Class

EXTERNAL = ("android/", "androidx/", "com/google/")
MADE_BY_THE_COMPILER = ("Companion", "INSTANCE")


@dataclass(frozen=True, order=True)
class ExternalCall:
    """A use of `member` of `owner`, as both are written in Kotlin; `arguments` is None for fields.

    `member` is empty for a class that is only named: a type, or an exception that is caught.
    """

    owner: str
    member: str
    arguments: int | None
    users: tuple[str, ...] = ()

    def __str__(self) -> str:
        if not self.member:
            return self.owner
        if self.arguments is None:
            return f"{self.owner}.{self.member}"
        return f"{self.owner}.{self.member}({self.arguments or ''})"


def calls(exported: Mapping[str, JavaClass], libraries: Mapping[str, JavaClass]) -> list[ExternalCall]:
    """Return what classes use of the libraries, in order, each once with the names of its users."""
    every = {**libraries, **exported}
    users: dict[tuple[str, str, int | None], set[str]] = {}
    for name, compiled in exported.items():
        for use in (*compiled.uses, *_overrides(compiled, every)):
            owner = _declaring(use, every)
            if owner and owner.startswith(EXTERNAL) and use.name not in MADE_BY_THE_COMPILER:
                users.setdefault(_written(owner, use), set()).add(_source(name))
    return sorted(ExternalCall(*key, tuple(sorted(by))) for key, by in users.items())


def _overrides(compiled: JavaClass, every: Mapping[str, JavaClass]) -> Iterator[Use]:
    """Yield what a class implements of a library's: it is called by name, too."""
    for name, descriptor in compiled.declares:
        if "(" in descriptor and not name.startswith("<"):
            yield from (Use(parent, name, descriptor) for parent in compiled.parents if parent in every)


def _declaring(use: Use, every: Mapping[str, JavaClass]) -> str | None:
    """Return the class that declares what is used, the nearest one; None for one of Java's or Kotlin's."""
    waiting = [use.owner]
    while waiting:
        name = waiting.pop(0)
        found = every.get(name)
        if found and (use.name, use.descriptor) in found.declares:
            return name
        waiting += found.parents if found else ()
    return None


def _written(owner: str, use: Use) -> tuple[str, str, int | None]:
    """Return class, member and number of arguments as they stand in a source."""
    name, arguments = use.name.removesuffix("$default"), _arguments(use.descriptor)
    if arguments is not None:
        arguments -= 3 if use.name != name else 2 if "DefaultConstructorMarker" in use.descriptor else 0
    plain = owner.replace("/", ".").removesuffix("$Companion").replace("$", ".")
    return plain, "<init>" if name == "<init>" else name, arguments


def _arguments(descriptor: str) -> int | None:
    if not descriptor.startswith("("):
        return None
    count, i = 0, 1
    while descriptor[i] != ")":
        while descriptor[i] == "[":
            i += 1
        i = descriptor.index(";", i) + 1 if descriptor[i] == "L" else i + 1
        count += 1
    return count


def _source(name: str) -> str:
    """Return a class's own name, without those inside it."""
    return name.rpartition("/")[2].split("$")[0].removesuffix("Kt")


def constants(texts: Mapping[str, str], stubs: Mapping[str, Class]) -> list[ExternalCall]:
    """Return the constants that Kotlin sources name, given by path: compiled code has only their values."""
    users: dict[tuple[str, str], set[str]] = {}
    for path, text in texts.items():
        imported = {name.rpartition(".")[2]: name for name in re.findall(r"^import ([\w.]+)$", text, re.M)}
        for first, inner, constant in re.findall(r"\b([\w]+)((?:\.[\w]+)*)\.(\w+)\b", text):
            owner = imported.get(first, first) + inner
            if owner in stubs and any(each.value for each in stubs[owner].named(constant)):
                users.setdefault((owner, constant), set()).add(path.rpartition("/")[2].removesuffix(".kt"))
    return sorted(ExternalCall(*key, None, tuple(sorted(by))) for key, by in users.items())


def named(texts: Mapping[str, str], found: Iterable[ExternalCall]) -> list[ExternalCall]:
    """Return the classes that Kotlin sources import, given by path, and use no member of."""
    owners = {call.owner for call in found}
    users: dict[str, set[str]] = {}
    for path, text in texts.items():
        for name in re.findall(r"^import ((?:android|androidx|com\.google)\.[\w.]+)$", text, re.M):
            if not any(owner == name or owner.startswith(f"{name}.") for owner in owners):
                users.setdefault(name, set()).add(path.rpartition("/")[2].removesuffix(".kt"))
    return [ExternalCall(name, "", None, tuple(sorted(by))) for name, by in users.items()]
