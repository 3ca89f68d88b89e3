"""What our stubs of Android say otherwise than @nativescript/types-android."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from scripts.android_apis.types import Class, Member

PARTIAL = {
    "android.content.SharedPreferences",
    "android.content.SharedPreferences.Editor",
    "android.widget.Adapter",
}
"""Interfaces that are declared in part, which nothing that is exported or tested implements."""

UNTOLD = {"android.R.string"}
"""Classes that TypeScript cannot describe: it has a type of that name."""


def differences(stubs: Mapping[str, Class], real: Mapping[str, Class], level: int) -> list[str]:
    """Return a sentence for each class or member of the stubs that is not Android's at an API level."""
    found = []
    for name, stub in stubs.items():
        if name.startswith("android.") and name not in UNTOLD:
            other = real.get(name)
            found += list(_class(stub, other, level)) if other else [f"{_at(stub)}: Android has no {name}"]
    return found


def _class(stub: Class, real: Class, level: int) -> Iterator[str]:
    for what in ("interface", "parent"):
        if getattr(stub, what) != getattr(real, what) and not _enum(real):
            said = f"{getattr(stub, what)}; Android says {getattr(real, what)}"
            yield f"{_at(stub)}: {what} of {stub.name} is {said} ({_at(real)})"
    if stub.abstract != real.abstract and not real.interface:
        yield f"{_at(stub)}: {stub.name} should {'not ' * stub.abstract}be abstract ({_at(real)})"
    for interface in _claimed(stub, real):
        yield f"{_at(stub)}: Android's {stub.name} does not implement {interface} ({_at(real)})"
    for member in stub.members:
        yield from _member(stub, member, real, level)
    if (
        stub.interface
        and stub.name not in PARTIAL
        and any(each.parameters is not None for each in stub.members)
    ):
        yield from _lacking(stub, real, level)


def _member(stub: Class, member: Member, real: Class, level: int) -> Iterator[str]:
    where = f"{stub.file}:{member.line}: {stub.name}.{member}"
    candidates = real.named(member.name)
    same = [each for each in candidates if _same(member, each)]
    if not same:
        said = "; ".join(f"{each} ({real.file}:{each.line})" for each in candidates)
        yield f"{where}; Android declares {said or 'no such member'}"
        return
    if all(each.since > level for each in same):
        yield f"{where} came with API {same[0].since}, and apps are compiled against {level}"
    if not any(bool(member.deprecated) == (0 < each.deprecated <= level) for each in same):
        never = "not " if member.deprecated else ""
        yield f"{where} should {never}be @Deprecated ({real.file}:{same[0].line})"


def _same(one: Member, other: Member) -> bool:
    if one.static != other.static or (one.parameters is None) != (other.parameters is None):
        return False
    if one.parameters is None or other.parameters is None:
        values = one.value is None or other.value is None or one.value == other.value
        return values and one.result.fits(other.result)
    if len(one.parameters) != len(other.parameters):
        return False
    pairs = zip((one.result, *one.parameters), (other.result, *other.parameters), strict=True)
    return all(a.fits(b) for a, b in pairs)


def _lacking(stub: Class, real: Class, level: int) -> Iterator[str]:
    names = {member.name for member in stub.members}
    inherited = (
        {"onConfigurationChanged", "onLowMemory"} if "ComponentCallbacks" in stub.interfaces else set()
    )
    for each in real.members:
        new = each.since <= level and each.name not in names | inherited | {"<init>"}
        if each.parameters is not None and not each.static and new:
            yield f"{_at(stub)}: {stub.name} lacks {each} ({real.file}:{each.line})"


def _claimed(stub: Class, real: Class) -> set[str]:
    """Return interfaces that are not the real class's; the declarations leave some classes without any."""
    if not real.interfaces:
        return set()
    return set(stub.interfaces) - set(real.interfaces) - {"AutoCloseable", "Comparable", "Cloneable"}


def _enum(real: Class) -> bool:
    return bool(real.named("values"))


def _at(where: Class) -> str:
    return f"{where.file}:{where.line}"
