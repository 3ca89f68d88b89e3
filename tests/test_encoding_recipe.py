"""Recipes: the files that come with msd, and one sentence for each mistake in a file of one's own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from msd.compress.encoding.recipe import DEFAULT, Line, Recipe, find_recipe, read_recipe, shipped
from msd.errors import BadConfig

EVERYTHING = """
description = "mine"
delegate = "litert-gpu"
without = ["clip_gelu"]
trunk = "float16"

[[line]]
store = "int4"
op = ["CONV_2D"]
name = "mid_block.*"
component = "unet"
granularity = "tensor"
algorithm = "gptq"
explicit = true

[prune]
what = ["ever"]
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "mine.toml"
    path.write_text(text)
    return path


def test_a_file_says_all_there_is(tmp_path: Path) -> None:
    line = Line("int4", ("CONV_2D",), ("mid_block.*",), ("unet",), "tensor", "gptq", True)
    wanted = Recipe("mine", (line,), "mine", "litert-gpu", ("clip_gelu",), {"what": ["ever"]}, "float16")
    assert read_recipe(written(tmp_path, EVERYTHING)) == wanted


def test_what_is_not_said_is_as_everywhere(tmp_path: Path) -> None:
    assert read_recipe(written(tmp_path, "")) == Recipe("mine", ())
    found = read_recipe(written(tmp_path, '[[line]]\nstore = "int8"\n'))
    assert found.lines == (Line("int8", (), (), (), "channel", "auto", False),)


def test_names_are_patterns_of_any_of_the_sources() -> None:
    line = Line("int8", name=("up.*.weight", "b?"), component=("unet",))
    assert line.names(["down.1.weight", "up.1.2.weight"], "unet")
    assert line.names(["bx"], "unet")
    assert not line.names(["up.1.weight"], "vae_decoder")
    assert not line.names(["Up.1.weight", "b"], "unet")
    assert not line.names([], "unet")
    assert Line("int8").names([], "unet")


def test_the_digest_is_of_what_a_recipe_does() -> None:
    recipe = find_recipe(DEFAULT)
    assert replace(recipe, name="other", description="other").digest == recipe.digest
    changes = {"lines": (), "delegate": None, "without": ("clip_gelu",), "prune": {}, "trunk": None}
    others = {replace(recipe, **{key: value}).digest for key, value in changes.items()}
    assert len(others | {recipe.digest}) == len(changes) + 1


def test_every_recipe_that_comes_with_msd_can_be_read_and_says_what_it_is() -> None:
    assert {"gpu-w8", "cpu-w8", "float16", "float32"} <= set(shipped())
    for name in shipped():
        recipe = find_recipe(name)
        assert recipe.name == name
        assert recipe.description
        assert (recipe.delegate is None) == name.startswith("cpu")


def test_a_name_that_there_is_not() -> None:
    with pytest.raises(
        BadConfig, match=r"no recipe is called 'gpu-w9'; there are cpu-w8, .*gpu-w8.*\.toml file"
    ):
        find_recipe("gpu-w9")
    with pytest.raises(BadConfig, match=r"missing\.toml is not a recipe: .*No such file"):
        find_recipe("missing.toml")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("lines = []", "mine.toml has no use for lines; known keys are description, use, delegate, without"),
        ("line = [1]", r"line is not a list of tables; write \[\[line\]\] above each"),
        ("line = 1", r"line is 1; \[\[line\]\] entries was expected"),
        ("delegate = 'gpu'", "delegate is 'gpu'; choose from litert-gpu, tflite-gpu"),
        ("without = 1", "without is 1; a string or a list of strings was expected"),
        ("without = ['']", r"without is \[''\]; a string or a list"),
        ("description = 1", "description is 1; a string was expected"),
        ("prune = 1", "prune is 1; a table was expected"),
        ("[[line]]", "line entry 1 lacks store; choose from int4, int8, float16, float32"),
        ("[[line]]\nstore = 8", "line entry 1: store is 8; choose from"),
        ("[[line]]\nstore = ['int8']", r"line entry 1: store is \['int8'\]; choose from"),
        (
            "[[line]]\nstore = 'int8'\n[[line]]\nstore = 'int8'\nnames = 'x'",
            "line entry 2 has no use for names; known keys are store, op, name, component, granularity",
        ),
        ("[[line]]\nstore = 'int8'\nname = [1]", r"line entry 1: name is \[1\]; a string or a list"),
        ("[[line]]\nstore = 'int8'\ncomponent = 'vae'", "component is 'vae'; choose from text_encoder, "),
        (
            "[[line]]\nstore = 'int8'\nop = 'ADD'",
            "ADD does not support int8 weights; CONV_2D and",
        ),
        (
            "[[line]]\nstore = 'int8'\ngranularity = 'row'",
            "granularity is 'row'; choose from channel",
        ),
        (
            "[[line]]\nstore = 'int8'\nalgorithm = 'best'",
            "algorithm is 'best'; choose from auto, gptq, min-max",
        ),
        ("[[line]]\nstore = 'int8'\nexplicit = 1", "explicit is 1; true or false was expected"),
        (
            "[[line]]\nstore = 'float16'\nexplicit = true",
            "explicit has no effect on float16; it is",
        ),
        ("[[line]]\nstore = ", "is not a recipe: Invalid value"),
    ],
)
def test_a_mistake_is_refused(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(BadConfig, match=message):
        read_recipe(written(tmp_path, text))


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(BadConfig, match=r"mine\.toml is not a recipe: 'utf-8' codec"):
        find_recipe(str(tmp_path / "mine.toml"))
