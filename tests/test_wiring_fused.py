"""A model whose denoiser has two ControlNets inside: Python, Kotlin and JavaScript give it the same.

What Python gives is recorded here; tests/test_fused_controls.py compares its images with those of a bundle
whose ControlNets have files of their own.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from msd.bundle import Bundle
from msd.export.app.manifest import NAME, describe, write_manifest
from msd.export.app.tokenizer_files import MERGES, VOCABULARY
from msd.models.families import Family
from msd.run.runtime.control import Control
from msd.run.runtime.pipeline import Pipeline
from tests.jvm import Jvm
from tests.test_wiring import REPLAY, Player, argb_of, close, decoded, encoded, mapped
from tests.test_wiring_controls import COUNTS, REQUEST, hint
from tests.web.arrays import floats, sent
from tests.web.node import evaluate
from tests.wired.bundle import (
    CONTROLS,
    FUSED,
    HEIGHT,
    WIDTH,
    Recorder,
    open_wired,
    photo,
    wired_family,
    write_bundle,
)

STEERED = {"both": CONTROLS, "one": CONTROLS[1:], "none": ()}


@pytest.fixture(scope="module")
def family() -> Iterator[Family]:
    with wired_family() as family:
        yield family


@pytest.fixture(scope="module")
def bundle(family: Family, tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    folder = tmp_path_factory.mktemp("fused") / "bundle"
    opened: Bundle = open_wired(write_bundle(family, folder, CONTROLS, fused=True))
    write_manifest(describe(opened, steps=(4,)), opened, opened.folder)
    return opened


@pytest.fixture(scope="module")
def recorded(bundle: Bundle) -> dict[str, dict[str, Any]]:
    """What each run of a network was given and computed in Python, and the last latents."""
    return {case: record(bundle, names) for case, names in STEERED.items()}


def record(bundle: Bundle, names: tuple[str, ...]) -> dict[str, Any]:
    recorder, settings = Recorder(ports=FUSED), {key: REQUEST[key] for key in ("seed", "steps", "guidance")}
    with pytest.MonkeyPatch.context() as patch:
        recorder.patch(patch)
        with Pipeline(bundle) as pipeline:
            made = pipeline.generate(
                str(REQUEST["prompt"]),
                negative_prompt=str(REQUEST["negative"]),
                image=photo(),
                strength=1.0,
                controls=[Control(name, hint(name), **COUNTS[name]) for name in names],
                guess=bool(names),
                **settings,
            )
    runs = [
        {"role": role, "inputs": mapped(encoded, given), "outputs": mapped(sent, made)}
        for role, given, made in recorder.runs
    ]
    return {"runs": runs, "latents": sent(made.latents)}


def given_to_denoiser(recorded: dict[str, Any], name: str) -> np.ndarray:
    return np.array([floats(run["inputs"][name]) for run in recorded["runs"] if run["role"] == "denoising"])


def test_the_denoiser_runs_in_every_step_and_without_a_picture_gets_zeros(
    bundle: Bundle, recorded: dict[str, Any]
) -> None:
    assert bundle.wiring.controls == CONTROLS
    assert [call.component for call in bundle.wiring.steps_with(())][-1] == "denoising"
    for case, names in STEERED.items():
        for name in CONTROLS:
            hints = given_to_denoiser(recorded[case], f"hint_{name}")
            assert len(hints) == 8
            assert np.any(hints) == (name in names)
    scales = given_to_denoiser(recorded["both"], "scale_left").reshape(4, 2, 2)
    np.testing.assert_allclose(scales[:, 0], 0)
    np.testing.assert_allclose(scales[:, 1], [[0, 0], *[[0.075, 0.75]] * 3], rtol=1e-6)
    scales = given_to_denoiser(recorded["both"], "scale_right").reshape(4, 2, 3)
    np.testing.assert_allclose(scales[0, 1], [-0.15, -0.15 * 10**0.5, -1.5], rtol=1e-6)
    assert not scales[2:].any()


@pytest.mark.parametrize("case", STEERED)
def test_kotlin(case: str, bundle: Bundle, recorded: dict[str, Any], kotlin: Jvm) -> None:
    player, mask = Player(recorded[case]), photo().mask
    assert mask is not None
    image = {"argb": argb_of(photo().pixels), "strength": 1.0, "mask": sent(mask.astype(np.uint8))}
    controls = [{"name": name, "argb": argb_of(hint(name)), **COUNTS[name]} for name in STEERED[case]]
    asked = {**REQUEST, "controls": controls, "guess": bool(controls), "image": image}
    found = kotlin.ask("generate served", player, folder=str(bundle.folder), **asked)
    player.require_done()
    close("latents", floats(found["latents"]), floats(recorded[case]["latents"]))


@pytest.mark.parametrize("case", STEERED)
def test_javascript(case: str, bundle: Bundle, recorded: dict[str, Any]) -> None:
    texts = [(bundle.folder / name).read_text("utf-8") for name in (NAME, VOCABULARY, MERGES)]
    image = photo()
    assert image.mask is not None
    controls = [{"name": name, "pixels": sent(hint(name)), **COUNTS[name]} for name in STEERED[case]]
    asked = {
        **REQUEST,
        "negativePrompt": REQUEST["negative"],
        "strength": 1,
        "controls": controls,
        "guess": bool(controls),
    }
    picture = {"pixels": sent(image.pixels), "mask": sent(image.mask), "width": WIDTH, "height": HEIGHT}
    found = evaluate(REPLAY, *texts, recorded[case]["runs"], asked, picture)
    player = Player(recorded[case])
    for run in found["given"]:
        player(run["role"], mapped(decoded, run["inputs"]))
    player.require_done()
    close("latents", floats(found["latents"]), floats(recorded[case]["latents"]))


FACTS = """
import { controlsOf, rolesOf } from './msd/facts.js';
const [app] = input;
const named = (names) => [...rolesOf(app, { controls: names.map((name) => ({ name })) })];
console.log(JSON.stringify([controlsOf(app), named(['left', 'right']), named([])]));
"""


def test_a_page_offers_the_pictures_of_controlnets_inside_the_denoiser(bundle: Bundle) -> None:
    app = json.loads((bundle.folder / NAME).read_text("utf-8"))
    offered = [{"name": name, "role": "denoising"} for name in CONTROLS]
    assert evaluate(FACTS, app) == [offered, ["denoising"], []]
