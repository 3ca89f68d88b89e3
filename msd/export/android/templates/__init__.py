"""The text templates of an exported project, as files beside this module."""

from __future__ import annotations

import string
from importlib.resources import files


class TextTemplate(string.Template):
    """A template with gaps such as @@{package}, since @@ occurs in no Kotlin, Gradle, XML or shell."""

    delimiter = "@@"


def kotlin_in(folder: str) -> list[str]:
    """Return the names of the Kotlin files in a folder such as "delivery/packs", in order."""
    found = files(__name__).joinpath(folder).iterdir()
    return sorted(path.name for path in found if path.name.endswith(".kt"))


def fill(name: str, /, **gaps: object) -> str:
    """Return the filled text of a file such as "runtime/build.gradle.kts"; raises KeyError for a gap left."""
    return TextTemplate(files(__name__).joinpath(name).read_text("utf-8")).substitute(gaps)
