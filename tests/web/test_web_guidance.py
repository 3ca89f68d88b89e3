"""Guidance and sinusoids of the page, run in Node.js, are the runtime's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from msd.bundle import open_bundle
from msd.export.app.manifest import NAME
from msd.runtime.guidance import Guidance
from msd.runtime.timestep import embed_timestep
from tests.app_bundles import write_app
from tests.web.arrays import OPENING, floats, sent
from tests.web.node import evaluate

TOLERANCE = 2e-7
"""Of cosines and sines: twice the distance of float32 numbers next to 1."""

MODELS: dict[str, dict[str, Any]] = {
    "two passes": {},
    "batch 2": {"batch": 2},
    "embedding": {"embeddings": {"guidance_embedding": 7}},
}
GUIDANCE = (
    OPENING
    + """
import { guidanceOf } from './msd/guidance.js';
import { parseAppManifest } from './msd/manifest.js';
const [text, scales, outputs] = input;
console.log(JSON.stringify(scales.map((scale) => {
  const guidance = guidanceOf(parseAppManifest(text), scale ?? undefined);
  const rows = guidance.prompts('a cat', 'a dog');
  const told = Object.entries(guidance.inputs()).map(([name, values]) => [name, sent(values)]);
  const combined = sent(guidance.combine(outputs.slice(0, guidance.rows).map(floats)));
  return { mode: guidance.mode, scale: guidance.scale, rows, told, combined };
})));
"""
)


@pytest.mark.parametrize("model", MODELS)
def test_an_image_is_guided_as_the_runtime_s(model: str, tmp_path: Path) -> None:
    folder = write_app(tmp_path / "app", **MODELS[model])
    unet = open_bundle(folder).component("unet")
    outputs = np.random.default_rng(0).standard_normal((2, 1, 3, 5, 4), np.float32)
    scales = [-1.5, 0, 1, 1.0001, 2, 7.5, 1000]
    text = (folder / NAME).read_text("utf-8")
    found = evaluate(GUIDANCE, text, [*scales, None], [sent(row) for row in outputs])
    assert found[-1] == found[scales.index(7.5)]
    for scale, page in zip(scales, found, strict=False):
        ours = Guidance.of(unet, scale)
        assert (page["mode"], page["scale"]) == (ours.mode, scale)
        assert page["rows"] == ours.prompts("a cat", "a dog")
        assert floats(page["combined"]).tobytes() == ours.combine(outputs[: ours.rows]).tobytes()
        told = {name: floats(values) for name, values in page["told"]}
        assert list(told) == (["guidance_embedding"] if model == "embedding" else [])
        for values in told.values():
            np.testing.assert_allclose(values, ours.embedding(7), rtol=0, atol=TOLERANCE)


def test_one_row_is_taken_as_it_is(tmp_path: Path) -> None:
    """At a scale of 1 a model for two rows has one."""
    folder = write_app(tmp_path / "app", batch=2)
    (found,) = evaluate(GUIDANCE, (folder / NAME).read_text("utf-8"), [1], [sent(np.float32([3, 4]))])
    assert (found["mode"], found["rows"], floats(found["combined"]).tolist()) == ("none", ["a cat"], [3, 4])


EMBED = (
    OPENING
    + """
import { embed, timestepInput } from './msd/timestep.js';
const [sinusoids, times, manifests] = input;
const embedded = sinusoids.map((one) => times.map((t) => sent(embed(one, t))));
const inputs = manifests.map((text) => timestepInput(JSON.parse(text), { timestep: times[2] }));
console.log(JSON.stringify({ embedded, inputs: inputs.map((one) => Object.entries(one).map(([k, v]) => [k, sent(v)])) }));
"""
)


def test_sinusoids_are_the_runtime_s(plain_app: Path, tmp_path: Path) -> None:
    """Of even and odd widths, cosines or sines first; far beyond the timesteps that there are."""
    from msd.export.app.manifest import Sinusoids, load_manifest
    from msd.files import schema
    from msd.runtime.timestep import frequencies

    times = [0.0, 1.0, 37.25, 500.0, 951.3, 999.0, 6500.0, 12250.0]
    cases = [
        (width, first, shift) for width in (8, 21, 320) for first in (True, False) for shift in (0.0, 1.0)
    ]
    sinusoids = [
        schema.to_json(Sinusoids("t", width, first, tuple(map(float, frequencies(width, shift)))))
        for width, first, shift in cases
    ]
    folder = write_app(tmp_path / "app", embeddings={"timestep_embedding": 11})
    texts = [(path / NAME).read_text("utf-8") for path in (plain_app, folder)]
    found = evaluate(EMBED, sinusoids, times, texts)
    for case, embedded in zip(cases, found["embedded"], strict=True):
        for t, values in zip(times, embedded, strict=True):
            wanted = embed_timestep(t, *case)
            assert floats(values).shape == wanted.shape
            np.testing.assert_allclose(floats(values), wanted, rtol=0, atol=TOLERANCE)
    ((name, number),), ((embedding, wide),) = found["inputs"]
    assert (name, floats(number).tolist()) == ("timestep", [37.25])
    told = load_manifest(folder / NAME).timestep
    assert told is not None
    assert embedding == told.input == "timestep_embedding"
    np.testing.assert_allclose(floats(wide), embed_timestep(37.25, 11, False, 1.0), rtol=0, atol=TOLERANCE)
