"""The page's schedules, run in Node.js, make the latents that msd.run.runtime's tables make, to the bit."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from msd.bundle import open_bundle
from msd.errors import BadConfig
from msd.export.app.manifest import NAME, Schedule, dump_manifest, load_manifest
from msd.export.app.schedules import STRENGTHS
from msd.files import schema
from msd.run.runtime.noise import noise
from msd.run.runtime.scheduler import SCHEDULERS, bundle_scheduler
from msd.run.runtime.step import Step, StepTable
from tests.app_bundles import STEPS, write_app
from tests.schedulers import steps_of_any_numbers
from tests.web.arrays import OPENING, floats, sent
from tests.web.node import evaluate

SHAPE = (1, 5, 3, 4)
PREDICTIONS = ["epsilon", "sample", "v_prediction"]
VARIANTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "trailing": {"timestep_spacing": "trailing"},
    "karras": {"use_karras_sigmas": True},
    "order 3": {"solver_order": 3},
}
TRAJECTORY = (
    OPENING
    + """
import { parseAppManifest } from './msd/manifest.js';
import { noise } from './msd/noise.js';
import { applyStep, noised, scheduleOf, takesNoise } from './msd/schedule.js';
const [text, latents, image, cases] = input;
const manifest = parseAppManifest(text);
const results = cases.map(([steps, strength, outputs]) => {
  const schedule = scheduleOf(manifest, strength === null ? { steps } : { steps, strength });
  const [all, added, size] = [floats(outputs), floats(latents), floats(latents).length];
  const drawn = () => added.map((n) => n * Math.fround(schedule.start));
  let x = strength === null ? drawn() : noised(schedule, 0, floats(image), added);
  let memory = null;
  const noises = [];
  schedule.steps.forEach((step, i) => {
    const more = noise(7, size, i + 1);
    const output = all.subarray(i * size, (i + 1) * size);
    ({ next: x, memory } = applyStep(step, x, output, memory, takesNoise(step) ? more : null));
    noises.push(sent(noised(schedule, i + 1, floats(image), added)));
  });
  return { latents: sent(x), clean: sent(memory.clean), noises };
});
console.log(JSON.stringify(results));
"""
)


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


def require_same(text: str, tables: dict[tuple[int, float | None], StepTable]) -> None:
    """Require that a manifest's schedules make what the tables make, by number of steps and strength."""
    latents, image = normal(*SHAPE, seed=1), normal(*SHAPE, seed=2)
    outputs = {key: normal(len(table.steps), *SHAPE, seed=3) for key, table in tables.items()}
    asked = [[*key, sent(outputs[key])] for key in tables]
    found = evaluate(TRAJECTORY, text, sent(latents), sent(image), asked)
    for (key, table), page in zip(tables.items(), found, strict=True):
        x = table.noised(0, image, latents) if key[1] else latents * np.float32(table.start)
        memory = None
        for i, step in enumerate(table.steps, 1):
            added = noise(7, SHAPE, i) if step.takes_noise else None
            x, memory = step.apply(x, outputs[key][i - 1], memory, added)
            assert floats(page["noises"][i - 1]).tobytes() == table.noised(i, image, latents).tobytes(), key
        assert floats(page["latents"]).tobytes() == x.tobytes(), key
        assert memory is not None
        assert floats(page["clean"]).tobytes() == memory.clean.tobytes(), key
        assert x.std() > 0


