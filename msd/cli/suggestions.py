"""The nearest of the names that an option or a command may have, for a message about another one."""

from __future__ import annotations

import re

from msd.files.nearest import nearest

UNKNOWN = re.compile(r"'?(?P<value>[^']+?)'? is (?:not one of|none of|not among) (?P<names>.+?)\.?$")


def with_nearest(message: str) -> str:
    """Return a message that lists the possible names, and after it the nearest one, if any is near."""
    if not (match := UNKNOWN.search(message)):
        return message
    hint = nearest(match["value"], re.findall(r"[\w+.:-]+", match["names"]))
    return f"{message.rstrip('.')}{hint}" if hint else message
