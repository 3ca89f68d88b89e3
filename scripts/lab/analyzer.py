"""Record the warnings of TensorFlow's Analyzer about the oracle's cases, a witness of tflite-gpu's rules.

    python scripts/lab/analyzer.py write FOLDER
    OTHER/bin/python scripts/lab/analyzer.py ask FOLDER -o tests/recorded/analyzer-2.15.1.json

The second step needs nothing but a TensorFlow whose Analyzer still looks, up to 2.17.1: from 2.18.0 on the
wheels lack the check (findings/tensorflow-analyzer-never-warns.sh).
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import re
from pathlib import Path

ISSUES = re.compile(r"Subgraph#0 has GPU delegate compatibility issues at nodes ([\d, ]*\d)")
REASON = re.compile(r"GPU COMPATIBILITY WARNING: (?!Subgraph)(.+)")


def main() -> None:
    """Write the cases, or ask the Analyzer about them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("step", choices=["write", "ask"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    if options.step == "write":
        _write(options.folder)
    else:
        _ask(options.folder, options.output)


def _write(folder: Path) -> None:
    from msd.graph import tflite
    from tests.oracle.compare import every_case

    folder.mkdir(exist_ok=True)
    names = []
    for i, case in enumerate(every_case()):
        tflite.write(case.model, folder / f"{i}.tflite")
        names.append(case.name)
    (folder / "names.json").write_text(json.dumps(names), "utf-8")


def _ask(folder: Path, output: Path) -> None:
    """Record the cases with warnings: the name, the indices of the operations, the first reason."""
    import tensorflow as tf

    found = []
    for i, name in enumerate(json.loads((folder / "names.json").read_text("utf-8"))):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            path = str(folder / f"{i}.tflite")
            tf.lite.experimental.Analyzer.analyze(model_path=path, gpu_compatibility=True)
        nodes = ISSUES.search(printed.getvalue())
        if nodes:
            places = [int(n) for n in nodes[1].split(",")]
            found.append([name, places, REASON.findall(printed.getvalue())[0]])
    lines = ",\n".join(json.dumps(each, ensure_ascii=False) for each in found)
    output.write_text(f'{{"tensorflow": "{tf.__version__}", "warned": [\n{lines}\n]}}\n', "utf-8")


if __name__ == "__main__":
    main()
