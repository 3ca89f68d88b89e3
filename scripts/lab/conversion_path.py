"""Record the modules that a conversion passes through: one line for each function, when it is first called.

    PYTHONPATH=ROOT python scripts/lab/conversion_path.py OUT

converts the demo checkpoint with the code at ROOT to the folder OUT. Prints the module of each function of
msd and graph_rewrites in the order of their first calls in the main thread. It imports nothing else from this
folder, because ROOT may be another checkout.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import sys
from types import CodeType, FrameType

PACKAGES = ("msd", "graph_rewrites")


class FirstCalls:
    """A profiler for sys.setprofile. `modules`: each function's module, in the order of first calls."""

    def __init__(self) -> None:
        self.modules: list[str] = []
        self._seen: set[CodeType] = set()

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event != "call" or code in self._seen:
            return
        self._seen.add(code)
        if is_ours(frame) and is_function(code) and not is_importing(frame):
            self.modules.append(frame.f_globals["__name__"])


def is_ours(frame: FrameType) -> bool:
    return str(frame.f_globals.get("__name__")).partition(".")[0] in PACKAGES


def is_function(code: CodeType) -> bool:
    """Return whether it is a function, not the body of a module or a class, which run at import."""
    return bool(code.co_flags & inspect.CO_OPTIMIZED)


def is_importing(frame: FrameType | None) -> bool:
    """Return whether one of our modules is being imported: the place of an import is accidental."""
    while frame:
        if frame.f_code.co_name == "<module>" and is_ours(frame):
            return True
        frame = frame.f_back
    return False


def main(out: str) -> None:
    from msd.cli.convert import convert

    calls = FirstCalls()
    sys.setprofile(calls)
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            convert(["-o", out], standalone_mode=False)
    finally:
        sys.setprofile(None)
    print("\n".join(calls.modules))


if __name__ == "__main__":
    main(sys.argv[1])
