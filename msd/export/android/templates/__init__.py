"""The text templates of an exported project, as files beside this module."""

from __future__ import annotations

import string
from importlib.resources import files


class TextTemplate(string.Template):
    """A template with gaps such as @@{package}, since @@ occurs in no Kotlin, Gradle, XML or shell."""

    delimiter = "@@"


def fill(name: str, /, **gaps: object) -> str:
    """Return the filled text of a file such as "runtime/build.gradle.kts"; raises KeyError for a gap left."""
    return TextTemplate(files(__name__).joinpath(name).read_text("utf-8")).substitute(gaps)
