"""A worker that hears nothing: it sleeps in a C function, and holds Python's lock meanwhile."""

from __future__ import annotations

import ctypes

PR_SET_NAME = 15


def main(handle: int) -> None:
    library = ctypes.PyDLL(None)
    library.prctl(PR_SET_NAME, b"deaf", 0, 0, 0)
    library.sleep(600)
