"""One model of every kind of call: Python, Kotlin and JavaScript give its networks the same inputs.

tests/golden/wiring.json has what each run of a network is given and computes, and the image that follows. It
comes from msd.run.runtime, whose steps and joins other tests compare with diffusers and Keras.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from msd.bundle import Bundle
from msd.export.app.manifest import NAME, describe, write_manifest
from msd.export.app.tokenizer_files import MERGES, VOCABULARY
from msd.models.families import Family
from msd.run.runtime.pipeline import Pipeline
from msd.run.runtime.preview import Preview
from tests.jvm import Jvm
from tests.web.arrays import OPENING, floats, levels, sent
from tests.web.node import evaluate
from tests.wired.bundle import HEIGHT, WIDTH, Recorder, open_wired, photo, wired_family, write_bundle

HERE = Path(__file__).parent
GOLDEN = HERE / "golden" / "wiring.json"
TOLERANCE = 1e-5
"""Of each number beside the largest of its array: cosines and exponentials differ in their last bits."""
PROMPT = "three red circles and then two blue squares " * 9
REQUEST = {"prompt": PROMPT, "negative": "a blue square!", "seed": 11, "steps": 4, "guidance": 5.0}
STRENGTH = 0.8


@pytest.fixture(scope="module")
def family() -> Iterator[Family]:
    with wired_family() as family:
        yield family


@pytest.fixture(scope="module")
def bundle(family: Family, tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    opened: Bundle = open_wired(write_bundle(family, tmp_path_factory.mktemp("wired") / "bundle"))
    return opened


@pytest.fixture(scope="module")
def app(bundle: Bundle) -> Path:
    """The bundle's folder with its app's files beside it."""
    write_manifest(describe(bundle, steps=(4,)), bundle, bundle.folder)
    return bundle.folder


@pytest.fixture(scope="module")
def recorded() -> dict[str, Any]:
    read: dict[str, Any] = json.loads(GOLDEN.read_text("utf-8"))
    return read


def generated(bundle: Bundle, patch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Return what msd.run.runtime gives the networks, and the image, as JSON."""
    recorder, previews = Recorder(), list[str]()
    recorder.patch(patch)

    def show(preview: Preview) -> None:
        if preview.number == 2:
            previews.append(sent(preview.pixels()))

    with Pipeline(bundle) as pipeline:
        made = pipeline.generate(
            PROMPT,
            negative_prompt=REQUEST["negative"],
            seed=REQUEST["seed"],
            steps=REQUEST["steps"],
            guidance=REQUEST["guidance"],
            image=photo(),
            strength=STRENGTH,
            on_preview=show,
        )
    runs = [
        {"role": role, "inputs": mapped(encoded, given), "outputs": mapped(sent, made)}
        for role, given, made in recorder.runs
    ]
    return {"runs": runs, "latents": sent(made.latents), "pixels": sent(made.pixels), "previews": previews}


def mapped(function: Callable[[Any], Any], values: dict[str, Any]) -> dict[str, Any]:
    return {name: function(value) for name, value in values.items()}


def decoded(value: Any) -> np.ndarray:
    return np.int32(value) if isinstance(value, list) else floats(value)


def encoded(value: np.ndarray) -> Any:
    return value.ravel().tolist() if value.dtype == np.int32 else sent(value)


