"""What Gradle's plugin makes of a module's resources: R, with a number for each name."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path


def r_class(package: str, modules: Iterable[Path]) -> str | None:
    """Return the Kotlin of R for the resources of all `modules`; None where they have none."""
    groups: dict[str, set[str]] = {}
    for folder in (path for module in modules for path in module.glob("src/main/res/*")):
        kind = folder.name.split("-")[0]
        for path in folder.glob("*.xml"):
            text = path.read_text("utf-8")
            groups.setdefault("id", set()).update(re.findall(r'"@\+id/(\w+)"', text))
            if kind == "values":
                for tag, name in re.findall(r'<(\w+) name="([\w.]+)"', text):
                    groups.setdefault(tag, set()).add(name.replace(".", "_"))
            else:
                groups.setdefault(kind, set()).add(path.stem)
    objects = "\n".join(
        f"    object {kind} {{ {_numbers(names)} }}" for kind, names in groups.items() if names
    )
    return f"package {package}\n\ninternal object R {{\n{objects}\n}}\n" if objects else None


def _numbers(names: set[str]) -> str:
    return "; ".join(f"const val {name}: Int = {i}" for i, name in enumerate(sorted(names)))
