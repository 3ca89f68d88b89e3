"""What an exported app says of failures and remarks: words of its own, which can be translated."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.android_projects import Projects
from tests.jvm import Jvm

DETAIL = "run msd export-android again"
"""What developers read of each failure: see tests/kotlin_studio/Words.kt."""

TEMPLATES = Path(__file__).parents[1] / "msd/export/android/templates/app"


@pytest.fixture(scope="module")
def app(android_projects: Projects) -> Iterator[Jvm]:
    with android_projects.start() as process:
        yield process


def test_each_kind_of_failure_has_a_sentence_for_users(app: Jvm, tmp_path: Path) -> None:
    seen = app.ask("reasons", home=str(tmp_path))
    photos = seen.pop("photos")
    assert len(set(seen.values())) == len(seen) == 17
    assert not [said for said in seen.values() if DETAIL in said or "msd" in said or "Exception" in said]
    assert seen["space by"] == "The model needs 2 MB more space on this phone. Free some and try again."
    assert seen["memory of"] == "The model needs a phone with 6.0 GB of memory, and this one has 3.0 GB."
    assert seen["network"] == "The GPU of this phone cannot run a part of the model."
    assert seen["no image"].startswith("The model computed nothing that can be shown.")
    assert seen["bug"] == "Something unexpected went wrong. Try again."
    assert photos == [
        "This photo cannot be read. Choose another one.",
        "There is too little memory for this photo. Choose a smaller one.",
        "This phone has no app to choose a photo with.",
    ]


def test_each_kind_of_remark_has_a_sentence_for_users(app: Jvm, tmp_path: Path) -> None:
    seen = app.ask("remarks", home=str(tmp_path))
    assert len(set(seen.values())) == len(seen) == 8
    assert seen["idle"] == "This picture steers in no step: canny"
    assert seen["text"] == "These have no special meaning here: <lora:a:1>"
    assert seen["words"] == "The model hardly knows these words: a, b, c and 2 more"
    assert seen["cut"] == "The prompt is too long. This was cut: the end"
    assert not [said for said in seen.values() if "msd" in said or DETAIL in said]


def test_the_app_has_no_string_that_nothing_shows() -> None:
    texts = "".join(path.read_text() for path in TEMPLATES.rglob("*") if path.suffix in (".kt", ".xml"))
    names = re.findall(r'<string name="(\w+)">', (TEMPLATES / "res/values/strings.xml").read_text())
    used = set(re.findall(r"R\.string\.(\w+)|@string/(\w+)", texts))
    assert set(names) == {first or second for first, second in used}
