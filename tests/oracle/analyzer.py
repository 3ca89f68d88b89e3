"""TensorFlow's own Analyzer as a witness of the classic delegate's rules."""

from __future__ import annotations

import contextlib
import io
import os
import re
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

ISSUES = re.compile(r"Subgraph#0 has GPU delegate compatibility issues at nodes ([\d, ]+)")
REASON = re.compile(r"GPU COMPATIBILITY WARNING: (?!Subgraph)(.+)")


def complaints(path: Path) -> tuple[set[int], list[str]]:
    """Return the places of the operations that the Analyzer warns about, and its reasons.

    It prints text and returns nothing; from a file of one graph.
    """
    import tensorflow as tf

    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        tf.lite.experimental.Analyzer.analyze(model_path=str(path), gpu_compatibility=True)
    text = printed.getvalue()
    nodes = ISSUES.search(text)
    return {int(n) for n in nodes[1].split(",")} if nodes else set(), REASON.findall(text)
