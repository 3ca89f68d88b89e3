"""Rewrite rules: one idea per file; `load` finds every file in this folder.

A new rule needs one file here and one test under tests/rewrites/; docs/adding-a-rewrite.md shows how.
"""

from __future__ import annotations

import importlib
import pkgutil

from msd.graph.rewrite import GraphPass, Rewrite, Rule


def load() -> list[Rewrite]:
    """Return every rewrite in this folder, in name order.

    Raises ImportError if a file has no rewrite, or two rewrites have the same name.
    """
    rewrites: dict[str, Rewrite] = {}
    for module in sorted(m.name for m in pkgutil.iter_modules(__path__)):
        contents = vars(importlib.import_module(f"{__name__}.{module}")).values()
        rules = [v for v in contents if isinstance(v, Rule | GraphPass)]
        if not rules:
            raise ImportError(f"graph_rewrites/{module}.py has no rewrite")
        for r in rules:
            if r.name in rewrites:
                raise ImportError(
                    f"two rewrites are called {r.name}; the second is in graph_rewrites/{module}.py"
                )
            rewrites[r.name] = r
    return list(rewrites.values())
