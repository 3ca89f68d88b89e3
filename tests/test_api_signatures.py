"""Property tests over the public signatures: no wrong keyword, name or value does anything."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import graph_rewrites
import msd
from msd.api import ConversionOptions
from msd.conversion.choices import conversion_settings
from msd.conversion.options import options
from msd.errors import BadBundle, BadConfig
from msd.run.runtime.scheduler import SCHEDULERS

OPTIONS = sorted(options())
FUNCTIONS: dict[str, Callable[..., Any]] = {
    name: getattr(msd, name) for name in ("convert", "generate", "judge", "open_bundle", "predict")
}
KEYWORDS = {
    name: [
        *(p.name for p in inspect.signature(function).parameters.values() if p.kind is not p.VAR_KEYWORD),
        *(OPTIONS if name == "convert" else ()),
    ]
    for name, function in FUNCTIONS.items()
}
DOCS = Path(__file__).parent.parent / "docs"
SHARED = settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])


def test_these_are_all_functions() -> None:
    functions = {name for name in msd.__all__ if inspect.isfunction(getattr(msd, name))}
    assert functions == set(FUNCTIONS)
    assert sorted(each.name for each in fields(ConversionOptions)) == OPTIONS
    assert issubclass(BadConfig, msd.MsdError)


@st.composite
def misspelt(draw: st.DrawFn) -> tuple[str, str, str]:
    """A function, one of its keywords, and that keyword with a letter doubled, dropped or exchanged."""
    function = draw(st.sampled_from(sorted(KEYWORDS)))
    name = draw(st.sampled_from([each for each in KEYWORDS[function] if len(each) > 3]))
    at = draw(st.integers(0, len(name) - 2))
    kind = draw(st.sampled_from(["doubled", "dropped", "exchanged"]))
    rest = {"doubled": name[at] + name[at:], "dropped": name[at + 1 :]}
    wrong = name[:at] + rest.get(kind, name[at + 1] + name[at] + name[at + 2 :])
    assume(wrong not in KEYWORDS[function])
    return function, name, wrong


@SHARED
@given(misspelt())
def test_a_misspelt_keyword_names_the_right_one(case: tuple[str, str, str]) -> None:
    function, name, wrong = case
    message = rf"{function}\(\) has no argument '{wrong}'; did you mean '(?P<near>\w+)'\?"
    with pytest.raises(TypeError, match=message) as caught:
        FUNCTIONS[function](**{wrong: 1})
    near = str(caught.value).rpartition("mean ")[2].strip("'?")
    assert near in KEYWORDS[function]
    assert near == name or abs(len(near) - len(name)) <= 1


@SHARED
@given(st.sampled_from(sorted(KEYWORDS)), st.from_regex(r"\A[a-z_]{1,12}\Z"))
def test_any_other_keyword_does_nothing(function: str, name: str) -> None:
    assume(name not in KEYWORDS[function])
    with pytest.raises(TypeError, match=rf"{function}\(\) has no argument"):
        FUNCTIONS[function](**{name: None})


WRONG: dict[str, list[Any]] = {
    "recipe": ["gpu-w9", 8, ""],
    "components": ["unet", ["unett"], [1], None],
    "also": ["vae_encoder", ["vae"], None],
    "batch": [0, 3, 1.0, "1", True, None],
    "height": [0, 7, 100_000, 64.0, "64", True],
    "width": [0, 7, 100_000, 64.0, "64", True],
    "sizes": [[(64, 64)], "64x64", ["64x64"], None],
    "device": ["adreno", 740, "", "x" * 9999],
    "gelu_clip": [0.5, 1001, float("nan"), "10", None, True],
    "spelling": ["standrad", None],
    "attention": ["composit", "", None],
    "interface": ["mlperf", "", 3],
    "without": ["clip_gelu", ["clip_gel"], None],
    "prediction_type": ["velocity", "v-prediction", "", 1],
    "networks": ["keras", "", None],
    "prune": ["", "15", "a lot", 15, "150%"],
    "calibration": [16, ["a.txt"], "", "a\0"],
    "refit": ["no", 0, None],
    "jobs": [0, 257, 1.0, True, "2"],
    "force": ["yes", 1, None],
    "lora": [
        "a.safetensors",
        ["a.safetensors"],
        [("a", "1")],
        [("a", 1.0, 2)],
        [("a", True)],
        [("x" * 9999, 1.0)],
        None,
    ],
    "embeddings": ["a.pt", [("a.pt", 1)], ["a.pt"], None],
    "controlnets": ["a.pth", [("a.pth", 1)], ["a.pth"], None],
    "fuse_control": ["yes", 1, None],
    "vae": ["a.safetensors", [1], None, ["\ud800"]],
    "preview_vae": [1, ["a"]],
    "unet": [1, ["a"]],
    "upscaler": [4, ["x4.pth"]],
    "split": [1, "yes", None],
    "vae_tile": [0, 7, 100_000, 512.0, "512", True],
    "clip_skip": [-1, 257, 1.0, True, None],
    "prompt_chunks": [0, 17, 1.5, None],
    "scheduler": ["dimm", 4, "ddim:etta=1"],
    "steps": [0, 10_001, 4.0, True, "4"],
    "guidance": [-1, 1001, float("nan"), float("inf"), "7.5", True],
}


def test_every_option_has_wrong_values() -> None:
    assert set(WRONG) == set(OPTIONS)


@pytest.mark.parametrize(("option", "value"), [(o, v) for o, values in WRONG.items() for v in values])
def test_a_wrong_value_of_a_conversion_is_refused(option: str, value: Any, tmp_path: Path) -> None:
    with pytest.raises(msd.MsdError):
        msd.convert(None, tmp_path / "out", **{option: value})
    assert not [*tmp_path.iterdir()]


def test_a_size_given_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadConfig, match="sizes already name the height and the width"):
        msd.convert(None, tmp_path / "out", sizes=[msd.ImageSize(64, 64)], height=64)


@pytest.mark.parametrize(
    ("option", "value", "why"),
    [
        ("backend", "cuda", "no backend is called 'cuda'; there are cpu, gpu, tflite-runtime, webgpu"),
        ("backend", "android", "no backend is called 'android'; there are cpu, gpu, tflite-runtime, webgpu"),
        ("precision", "fp8", "the precision is 'fp8'; it should be fp32 or fp16"),
        ("gpu_api", "cuda", "the GPU API is 'cuda'; it should be dawn or wgpu"),
        ("scheduler", "dimm", f"there are {', '.join(SCHEDULERS)}"),
        ("prompt_syntax", "weight", "known are plain, weights"),
        ("fit", "squeeze", "fit is 'squeeze'; it should be crop or stretch"),
        ("steps", 2.0, "steps is 2.0; a whole number or None was expected"),
        ("steps", 0, "0 steps are impossible"),
        ("seed", "7", "seed is '7'; a whole number was expected"),
        ("seed", True, "seed is True; a whole number was expected"),
        ("seed", -1, "a seed should be a whole number from 0"),
        ("guidance", float("nan"), "guidance nan should be a number"),
        ("strength", 0.5, "give the image too"),
        ("mask", "mask.png", "give the image too"),
        ("paste", False, "without a mask no pixels are pasted back"),
        ("size", msd.ImageSize(1, 1), "has no size 1x1"),
    ],
)
def test_a_wrong_value_of_an_image_is_refused(
    option: str, value: Any, why: str, bundle_folder: Path, tmp_path: Path
) -> None:
    given = {option: value}
    if option == "fit":
        given["image"] = tmp_path / "none.png"
    with pytest.raises(BadConfig, match=re.escape(why)):
        msd.generate(bundle_folder, "a dog", **given)


ARGUMENTS = [
    (name, p.name, str(p.annotation))
    for name, function in FUNCTIONS.items()
    for p in inspect.signature(function).parameters.values()
    if p.kind is not p.VAR_KEYWORD
]
VALID: dict[str, dict[str, Any]] = {
    "convert": {"source": None, "output": "out"},
    "generate": {"bundle": "demo", "prompt": "a dog"},
    "judge": {"file": "unet.tflite"},
    "open_bundle": {"folder": "demo"},
    "predict": {"file": "unet.tflite"},
}


@pytest.mark.parametrize(("function", "name", "annotation"), ARGUMENTS)
def test_a_value_of_another_type_is_a_sentence(function: str, name: str, annotation: str) -> None:
    """Before anything else happens: none of these files is there."""
    wrong = [object(), b"x", [1], *([] if "None" in annotation else [None])]
    wrong += [True] * ("bool" not in annotation) + ["x" * 9999, "a\0", ""] * ("Path" in annotation)
    for value in wrong:
        with pytest.raises(BadConfig, match=rf"\A{name} is .{{1,400}}; .+ was expected\Z"):
            FUNCTIONS[function](**{**VALID[function], name: value})


def test_numbers_of_numpy_are_numbers(bundle_folder: Path, tmp_path: Path) -> None:
    plain, *others = (
        msd.generate(bundle_folder, "a dog", seed=seed, steps=steps, guidance=guidance)
        for seed, steps, guidance in (
            (3, 2, 2.5),
            (np.int64(3), np.uint8(2), np.float32(2.5)),
            (np.uint32(3), np.int16(2), np.float64(2.5)),
        )
    )
    for number, other in enumerate(others):
        assert np.array_equal(plain.pixels, other.pixels)
        assert other.latents.dtype == np.float32
        assert json.dumps(other.metadata) == json.dumps(plain.metadata)
        for suffix in ("png", "jpg", "webp"):
            other.save(tmp_path / f"{number}.{suffix}")


def test_numbers_of_numpy_are_numbers_of_a_conversion() -> None:
    rules = graph_rewrites.load()
    plain, other = (
        conversion_settings(rules, **given)
        for given in (
            {"steps": 4, "guidance": 2.5, "sizes": [msd.ImageSize(64, 96)], "lora": [("a", 0.5)]},
            {
                "steps": np.int64(4),
                "guidance": np.float32(2.5),
                "sizes": [msd.ImageSize(np.int64(64), np.uint16(96))],  # type: ignore[arg-type]
                "lora": [("a", np.float64(0.5))],
            },
        )
    )
    numbers = [
        (s.steps, s.guidance, s.sizes[0].width, s.sizes[0].height, s.lora[0][1]) for s in (plain, other)
    ]
    assert numbers[0] == numbers[1]
    assert [*map(type, numbers[0])] == [*map(type, numbers[1])] == [int, float, int, int, float]


def test_a_value_that_reads_like_a_right_one_has_its_type_named() -> None:
    for call in (msd.convert, msd.generate):
        keyword = {"split": np.bool_(True)} if call is msd.convert else {"tiles": np.bool_(True)}
        with pytest.raises(BadConfig, match=r"is (np\.)?True_? ?\(numpy\.bool_?\); .*True or False"):
            call("somewhere", "elsewhere", **keyword)


@pytest.mark.parametrize("value", [0, -1.0, float("nan")])
def test_a_timeout_is_above_0(value: float, bundle_folder: Path) -> None:
    with pytest.raises(BadConfig, match=r"timeout is .*; seconds above 0 were expected"):
        msd.judge(bundle_folder / "unet.tflite", timeout=value)


def test_predictions_are_of_a_delegate(bundle_folder: Path) -> None:
    with pytest.raises(BadConfig, match="delegates is empty; the name of a delegate was expected"):
        msd.predict(bundle_folder / "unet.tflite", delegates=[])


@pytest.mark.parametrize("given", [(0, 8), (8, -8), (8.0, 8), ("8", 8), (8, None), (True, True)])
def test_a_size_is_of_whole_pixels(given: tuple[Any, Any]) -> None:
    with pytest.raises(BadConfig, match=r"a size is .*x.*; whole numbers of pixels were expected"):
        msd.ImageSize(*given)


def test_files_and_components_have_names(bundle_folder: Path) -> None:
    bundle = msd.open_bundle(bundle_folder)
    for name in (None, 3, ["unet"]):
        with pytest.raises(BadBundle, match=r"has no component .*; its name was expected"):
            bundle.component(name)  # type: ignore[arg-type]
    image = msd.generate(bundle, "a dog", steps=1)
    for path in (None, 3, "", "a\0.png", "x" * 9999 + ".png"):
        with pytest.raises(BadConfig, match=r"\Apath is .*; the path of a file was expected"):
            image.save(path)  # type: ignore[arg-type]


def test_paths_and_texts_name_configurations(bundle_folder: Path, tmp_path: Path) -> None:
    recipe = tmp_path / "x.toml"
    with pytest.raises(BadConfig, match=r"x\.toml is not a recipe"):
        msd.convert(None, tmp_path / "out", recipe=recipe)
    with pytest.raises(BadConfig, match=r"x\.toml is not a device description"):
        msd.predict(bundle_folder / "unet.tflite", device=recipe)


def test_the_backends_are_those_of_the_page(bundle_folder: Path) -> None:
    with pytest.raises(BadConfig, match="there are") as caught:
        msd.generate(bundle_folder, "a dog", backend="cuda")
    listed = str(caught.value).rpartition("there are ")[2].split(", ")
    page = (DOCS / "api.md").read_text("utf-8")
    sentence = page.partition("`backend` is ")[2].partition(";")[0]
    assert [name for name in listed if f'`"{name}"`' in sentence] == listed
