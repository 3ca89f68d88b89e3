"""The listing in docs/adding-a-delegate.md works as it stands, and no other file is touched."""

from __future__ import annotations

import json
import re
from pathlib import Path

from tests.source_tree import MSD, ROOT, add_file, run_python

PAGE = ROOT / "docs" / "adding-a-delegate.md"
READ = """import sys
from msd.compress.encoding.recipe import find_recipe
print(find_recipe(sys.argv[1]).delegate)"""


def test_one_file_is_enough_to_predict_and_for_recipes(bundle_folder: Path, tmp_path: Path) -> None:
    (listing,) = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.S)
    tree = tmp_path / "tree"
    add_file(tree, "msd/graph/prediction/delegates/tiny_gpu.py", listing)
    asked = "--delegate", "tiny-gpu,litert-gpu", "--no-run", "--json"
    reported = run_python(tree, MSD, "report", bundle_folder / "unet.tflite", *asked)
    assert reported.returncode == 3, reported.stderr
    (file,) = json.loads(reported.stdout)["files"]
    tiny, litert = file["predictions"]
    assert (tiny["delegate"], litert["delegate"]) == ("tiny-gpu", "litert-gpu")
    sentences = [finding["sentence"] for finding in tiny["findings"]]
    assert any("is of a kind that tiny-gpu does not have" in sentence for sentence in sentences)
    recipe = tmp_path / "mine.toml"
    recipe.write_text('delegate = "tiny-gpu"\n[[line]]\nstore = "int8"\n')
    read = run_python(tree, READ, recipe)
    assert read.stdout.strip() == "tiny-gpu", read.stderr
