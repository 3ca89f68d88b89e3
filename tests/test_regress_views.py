"""What a regression looks like to people and to CI: the HTML page, the JUnit XML, the report's folder."""

from __future__ import annotations

import base64
import io
import re
import string
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as Xml

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from msd.errors import OutputUnwritable
from msd.files import schema
from msd.measure.regress.compare import ImageComparison, Result
from msd.measure.regress.junit import to_junit
from msd.measure.regress.page import amplified, to_html
from msd.measure.regress.regression import Regression
from msd.measure.regress.report_folder import write_report
from msd.measure.regress.suite import Suite
from msd.run.runtime.image import GeneratedImage
from tests.regressions import SUITE, goldens, judged, noisy, waves

NASTY = "<script>alert(1)</script> & \"quoted\" 'too' \x00\x1b[31m ]]> é 日本 \ufffe"


def picture(pixels: np.ndarray[Any, Any]) -> GeneratedImage:
    return GeneratedImage(pixels, np.zeros(1, np.float32), {})


def regression(suite: Suite = SUITE, amount: int = 60) -> Regression:
    """The owl is off by up to `amount`."""
    owl = noisy(waves(1), amount)
    golden = goldens(suite)[1]
    new = {name: picture(pixels) for name, pixels in (golden | {"owl": owl}).items()}
    return Regression(judged({"owl": owl}, suite), golden, new)


def nasty() -> Suite:
    fox, owl = SUITE.drawing.pictures
    pictures = fox, replace(owl, prompt=NASTY, negative_prompt=NASTY)
    return replace(SUITE, name=NASTY, drawing=replace(SUITE.drawing, pictures=pictures))


class Page(HTMLParser):
    """Collects tags, images and words; complains of an element that is not closed."""

    VOID = ("meta", "img", "br")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.images: list[np.ndarray[Any, Any]] = []
        self.tags: list[str] = []
        self.links: list[str] = []
        self.ids: list[str] = []
        self.words = ""
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.tags.append(tag)
        self.links += [given["href"]] if "href" in given else []
        self.ids += [given["id"]] if "id" in given else []
        if tag not in self.VOID:
            self.open.append(tag)
        if tag == "img":
            kind, _, data = given["src"].partition(",")
            assert kind == "data:image/png;base64"
            image = np.asarray(Image.open(io.BytesIO(base64.b64decode(data))))
            assert image.shape[:2] == (int(given["height"]), int(given["width"]))
            self.images.append(image)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words += data


def test_the_page_shows_golden_new_and_difference_worst_first() -> None:
    found = regression()
    page = Page(to_html(found))
    owl, fox = found.new["owl"].pixels, found.new["fox"].pixels
    difference, factor = amplified(found.golden["owl"], owl)
    wanted = [found.golden["owl"], owl, difference, found.golden["fox"], fox, np.zeros_like(fox)]
    assert len(page.images) == 6
    assert all(np.array_equal(a, b) for a, b in zip(wanted, page.images, strict=True))
    assert f"difference × {factor}" in page.words
    assert "no difference" in page.words
    assert f"{len(found.result.broken)} thresholds broken" in page.words
    assert all(sentence in page.words for sentence in (*found.result.broken, *found.result.notes))
    assert page.ids == ["owl", "fox"]
    assert page.links == ["#owl", "#fox"]


def test_a_page_of_equal_pictures_says_so() -> None:
    page = Page(to_html(regression(amount=0)))
    assert "All thresholds hold" in page.words
    assert "broken" not in page.words


def test_the_page_needs_nothing_else_and_no_hands() -> None:
    text = to_html(regression(nasty()))
    page = Page(text)
    assert not {"script", "link", "iframe", "input", "button", "details"} & set(page.tags)
    without = re.sub(r"data:image/png;base64,[A-Za-z0-9+/=]+", "", text)
    assert not re.search(r"url\(|@import|https?:|src=\"[^\"]", without)
    assert "prefers-color-scheme: dark" in text
    assert "alert(1)" in page.words


@pytest.mark.parametrize(
    ("amount", "factor"), [(0, 64), (1, 64), (3, 64), (4, 32), (7, 32), (8, 16), (100, 2), (200, 1), (255, 1)]
)
def test_differences_are_amplified_as_far_as_they_fit(amount: int, factor: int) -> None:
    golden = np.zeros((20, 30, 3), np.uint8)
    shown, times = amplified(golden, golden + np.uint8(amount))
    assert (times, int(shown.max()), int(shown.min())) == (factor, amount * factor, amount * factor)


def test_a_stray_pixel_does_not_hide_the_rest() -> None:
    golden = np.zeros((100, 100, 3), np.uint8)
    new = golden + np.uint8(2)
    new[3, 4] = 255
    shown, factor = amplified(golden, new)
    assert (factor, shown[0, 0, 0], shown[3, 4, 0]) == (64, 128, 255)


