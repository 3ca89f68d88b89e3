"""The listings in docs/adding-a-rewrite.md work as they stand."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import graph_rewrites

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "adding-a-rewrite.md"


def test_the_rule_passes_its_test(tmp_path: Path) -> None:
    """The two files are put where the page says, in a copy of the folders that the loader looks into."""
    rule, test = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S)
    package = tmp_path / "graph_rewrites"
    package.mkdir()
    (package / "__init__.py").write_text(Path(graph_rewrites.__file__).read_text())
    (package / "merge_scales.py").write_text(rule)
    (tmp_path / "test_merge_scales.py").write_text(test)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_merge_scales.py"]
    path = {"PYTHONPATH": f"{tmp_path}:{ROOT}", "PATH": ""}
    done = subprocess.run(command, cwd=tmp_path, env=path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "5 passed" in done.stdout
