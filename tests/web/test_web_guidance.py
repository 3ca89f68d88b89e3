"""Guidance and sinusoids of the page, run in Node.js, are the runtime's."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from msd.bundle import open_bundle
from msd.export.app.manifest import NAME
from msd.files import schema
from msd.models.families.calls import Call, Input, InputSource
from msd.run.runtime.guidance import Guidance
from msd.run.runtime.numbers import Numbers
from msd.run.runtime.timestep import embed_timestep, frequencies
from msd.tensor_spec import TensorSpec
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
  const combined = sent(guidance.combine(outputs.slice(0, guidance.rows).map(floats)));
  return { mode: guidance.mode, scale: guidance.scale, rows, number: guidance.number, combined };
})));
"""
)


@pytest.mark.parametrize("model", MODELS)
def test_an_image_is_guided_as_the_runtime_s(model: str, tmp_path: Path) -> None:
    folder = write_app(tmp_path / "app", **MODELS[model])
    bundle = open_bundle(folder)
    outputs = np.random.default_rng(0).standard_normal((2, 1, 3, 5, 4), np.float32)
    scales = [-1.5, 0, 1, 1.0001, 2, 7.5, 1000]
    text = (folder / NAME).read_text("utf-8")
    found = evaluate(GUIDANCE, text, [*scales, None], [sent(row) for row in outputs])
    assert found[-1] == found[scales.index(7.5)]
    for scale, page in zip(scales, found, strict=False):
        ours = Guidance.of(bundle, scale)
        assert (page["mode"], page["scale"]) == (ours.mode, scale)
        assert page["rows"] == ours.prompts("a cat", "a dog")
        assert floats(page["combined"]).tobytes() == ours.combine(outputs[: ours.rows]).tobytes()
        assert page["number"] == ours.number


def test_one_row_is_taken_as_it_is(tmp_path: Path) -> None:
    """At a scale of 1 a model for two rows has one."""
    folder = write_app(tmp_path / "app", batch=2)
    (found,) = evaluate(GUIDANCE, (folder / NAME).read_text("utf-8"), [1], [sent(np.float32([3, 4]))])
    assert (found["mode"], found["rows"], floats(found["combined"]).tolist()) == ("none", ["a cat"], [3, 4])


EMBED = (
    OPENING
    + """
import { sharedInputs } from './msd/inputs.js';
import { embed } from './msd/timestep.js';
const [sinusoids, times, calls, numbers] = input;
const embedded = sinusoids.map(([source, width]) => times.map((t) => sent(embed(source, width, t))));
const inputs = calls.map(([call, file]) => sharedInputs(call, file, numbers));
const said = inputs.map((one) => Object.entries(one).map(([name, values]) => [name, sent(values)]));
console.log(JSON.stringify({ embedded, inputs: said }));
"""
)


def test_sinusoids_are_the_runtime_s() -> None:
    """Of even and odd widths, cosines or sines first; far beyond the timesteps that there are."""
    times = [0.0, 1.0, 37.25, 500.0, 951.3, 999.0, 6500.0, 12250.0]
    cases = [
        (width, first, shift) for width in (8, 21, 320) for first in (True, False) for shift in (0.0, 1.0)
    ]
    sources = [(schema.to_json(source_of(width, first, shift)), width) for width, first, shift in cases]
    given = {"timestep": 37.25, "guidance": 6500.0, "height": 48, "width": 40}
    of_sizes = replace(source_of(8, True, 0.0), of="sizes")
    calls = [
        call_of(Input("t", (InputSource("numbers", "timestep"),)), (1,)),
        call_of(Input("t", (source_of(11, False, 1.0),)), (1, 11)),
        call_of(Input("t", (of_sizes,)), (1, 48)),
        call_of(Input("t", (InputSource("numbers", "sizes"),)), (1, 6)),
    ]
    found = evaluate(EMBED, sources, times, calls, given)
    for case, embedded in zip(cases, found["embedded"], strict=True):
        for t, values in zip(times, embedded, strict=True):
            wanted = embed_timestep(t, *case)
            assert floats(values).shape == wanted.shape
            np.testing.assert_allclose(floats(values), wanted, rtol=0, atol=TOLERANCE)
    number, wide, sizes, plain = (floats(values) for ((_, values),) in found["inputs"])
    assert (number.tolist(), plain.tolist()) == ([37.25], [48, 40, 0, 0, 48, 40])
    np.testing.assert_allclose(wide, embed_timestep(37.25, 11, False, 1.0), rtol=0, atol=TOLERANCE)
    ours = Numbers(37.25, 6500.0, 48, 40).input(of_sizes, 48)
    np.testing.assert_allclose(sizes, ours, rtol=0, atol=TOLERANCE)
    np.testing.assert_array_equal(ours[8:16], embed_timestep(40, 8, True, 0.0))


def source_of(width: int, cosine_first: bool, shift: float) -> InputSource:
    rates = tuple(map(float, frequencies(width, shift)))
    return InputSource("sinusoids", "timestep", False, cosine_first, shift, rates)


def call_of(given: Input, shape: tuple[int, ...]) -> tuple[Any, Any]:
    """Return a call of one input, and its file, as JSON."""
    call, port = Call("unet", "step", (given,), ()), TensorSpec(given.name, shape, "float32")
    return schema.to_json(call), {"inputs": [schema.to_json(port)]}
