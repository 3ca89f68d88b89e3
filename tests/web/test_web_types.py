"""TypeScript finds nothing wrong in the page's JavaScript; its declarations are those of its JSDoc."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.web.node import SITE
from tests.web.typescript import DECLARE, PAGE, WORKER, copied, tsc

LIBRARY = SITE / "msd"


@pytest.mark.parametrize("config", [PAGE, WORKER])
def test_every_module_is_typed(config: str, tmp_path: Path) -> None:
    assert tsc(copied(SITE, tmp_path), config) == ""


@pytest.mark.parametrize("config", [PAGE, WORKER])
def test_a_wrong_type_is_found(config: str, tmp_path: Path) -> None:
    folder = copied(SITE, tmp_path)
    (folder / "site/msd/wrong.js").write_text("import { noise } from './noise.js';\nnoise('seven', 3);\n")
    said = tsc(folder, config)
    assert said.splitlines()[0].startswith("site/msd/wrong.js(2,7): error TS2345: Argument of type 'string'")


def test_the_library_s_declarations_are_those_of_its_jsdoc(
    tmp_path: Path, golden: Callable[[str, str], None]
) -> None:
    """For who embeds the library in a page written in TypeScript; `--update-golden` writes them."""
    assert tsc(copied(SITE, tmp_path), PAGE, *DECLARE, "--outDir", str(tmp_path / "types")) == ""
    made = sorted((tmp_path / "types").rglob("*.d.ts"))
    declared = {path.name: path.read_text("utf-8") for path in made if (LIBRARY / _module(path)).exists()}
    assert declared["noise.d.ts"].count("export function") == 3
    for name, text in declared.items():
        golden(str(LIBRARY / name), text)
    assert {path.name for path in LIBRARY.glob("*.d.ts")} == set(declared)


def _module(declaration: Path) -> str:
    return declaration.name.removesuffix(".d.ts") + ".js"
