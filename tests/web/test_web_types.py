"""TypeScript finds nothing wrong in the page's JavaScript; its declarations are those of its JSDoc."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.web.node import SITE
from tests.web.typescript import DECLARE, PAGE, WORKER, copied, tsc

LIBRARY = SITE / "msd"
MINE = """import { openModel } from './declared/index.js';
const model = await openModel(new URL('model/', self.location.href));
const picture = await model.generate({ prompt: 'seven', onProgress: (progress) => progress.stage });
export const blob: Blob = await picture.png();
"""


@pytest.mark.parametrize("config", [PAGE, WORKER])
def test_every_module_is_typed(config: str, tmp_path: Path) -> None:
    assert tsc(copied(SITE, tmp_path), config) == ""


@pytest.mark.parametrize("config", [PAGE, WORKER])
def test_a_wrong_type_is_found(config: str, tmp_path: Path) -> None:
    folder = copied(SITE, tmp_path)
    (folder / "site/msd/wrong.js").write_text("import { noise } from './noise.js';\nnoise('seven', 3);\n")
    said = tsc(folder, config)
    assert said.splitlines()[0].startswith("site/msd/wrong.js(2,7): error TS2345: Argument of type 'string'")


def test_typescript_declares_the_library_by_its_jsdoc(tmp_path: Path) -> None:
    """For who embeds the library in a page written in TypeScript (docs/web.md)."""
    assert tsc(copied(SITE, tmp_path), PAGE, *DECLARE, "--outDir", str(tmp_path / "types")) == ""
    declared = {path.name: path.read_text("utf-8") for path in (tmp_path / "types").rglob("*.d.ts")}
    assert {path.stem for path in LIBRARY.glob("*.js")} <= {name.removesuffix(".d.ts") for name in declared}
    assert declared["noise.d.ts"].count(" function ") == 3
    assert "generate(request: Wishes & Watch)" in declared["model.d.ts"]


def test_the_declarations_are_right_in_a_program_that_checks_them(tmp_path: Path) -> None:
    """As in a program of TypeScript that does not skip the check of libraries."""
    folder = copied(SITE, tmp_path)
    assert tsc(folder, PAGE, *DECLARE, "--outDir", "types") == ""
    for path in (folder / "site").rglob("*.js"):
        path.unlink()
    (folder / "types/msd").rename(folder / "site/msd/declared")
    settings = json.loads((folder / PAGE).read_text("utf-8")) | {"include": ["site/**/*.ts"]}
    settings["compilerOptions"] |= {"skipLibCheck": False, "types": []}  # TypeScript 7 knows WebGPU
    (folder / PAGE).write_text(json.dumps(settings))
    mine = folder / "site/msd/mine.ts"
    mine.write_text(MINE)
    assert tsc(folder, PAGE) == ""
    mine.write_text(MINE.replace("'seven'", "['seven']"))
    assert "error TS2322: Type 'string[]' is not assignable to type 'string'" in tsc(folder, PAGE)