@pytest.fixture(scope="module")
def proved() -> set[str]:
    """Manifests whose tables were tried with what they say: not every scheduler heeds every setting."""
    return set()


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("prediction", PREDICTIONS)
@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_every_table_makes_the_runtime_s_latents(
    scheduler: str, prediction: str, variant: str, tmp_path: Path, proved: set[str]
) -> None:
    """For each number of steps, from noise and from an image at each strength that leaves steps."""
    config = {"prediction_type": prediction, **VARIANTS[variant]}
    if scheduler == "pndm":
        config |= {"skip_prk_steps": True, "prediction_type": prediction.replace("sample", "epsilon")}
    folder = write_app(tmp_path / "app", scheduler, scheduler=config, encoder=True)
    chosen = bundle_scheduler(open_bundle(folder), scheduler)
    tables: dict[tuple[int, float | None], StepTable] = {}
    for steps in STEPS:
        for strength in (None, *STRENGTHS):
            try:
                tables[steps, strength] = chosen.table(steps, strength)
            except BadConfig:
                continue
    assert len(tables) > 20
    text = (folder / NAME).read_text("utf-8")
    if (asked := f"{text}\n{tables}") not in proved:
        require_same(text, tables)
    proved.add(asked)


def test_steps_of_any_numbers_are_the_runtime_s(plain_app: Path) -> None:
    table = steps_of_any_numbers()
    said = replace(load_manifest(plain_app / NAME), schedules=(Schedule.of(5, table),))
    require_same(dump_manifest(said), {(5, None): table})


def test_numbers_that_are_none_stay_none(plain_app: Path) -> None:
    """Clipping would hide an output of a network that is no number."""
    script = """
    import { applyStep } from './msd/schedule.js';
    const output = Float32Array.of(NaN, 9, -Infinity);
    const { next, memory } = applyStep(input[0], Float32Array.of(1, 2, 3), output);
    console.log(JSON.stringify([[...next].map(String), [...memory.clean].map(String)]));
    """
    step = Step(1.0, latent=1.0, clean=2.0, clean_output=1.0, clip=0.5)
    assert evaluate(script, schema.to_json(step)) == [["NaN", "3", "NaN"], ["NaN", "0.5", "-0.5"]]


ASK = """
import { parseAppManifest } from './msd/manifest.js';
import { scheduleOf } from './msd/schedule.js';
console.log(JSON.stringify(input[1].map((wishes) => {
  try {
    const { count, steps } = scheduleOf(parseAppManifest(input[0]), wishes);
    return [count, steps.length];
  } catch ({ code, message }) {
    return `${code}: ${message}`;
  }
})));
"""


def asked(folder: Path, *wishes: dict[str, Any]) -> list[Any]:
    found: list[Any] = evaluate(ASK, (folder / NAME).read_text("utf-8"), wishes)
    return found


def test_what_a_request_leaves_open_is_the_manifest_s_or_diffusers(tmp_path: Path) -> None:
    """The first number of steps, 2; strength 0.8 for an image, and 1 with a mask."""
    folder = write_app(tmp_path / "app", encoder=True)
    photo, masked = {"mask": None}, {"mask": [1]}
    wishes: list[dict[str, Any]] = [{}, {"steps": 20}, {"image": None}, {"steps": 20, "image": photo}]
    wishes += [{"steps": 20, "image": masked}, {"steps": 20, "image": masked, "strength": 0.3}]
    assert asked(folder, *wishes) == [[2, 2], [20, 20], [2, 2], [20, 16], [20, 20], [20, 6]]


def test_schedules_that_are_not_there_are_refused(plain_app: Path, tmp_path: Path) -> None:
    nowhere = "bad-request: this model begins from no image: it was exported without an image encoder"
    assert asked(plain_app, {"steps": 7}, {"steps": 1}, {"strength": 0.5}) == [
        "bad-request: there is no schedule for 7 steps; there are 2, 6, 20",
        "bad-request: there is no schedule for 1 step; there are 2, 6, 20",
        nowhere,
    ]
    folder = write_app(tmp_path / "app", encoder=True, inpaints=True)
    some = "0.5, 0.6, 0.7, 0.8, 0.9, 1"
    assert asked(folder, {"strength": 0.55}, {"strength": 0.2}, {"steps": 6}) == [
        f"bad-request: there is no schedule for 2 steps at strength 0.55; there are {some}",
        f"bad-request: there is no schedule for 2 steps at strength 0.2; there are {some}",
        "bad-request: this model repaints a part of an image: give an image and a mask",
    ]
