"""Suites of pictures: the one that comes with msd, and a sentence for each mistake in a file of one's own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from msd.bundle import ImageDefaults
from msd.errors import BadConfig
from msd.measure.regress.suite import (
    Drawing,
    Suite,
    SuitePicture,
    Thresholds,
    find_suite,
    read_suite,
)
from msd.models.demo.captions import parse
from msd.run.runtime.request import Request

PICTURE = '[[picture]]\nname = "a"\nprompt = "a fox"\n'
LIMITS = "[thresholds]\npsnr_least = 40\n"
EVERYTHING = """
description = "mine"
steps = 7
guidance = 4
scheduler = "dpm++"

[thresholds]
psnr_least = 40
psnr_median = 45.5
ssim_least = 0.9
hash_distance_most = 3
attributes_least = 1

[reconverted]
psnr_median = 70

[[picture]]
name = "fox.1"
prompt = "a fox"
negative_prompt = "a dog"
seed = 3

[[picture]]
name = "Owl-2"
prompt = ""
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "mine.toml"
    path.write_text(text, "utf-8")
    return path


def test_a_file_says_all_there_is(tmp_path: Path) -> None:
    pictures = SuitePicture("fox.1", "a fox", "a dog", 3), SuitePicture("Owl-2", "")
    wanted = Suite(
        "mine",
        Drawing(pictures, 7, 4.0, "dpm++"),
        Thresholds(40.0, 45.5, 0.9, 3, 1.0),
        Thresholds(psnr_median=70.0),
        "mine",
    )
    found = read_suite(written(tmp_path, EVERYTHING))
    assert found == wanted
    assert found.drawing.requests == [Request("a fox", "a dog", 3, 7, 4.0), Request("", "", 0, 7, 4.0)]


def test_what_is_not_said_is_as_when_a_picture_is_generated(tmp_path: Path) -> None:
    found = read_suite(written(tmp_path, LIMITS + PICTURE))
    assert found.drawing.requests == [Request("a fox")]
    assert (found.drawing.scheduler, found.reconverted) == (None, None)
    of_a_model = read_suite(written(tmp_path, LIMITS + PICTURE), ImageDefaults(4, 1.0))
    assert of_a_model.drawing.requests == [Request("a fox", steps=4, guidance=1.0)]


def test_the_digest_is_of_what_decides_the_pictures(tmp_path: Path) -> None:
    drawing = read_suite(written(tmp_path, EVERYTHING)).drawing
    other = read_suite(written(tmp_path, EVERYTHING.replace("psnr_least = 40", "psnr_least = 50")))
    assert other.drawing.digest == drawing.digest
    fox, owl = drawing.pictures
    changes = [
        {"steps": 8},
        {"guidance": 4.5},
        {"scheduler": None},
        {"pictures": (fox,)},
        {"pictures": (owl, fox)},
        *({"pictures": (replace(fox, **{key: value}), owl)} for key, value in
          {"name": "x", "prompt": "x", "negative_prompt": "x", "seed": 4}.items()),
    ]  # fmt: skip
    digests = {replace(drawing, **change).digest for change in changes}
    assert len(digests | {drawing.digest}) == len(changes) + 1


def test_the_demos_suite_shows_all_that_the_demo_draws() -> None:
    suite = read_suite(find_suite("demo"))
    seen = [parse(entry.prompt) for entry in suite.drawing.pictures]
    for attribute, count in {"count": 3, "colour": 8, "kind": 8, "position": 5, "pattern": 4}.items():
        assert len({each[attribute] for each in seen}) >= min(count, 7), attribute
    assert suite.thresholds.attributes_least
    assert suite.reconverted


