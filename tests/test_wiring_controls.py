"""A model with two ControlNets: Python, Kotlin and JavaScript run them in the same steps, on the same inputs.

tests/golden/wiring-controls.json has what each run of a network is given and computes, in guess mode, where
scales differ by output and by row. It comes from msd.run.runtime, which tests/test_control_parity.py compares
with diffusers.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from msd.bundle import Bundle, load_manifest
from msd.errors import BadBundle
from msd.export.app.manifest import NAME, describe, write_manifest
from msd.export.app.tokenizer_files import MERGES, VOCABULARY
from msd.models.families import Family
from msd.run.runtime.control import Control
from msd.run.runtime.pipeline import Pipeline
from tests.jvm import Jvm
from tests.test_wiring import REPLAY, Player, argb_of, close, decoded, encoded, mapped, require_given
from tests.web.arrays import OPENING, floats, sent
from tests.web.node import evaluate
from tests.wired.bundle import (
    CONTROLLED,
    CONTROLS,
    HEIGHT,
    PIXELS,
    WIDTH,
    Recorder,
    open_wired,
    photo,
    wired_family,
    write_bundle,
)

HERE = Path(__file__).parent
GOLDEN = HERE / "golden" / "wiring-controls.json"
REQUEST = {"prompt": "a red circle", "negative": "blurry", "seed": 2, "steps": 4, "guidance": 5.0}
COUNTS = {"left": {"scale": 0.75, "begin": 0.25}, "right": {"scale": -1.5, "until": 0.5}}
RUNS = {"controlnet_left": 3, "controlnet_right": 2, "denoising": 8}
"""How often each network runs: ControlNets for one row of two, in a part of the steps."""


@pytest.fixture(scope="module")
def family() -> Iterator[Family]:
    with wired_family() as family:
        yield family


@pytest.fixture(scope="module")
def bundle(family: Family, tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    folder = tmp_path_factory.mktemp("controlled") / "bundle"
    opened: Bundle = open_wired(write_bundle(family, folder, CONTROLS))
    write_manifest(describe(opened, steps=(4,)), opened, opened.folder)
    return opened


@pytest.fixture(scope="module")
def recorded() -> dict[str, Any]:
    read: dict[str, Any] = json.loads(GOLDEN.read_text("utf-8"))
    return read


def hint(name: str) -> np.ndarray:
    levels = np.random.default_rng(CONTROLS.index(name)).integers(0, 256, PIXELS, np.uint8)
    return levels / np.float32(127.5) - np.float32(1)


@pytest.mark.usefixtures("golden")
def test_python(bundle: Bundle, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    recorder = Recorder(ports=CONTROLLED)
    recorder.patch(monkeypatch)
    settings: dict[str, Any] = {key: REQUEST[key] for key in ("seed", "steps", "guidance")}
    with Pipeline(bundle) as pipeline:
        made = pipeline.generate(
            str(REQUEST["prompt"]),
            negative_prompt=str(REQUEST["negative"]),
            image=photo(),
            strength=1.0,
            controls=[Control(name, hint(name), **counts) for name, counts in COUNTS.items()],
            guess=True,
            **settings,
        )
    runs = [
        {"role": role, "inputs": mapped(encoded, given), "outputs": mapped(sent, made)}
        for role, given, made in recorder.runs
    ]
    if request.config.getoption("--update-golden"):
        found = {"runs": runs, "latents": sent(made.latents)}
        GOLDEN.write_text(json.dumps(found, indent=1) + "\n", "utf-8")
    wanted = json.loads(GOLDEN.read_text("utf-8"))
    assert [run["role"] for run in runs] == [run["role"] for run in wanted["runs"]]
    for ours, theirs in zip(runs, wanted["runs"], strict=True):
        require_given(ours["role"], ours["inputs"], theirs["inputs"])
    close("latents", made.latents.ravel(), floats(wanted["latents"]))


def test_the_recording_has_every_kind_of_source(bundle: Bundle, recorded: dict[str, Any]) -> None:
    kinds = {source.kind for call in bundle.wiring.calls for source in call.sources}
    assert {"hint", "scales"} < kinds
    assert bundle.wiring.controls == CONTROLS
    roles = [run["role"] for run in recorded["runs"]]
    assert {role: roles.count(role) for role in RUNS} == RUNS
    scales = [run["inputs"]["scale"] for run in recorded["runs"] if run["role"] == "controlnet_left"]
    np.testing.assert_allclose([floats(each) for each in scales], [[0.075, 0.75]] * 3, rtol=1e-6)
    unsteered = [run["inputs"]["control_0"] for run in recorded["runs"] if run["role"] == "denoising"][::2]
    assert not np.any([floats(each) for each in unsteered])


def test_kotlin(bundle: Bundle, recorded: dict[str, Any], kotlin: Jvm) -> None:
    player, mask = Player(recorded), photo().mask
    assert mask is not None
    image = {"argb": argb_of(photo().pixels), "strength": 1.0, "mask": sent(mask.astype(np.uint8))}
    controls = [{"name": name, "argb": argb_of(hint(name)), **counts} for name, counts in COUNTS.items()]
    asked = {**REQUEST, "controls": controls, "guess": True, "image": image}
    found = kotlin.ask("generate served", player, folder=str(bundle.folder), **asked)
    player.require_done()
    close("latents", floats(found["latents"]), floats(recorded["latents"]))


def test_javascript(bundle: Bundle, recorded: dict[str, Any]) -> None:
    texts = [(bundle.folder / name).read_text("utf-8") for name in (NAME, VOCABULARY, MERGES)]
    image = photo()
    assert image.mask is not None
    controls = [{"name": name, "pixels": sent(hint(name)), **counts} for name, counts in COUNTS.items()]
    asked = {
        **REQUEST,
        "negativePrompt": REQUEST["negative"],
        "strength": 1,
        "controls": controls,
        "guess": True,
    }
    picture = {"pixels": sent(image.pixels), "mask": sent(image.mask), "width": WIDTH, "height": HEIGHT}
    found = evaluate(REPLAY, *texts, recorded["runs"], asked, picture)
    player = Player(recorded)
    for run in found["given"]:
        player(run["role"], mapped(decoded, run["inputs"]))
    player.require_done()
    close("latents", floats(found["latents"]), floats(recorded["latents"]))


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "unknown": ({"controls": [{"name": "above"}]}, "has no ControlNet above; it has left, right"),
    "twice": ({"controls": [{"name": "left"}] * 2}, "the control left is given twice"),
    "size": ({"controls": [{"name": "left", "pixels": 5}]}, f"should have {WIDTH} times {HEIGHT} pixels"),
    "scale": ({"controls": [{"name": "left", "scale": 2000}]}, "should be a number up to 1000"),
    "part": ({"controls": [{"name": "left", "begin": 0.5, "until": 0.5}]}, "counts from 0.5 until 0.5"),
    "guess": ({"guess": True}, "guess mode is for pictures that steer: give a control"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_kotlin_refuses(case: str, bundle: Bundle, recorded: dict[str, Any], kotlin: Jvm) -> None:
    asked, sentence = REFUSED[case]
    controls = [
        {"argb": argb_of(hint("left"))[: each.pop("pixels", None)], **each}
        for each in map(dict, asked.get("controls", ()))
    ]
    found = kotlin.ask(
        "generate served",
        Player(recorded),
        folder=str(bundle.folder),
        **REQUEST,
        **{**asked, "controls": controls},
    )
    assert found["error"] == "BadRequest"
    assert sentence in found["message"]


REFUSING = """
import { requireControls } from './msd/control.js';
import { parseAppManifest } from './msd/manifest.js';
const [text, cases] = input;
const app = parseAppManifest(text);
const said = cases.map(({ controls, guess }) => {
  const size = 3 * app.width * app.height;
  const made = controls?.map((each) => ({ ...each, pixels: new Float32Array(each.pixels ?? size) }));
  try {
    requireControls(app, { controls: made, guess });
    return '';
  } catch (error) {
    return `${error.code}: ${error.message}`;
  }
});
console.log(JSON.stringify(said));
"""


def test_javascript_refuses(bundle: Bundle) -> None:
    text = (bundle.folder / NAME).read_text("utf-8")
    said = evaluate(OPENING + REFUSING, text, [asked for asked, _ in REFUSED.values()])
    for found, (_, sentence) in zip(said, REFUSED.values(), strict=True):
        assert sentence in found
        assert found.startswith("bad-request")


@pytest.mark.parametrize(
    ("names", "sentence"),
    [
        (["../left"], "a ControlNet cannot be called '../left'"),
        (["left", "left"], "two ControlNets are called left"),
        (["above"], "a bundle of Wired Diffusion has"),
    ],
)
def test_a_manifest_with_wrong_names_is_refused(
    names: list[str], sentence: str, bundle: Bundle, tmp_path: Path
) -> None:
    manifest = json.loads((bundle.folder / "manifest.json").read_text())
    manifest["configuration"]["controls"] = names
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(BadBundle, match=sentence):
        load_manifest(tmp_path / "manifest.json")
