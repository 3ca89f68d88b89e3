"""The texts of an exported project, as files that can be read by themselves, and their gaps filled."""

from __future__ import annotations

import string
from importlib.resources import files


class Text(string.Template):
    """A text with gaps such as @@{package}: Kotlin, Gradle, XML and shells have no use for @@."""

    delimiter = "@@"


def fill(name: str, /, **gaps: object) -> str:
    """Return the text of a file such as "runtime/build.gradle.kts"; raises KeyError for a gap left."""
    return Text(files(__name__).joinpath(name).read_text("utf-8")).substitute(gaps)
