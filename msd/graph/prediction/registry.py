"""All delegates that msd has rules for: the modules of msd/graph/prediction/delegates/."""

from __future__ import annotations

import pkgutil
from functools import cache
from importlib import import_module

from msd.errors import BadConfig
from msd.graph.prediction import delegates as folder
from msd.graph.prediction.delegate import Delegate


@cache
def delegates() -> dict[str, Delegate]:
    """Return the delegates by name, in the order of their files."""
    names = sorted(module.name for module in pkgutil.iter_modules(folder.__path__))
    loaded: list[Delegate] = [import_module(f"{folder.__name__}.{name}").DELEGATE for name in names]
    return {delegate.name: delegate for delegate in loaded}


def find_delegate(name: str) -> Delegate:
    """Return the delegate of that name; raises BadConfig listing the names."""
    if name not in delegates():
        raise BadConfig(f"there are no rules for the delegate {name}; there are for {', '.join(delegates())}")
    return delegates()[name]