@pytest.mark.usefixtures("golden")
def test_python(bundle: Bundle, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    found = generated(bundle, monkeypatch)
    if request.config.getoption("--update-golden"):
        GOLDEN.write_text(json.dumps(found, indent=1) + "\n", "utf-8")
    wanted = json.loads(GOLDEN.read_text("utf-8"))
    assert [run["role"] for run in found["runs"]] == [run["role"] for run in wanted["runs"]]
    for ours, theirs in zip(found["runs"], wanted["runs"], strict=True):
        require_given(ours["role"], ours["inputs"], theirs["inputs"])
    close("latents", floats(found["latents"]), floats(wanted["latents"]))
    assert (found["pixels"], found["previews"]) == (wanted["pixels"], wanted["previews"])


def test_the_recording_has_every_kind_of_call(bundle: Bundle, recorded: dict[str, Any]) -> None:
    kinds = {source.kind for call in bundle.wiring.calls for source in call.sources}
    assert kinds == {"tokens", "latent", "numbers", "sinusoids", "pixels", "value"}
    results = {output.kind for call in bundle.wiring.calls for output in call.outputs}
    assert results == {"hidden states", "vector", "tensor", "moments", "prediction", "image"}
    roles = [run["role"] for run in recorded["runs"]]
    assert [roles.count(role) for role in ("words", "more_words", "eye")] == [4, 4, 2]
    assert [roles.count(role) for role in ("steering", "denoising", "sketch", "painting")] == [6, 6, 1, 1]


class Player:
    """Answers for networks with what was recorded, after comparing what they are given."""

    def __init__(self, recorded: dict[str, Any]) -> None:
        self._left: dict[str, list[dict[str, Any]]] = {}
        for run in recorded["runs"]:
            self._left.setdefault(run["role"], []).append(run)

    def __call__(self, role: str, given: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        run = self._left[role].pop(0)
        require_given(role, {name: encoded(value) for name, value in given.items()}, run["inputs"])
        return {name: floats(value) for name, value in run["outputs"].items()}

    def require_done(self) -> None:
        assert not any(self._left.values())


def require_given(role: str, found: dict[str, Any], wanted: dict[str, Any]) -> None:
    assert set(found) == set(wanted), role
    for name, value in wanted.items():
        if isinstance(value, list):
            assert found[name] == value, (role, name)
        else:
            close(f"{name} of {role}", floats(found[name]), floats(value))


def close(what: str, found: np.ndarray, wanted: np.ndarray) -> None:
    np.testing.assert_allclose(
        found, wanted, rtol=0, atol=TOLERANCE * max(1, np.abs(wanted).max()), err_msg=what
    )


def argb_of(pixels: np.ndarray) -> list[int]:
    """Return the colours of pixels (1, height, width, 3) in [-1, 1], as Android has them."""
    levels = np.rint((pixels[0].astype(np.float64) + 1) * 127.5).astype(np.int64)
    argb = (levels[..., 0] << 16 | levels[..., 1] << 8 | levels[..., 2]) - (1 << 24)
    return [int(each) for each in argb.ravel()]


def test_kotlin(app: Path, recorded: dict[str, Any], kotlin: Jvm) -> None:
    player, mask = Player(recorded), photo().mask
    assert mask is not None
    image = {
        "argb": argb_of(photo().pixels),
        "strength": STRENGTH,
        "mask": sent(mask.astype(np.uint8)),
    }
    found = kotlin.ask("generate served", player, folder=str(app), image=image, previews=2, **REQUEST)
    player.require_done()
    close("latents", floats(found["latents"]), floats(recorded["latents"]))
    argb = np.array(found["argb"], np.int64)
    shown = np.stack([argb >> 16 & 255, argb >> 8 & 255, argb & 255], 1).astype(np.uint8)
    assert np.abs(shown.ravel().astype(int) - levels_of(recorded["pixels"])).max() <= 1


REPLAY = (
    OPENING
    + """
import { parseAppManifest } from './msd/manifest.js';
import { Pipeline } from './msd/pipeline.js';
import { Tokenizer } from './msd/tokenizer.js';
const [text, tokens, merges, runs, request, photo] = input;
const app = parseAppManifest(text);
const given = [];
const left = new Map();
for (const run of runs) left.set(run.role, [...(left.get(run.role) ?? []), run]);
const told = (value) => (value instanceof Int32Array ? [...value] : sent(value));
const mapped = (record, map) =>
  Object.fromEntries(Object.entries(record).map(([key, one]) => [key, map(one)]));
const open = async (role) => ({
  facts: {},
  async run(inputs) {
    given.push({ role, inputs: mapped(inputs, told) });
    return mapped(left.get(role).shift().outputs, floats);
  },
  close() {},
});
const tokenizers = mapped(app.tokenizers, (facts) => new Tokenizer(tokens, merges, facts));
const image = photo ? { ...photo, pixels: floats(photo.pixels), mask: floats(photo.mask) } : undefined;
const controls = request.controls?.map((each) => ({ ...each, pixels: floats(each.pixels) }));
const made = await new Pipeline(app, tokenizers, open).generate({ ...request, image, controls });
console.log(JSON.stringify({ given, latents: sent(made.latents), rgba: sent(made.rgba) }));
"""
)


def test_javascript(app: Path, recorded: dict[str, Any]) -> None:
    texts = [(app / name).read_text("utf-8") for name in (NAME, VOCABULARY, MERGES)]
    image = photo()
    assert image.mask is not None
    request = {**REQUEST, "negativePrompt": REQUEST["negative"], "previewEvery": 2, "strength": STRENGTH}
    sent_photo = {"pixels": sent(image.pixels), "mask": sent(image.mask), "width": WIDTH, "height": HEIGHT}
    found = evaluate(REPLAY, *texts, recorded["runs"], request, sent_photo)
    player = Player(recorded)
    for run in found["given"]:
        player(run["role"], mapped(decoded, run["inputs"]))
    player.require_done()
    close("latents", floats(found["latents"]), floats(recorded["latents"]))
    rgba = levels_of(found["rgba"]).reshape(-1, 4)
    assert np.abs(rgba[:, :3].ravel() - levels_of(recorded["pixels"])).max() <= 1


def levels_of(text: str) -> np.ndarray:
    return levels(text).astype(int)
