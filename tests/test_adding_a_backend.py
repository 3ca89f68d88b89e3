"""The listing in docs/adding-a-backend.md works as it stands, and no other file is touched."""

from __future__ import annotations

import json
import re
from pathlib import Path

from tests.source_tree import MSD, ROOT, add_file, run_python

PAGE = ROOT / "docs" / "adding-a-backend.md"


def test_one_file_is_enough_to_generate_and_to_measure(bundle_folder: Path, tmp_path: Path) -> None:
    (listing,) = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.S)
    tree = tmp_path / "tree"
    add_file(tree, "msd/run/runners/backends/echo.py", listing)
    image = "--prompt", "two dogs", "--steps", 2, "-o", tmp_path / "dogs.png", "--json"
    generated = run_python(tree, MSD, "generate", bundle_folder, "--backend", "echo", *image)
    assert generated.returncode == 0, generated.stderr
    assert json.loads(generated.stdout)["backend"] == "echo"
    effort = "--repeats", 1, "--warmups", 0, "--min-seconds", 0, "--draw", 1, "--steps", 5, "--threads", 3
    benched = run_python(tree, MSD, "bench", bundle_folder, "--backend", "echo", *effort, "--json")
    assert benched.returncode == 0, benched.stderr
    (found,) = json.loads(benched.stdout)["bundles"]
    measured = {(m["backend"], m["adapter"], m["threads"], m["precision"]) for m in found["measurements"]}
    assert measured == {("echo", "CPU", 3, "dynamic range")}
    assert [(whole["backend"], whole["drawn"]["steps"]) for whole in found["wholes"]] == [("echo", 1)]