def cases(text: str) -> list[Xml.Element]:
    """Check the shape of JUnit.xsd, and return the test cases.

    github.com/windyroad/JUnit-Schema: which elements follow which, and the attributes that each must have.
    """
    root = Xml.fromstring(text.encode())
    assert (root.tag, root.attrib, [suite.tag for suite in root]) == ("testsuites", {}, ["testsuite"])
    suite = root[0]
    must = {"name", "package", "id", "timestamp", "hostname", "tests", "failures", "errors", "time"}
    assert set(suite.attrib) == must
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", suite.get("timestamp", ""))
    tags = [each.tag for each in suite]
    count = tags.count("testcase")
    assert tags == ["properties", *["testcase"] * count, "system-out", "system-err"]
    assert all(set(each.attrib) == {"name", "value"} for each in suite[0])
    found = suite.findall("testcase")
    for case in found:
        assert set(case.attrib) == {"classname", "name", "time"}
        assert re.fullmatch(r"\d+\.\d+", case.get("time", ""))
        assert [each.tag for each in case] in ([], ["failure"])
        assert all({"message", "type"} == set(failure.attrib) for failure in case)
    assert int(suite.get("tests", "")) == count
    assert int(suite.get("failures", "")) == sum(len(case) for case in found)
    return found


def test_junit_has_a_case_for_each_picture_and_for_each_threshold_of_all() -> None:
    result = regression().result
    owl, fox, middle = cases(to_junit(result))
    assert [case.get("name") for case in (owl, fox, middle)] == ["owl", "fox", "all pictures: psnr_median"]
    assert {case.get("classname") for case in (owl, fox, middle)} == {"msd.measure.regress.mine"}
    failure = owl[0]
    assert failure.get("type") == "psnr_least"
    assert all(sentence in failure.get("message", "") for sentence in result.pictures[0].broken.values())
    assert "'an owl', seed 0: " in (failure.text or "")
    assert len(fox) == 0


def test_junit_of_equal_pictures_has_no_failures() -> None:
    assert [len(case) for case in cases(to_junit(regression(amount=0).result))] == [0, 0, 0]


def test_junit_says_that_all_pictures_together_broke_a_threshold() -> None:
    owl, fox = noisy(waves(1), 60), noisy(waves(0), 60)
    failed = cases(to_junit(judged({"owl": owl, "fox": fox})))[2][0]
    assert failed.get("type") == "psnr_median"
    assert failed.get("message", "").startswith("the median PSNR is ")


@given(st.text(st.characters() | st.sampled_from(string.printable + NASTY)))
def test_any_words_survive_in_junit_and_in_the_page(words: str) -> None:
    compared = ImageComparison("a", words, words, 0, 30.0, 0.5, 40, None, {"psnr_least": words})
    result: Result = replace(judged({}), pictures=(compared,), notes=(words,), suite=words)
    (case, _) = cases(to_junit(result))
    plain = re.sub("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]", "", words)
    assert case[0].get("message") == plain
    text = to_html(Regression(result, {"a": waves()}, {"a": picture(waves())}))
    page = Page(text)
    assert len(page.images) == 3
    assert "<b>1</b>image</div>" in text
    assert "script" not in page.tags


def test_the_reports_folder(tmp_path: Path) -> None:
    found, folder = regression(), tmp_path / "deep" / "report"
    write_report(found, folder)
    assert sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.*")) == [
        "index.html", "pictures/fox.png", "pictures/owl.png", "result.json",
    ]  # fmt: skip
    assert schema.load(Result, folder / "result.json", 1, "a result") == found.result
    with Image.open(folder / "pictures" / "owl.png") as image:
        assert np.array_equal(np.asarray(image), found.new["owl"].pixels)
    (folder / "mine.txt").write_text("mine")
    write_report(regression(amount=0), folder)
    assert "All thresholds hold" in (folder / "index.html").read_text()
    assert (folder / "mine.txt").read_text() == "mine"


def test_an_entry_that_was_removed_leaves_no_image(tmp_path: Path) -> None:
    """Of an earlier report; what it does not list stays, and so does all beside a list of another program."""
    write_report(regression(), tmp_path)
    (tmp_path / "pictures/mine.png").write_text("mine")
    fox = replace(SUITE, drawing=replace(SUITE.drawing, pictures=SUITE.drawing.pictures[:1]))
    whole = regression(fox)
    alone = Regression(whole.result, whole.golden, {"fox": whole.new["fox"]})
    write_report(alone, tmp_path)
    assert {path.name for path in (tmp_path / "pictures").iterdir()} == {"fox.png", "mine.png"}
    (tmp_path / "pictures/owl.png").write_text("mine")
    write_report(alone, tmp_path)
    (tmp_path / "result.json").write_text('{"pictures": [{"name": "owl"}]}')
    write_report(alone, tmp_path)
    assert {path.name for path in (tmp_path / "pictures").iterdir()} == {"fox.png", "mine.png", "owl.png"}


def test_a_report_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(OutputUnwritable, match="cannot be written"):
        write_report(regression(), tmp_path / "file" / "report")