def test_a_name_that_there_is_not() -> None:
    with pytest.raises(BadConfig, match=r"no suite is called 'dem'; there are demo, or give a \.toml file"):
        find_suite("dem")
    with pytest.raises(BadConfig, match=r"missing\.toml cannot be read \(No such file"):
        read_suite(find_suite("missing.toml"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("step = 3\n" + LIMITS + PICTURE, r"mine\.toml: unknown key 'step'; did you mean steps\?"),
        (LIMITS + PICTURE + "sed = 1", r"picture entry 1: unknown key 'sed'; did you mean seed\?"),
        (
            "[thresholds]\npsnr_lest = 1\n" + PICTURE,
            r"\[thresholds\]: unknown key 'psnr_lest'; did you mean psnr_le",
        ),
        (
            "[thresholds]\nzzz = 1\n" + PICTURE,
            "unknown key 'zzz'; there are attributes_least, hash_distance_most",
        ),
        (LIMITS, r"mine\.toml has no images; add \[\[picture\]\] entries, each with a name and a prompt"),
        ("", r"\[thresholds\] has no threshold, so no image could fail; add psnr_least"),
        (LIMITS + "[reconverted]\n" + PICTURE, r"\[reconverted\] has no threshold"),
        ("thresholds = 1\n" + PICTURE, r"\[thresholds\] is 1; a table was expected"),
        (LIMITS + PICTURE + PICTURE, "two images are called a and a; each needs a name of its own"),
        (LIMITS + PICTURE + PICTURE.replace('"a"', '"A"'), "two images are called a and A"),
        (LIMITS + '[picture]\nname = "a"', r"picture is not a list of tables; write \[\[picture\]\]"),
        (LIMITS + '[[picture]]\nname = "a"', "picture entry 1 lacks prompt"),
        (LIMITS + '[[picture]]\nprompt = "a"', "picture entry 1 lacks name"),
        (LIMITS + PICTURE.replace('"a"', '"../a"'), r"name is '\.\./a'; a file name of letters"),
        (LIMITS + PICTURE.replace('"a"', '"a b"'), "name is 'a b'; a file name of letters"),
        (LIMITS + PICTURE.replace('"a"', '""'), "name is ''; a file name of letters"),
        (LIMITS + PICTURE.replace('"a"', "1"), "name is 1; a string was expected"),
        (LIMITS + PICTURE.replace('"a fox"', "[]"), r"prompt is \[\]; a string was expected"),
        (LIMITS + PICTURE + "seed = -1", "seed is -1; a whole number, at least 0, was expected"),
        (LIMITS + PICTURE + "seed = true", "seed is True; a whole number"),
        (LIMITS + PICTURE + "negative_prompt = 0", "negative_prompt is 0; a string was expected"),
        ("steps = 0\n" + LIMITS + PICTURE, "steps is 0; a whole number, at least 1, was expected"),
        ("steps = 2.5\n" + LIMITS + PICTURE, "steps is 2.5; a whole number"),
        ("guidance = -1\n" + LIMITS + PICTURE, "guidance is -1; a number 0 or more was expected"),
        ("scheduler = 'ddmi'\n" + LIMITS + PICTURE, "no scheduler is called 'ddmi'; there are ddim, ddpm"),
        ("description = 1\n" + LIMITS + PICTURE, "description is 1; a string was expected"),
        ("steps = ", r"mine\.toml is not a suite: Invalid value"),
    ],
)
def test_a_mistake_is_named(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(BadConfig, match=message):
        read_suite(written(tmp_path, text))


@pytest.mark.parametrize("key", Thresholds.__dataclass_fields__)
@pytest.mark.parametrize("value", ["-1", "-0.5", "nan", "inf", "true", "'1'", "1e9"])
def test_a_threshold_that_means_nothing(key: str, value: str, tmp_path: Path) -> None:
    text = f"[thresholds]\n{key} = {value}\n" + PICTURE
    if value == "1e9" and key.startswith("psnr"):
        assert read_suite(written(tmp_path, text)).thresholds
        return
    with pytest.raises(BadConfig, match=rf"\[thresholds\]: {key} is .*; a (whole )?number"):
        read_suite(written(tmp_path, text))


@pytest.mark.parametrize(
    ("key", "value", "other", "more"),
    [
        ("psnr_least", "0", "0.01", "more"),
        ("psnr_median", "0.0", "0.01", "more"),
        ("attributes_least", "0", "0.01", "more"),
        ("hash_distance_most", "64", "63", "less"),
    ],
)
@pytest.mark.parametrize("section", ["thresholds", "reconverted"])
def test_a_threshold_that_no_image_could_break_is_refused(
    section: str, key: str, value: str, other: str, more: str, tmp_path: Path
) -> None:
    before = "" if section == "thresholds" else "[thresholds]\nssim_least = 0\n"
    says = rf"\[{section}\]: {key} is {float(value):g}, by which no .* leave it out, or give {more}"
    with pytest.raises(BadConfig, match=says):
        read_suite(written(tmp_path, f"{before}[{section}]\n{key} = {value}\n{PICTURE}"))
    assert read_suite(written(tmp_path, f"{before}[{section}]\n{key} = {other}\n{PICTURE}"))


def test_bits_are_whole(tmp_path: Path) -> None:
    with pytest.raises(BadConfig, match=r"hash_distance_most is 2\.5; a whole number, at least 0"):
        read_suite(written(tmp_path, "[thresholds]\nhash_distance_most = 2.5\n" + PICTURE))
