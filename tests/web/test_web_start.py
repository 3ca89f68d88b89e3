"""What denoising starts from on the page, run in Node.js: noise, an image, and an image with a mask."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from msd.bundle import open_bundle
from msd.export.app.manifest import NAME
from msd.models.families.calls import Output
from msd.run.runtime.image_encoder import latents_of
from msd.run.runtime.initial_image import InitialImage
from msd.run.runtime.noise import noise
from msd.run.runtime.scheduler import bundle_scheduler
from msd.run.runtime.start import Start, pixels_of, start_from
from tests.app_bundles import HEIGHT, WIDTH, write_app
from tests.web.arrays import OPENING, floats, sent
from tests.web.node import evaluate

SEED, STEPS = 2**40 + 9, 6
SHAPE = (1, HEIGHT, WIDTH, 4)
START = (
    OPENING
    + """
import { parseAppManifest } from './msd/manifest.js';
import { noise } from './msd/noise.js';
import { rowInputs } from './msd/inputs.js';
import { scheduleOf } from './msd/schedule.js';
import { encodedImage, pixelsOf, startFrom } from './msd/start.js';
const [text, photo, strength, encoded, latents] = input;
const manifest = parseAppManifest(text);
const mask = photo?.mask && floats(photo.mask);
const image = photo && { ...photo, pixels: floats(photo.pixels), mask, strength };
const seen = [];
const run = async (call, inputs) => {
  seen.push(sent(inputs.image));
  return { [call.outputs[0].tensor]: floats(encoded[seen.length - 1]) };
};
try {
  const schedule = scheduleOf(manifest, { steps: 6, strength: strength ?? undefined, image });
  const seed = 2n ** 40n + 9n;
  const values = image ? await encodedImage(manifest, image, seed, run) : {};
  const start = startFrom(manifest, image, noise(seed, floats(latents).length), values);
  const places = [...schedule.steps.keys(), schedule.steps.length];
  const kept = places.map((i) => sent(start.keep(floats(latents), schedule, i)));
  const call = manifest.calls.find(({ when }) => when === 'step');
  const file = manifest.files.find(({ role }) => role === call.component);
  const { height, width } = manifest;
  const only = { ...call, inputs: call.inputs.filter(({ name }) => name === 'latent') };
  const pixels = image ? pixelsOf(image) : {};
  const taken = { scaled: floats(latents), values, pixels, numbers: { height, width } };
  const given = sent(rowInputs(only, file, taken).latent);
  console.log(JSON.stringify({ seen, first: sent(start.latents(schedule, strength)), kept, given }));
} catch ({ code, message }) {
  console.log(JSON.stringify(`${code}: ${message}`));
}
"""
)


def photo(masked: bool) -> InitialImage:
    """Return a random image, and with `masked` a mask whose edges are not those of the latents' cells."""
    levels = np.random.default_rng(3).integers(0, 256, (HEIGHT * 8, WIDTH * 8, 3), np.uint8)
    mask = np.zeros((1, HEIGHT * 8, WIDTH * 8, 1), np.float32)
    mask[:, 5:20, 9:41] = 1
    return InitialImage(levels[None] / np.float32(127.5) - np.float32(1), mask if masked else None, "random")


def asked(image: InitialImage | None) -> dict[str, Any] | None:
    if image is None:
        return None
    mask = None if image.mask is None else sent(image.mask)
    return {
        "pixels": sent(image.pixels),
        "mask": mask,
        "width": image.pixels.shape[2],
        "height": image.pixels.shape[1],
    }


def started(
    image: InitialImage | None, strength: float | None, inpaints: bool, output: str
) -> tuple[Start, np.ndarray | None, list[np.ndarray], list[np.ndarray]]:
    """Return the runtime's start, its masked latents, the encoded pixels, and what is computed of each."""
    pixels: list[np.ndarray] = []
    results: list[np.ndarray] = []
    channels = 8 if output == "moments" else 4

    described = Output("found", output, "moments" if output == "moments" else "latents", 0.18215)

    def encode(image: np.ndarray, stream: int) -> np.ndarray:
        pixels.append(image)
        results.append(np.random.default_rng(stream).standard_normal((*SHAPE[:-1], channels), np.float32))
        return latents_of(results[-1], described, SEED, stream)

    given = pixels_of(image)
    begins = image is not None and not (inpaints and strength == 1)
    clean = encode(given["image"], 1) if begins else None
    condition = encode(given["masked image"], 2) if inpaints else None
    start = start_from(image, noise(SEED, SHAPE), clean, blends=not inpaints)
    return start, condition, pixels, results


@pytest.mark.parametrize("strength", [0.3, 0.5, 1.0])
@pytest.mark.parametrize("kind", ["image", "mask", "inpainting"])
@pytest.mark.parametrize("scheduler", ["ddim", "euler"])
def test_an_image_begins_as_the_runtime_s(scheduler: str, kind: str, strength: float, tmp_path: Path) -> None:
    folder = write_app(tmp_path / "app", scheduler, encoder=True, inpaints=kind == "inpainting")
    require_same(folder, scheduler, photo(kind != "image"), strength, kind == "inpainting", "moments")


@pytest.mark.parametrize("scheduler", ["ddim", "euler"])
def test_noise_alone_begins_as_the_runtime_s(scheduler: str, tmp_path: Path) -> None:
    require_same(write_app(tmp_path / "app", scheduler), scheduler, None, None, False, "moments")


@pytest.mark.parametrize("kind", ["image", "mask"])
def test_latents_without_a_distribution_are_taken_as_they_are(kind: str, tmp_path: Path) -> None:
    """As a tiny autoencoder computes them."""
    folder = write_app(tmp_path / "app", "ddim", encoder=True)
    require_same(folder, "ddim", photo(kind == "mask"), 0.5, False, "latent")


def require_same(
    folder: Path,
    scheduler: str,
    image: InitialImage | None,
    strength: float | None,
    inpaints: bool,
    output: str,
) -> None:
    start, masked, pixels, results = started(image, strength, inpaints, output)
    text = (folder / NAME).read_text("utf-8").replace('"factor": 0.25', '"factor": 0.18215')
    if output == "latent":
        text = text.replace('"kind": "moments"', '"kind": "latents"')
    latents = np.random.default_rng(8).standard_normal(SHAPE, np.float32)
    sent_results = [sent(one) for one in results]
    found = evaluate(START, text, asked(image), strength, sent_results, sent(latents))
    assert [floats(one).tolist() for one in found["seen"]] == [one.ravel().tolist() for one in pixels]
    table = bundle_scheduler(open_bundle(folder), scheduler).table(STEPS, strength)
    close(found["first"], start.latent(table, strength))
    assert len(found["kept"]) == len(table.steps) + 1
    for index, kept in enumerate(found["kept"]):
        close(kept, start.keep(latents, table, index))
    given = latents if masked is None else np.concatenate([latents, start.mask, masked], -1)
    close(found["given"], given)


def close(found: str, wanted: np.ndarray) -> None:
    """Require float32 numbers within 1e-6 of the largest: exp may differ in its last bit."""
    bound = 1e-6 * np.abs(wanted).max()
    np.testing.assert_allclose(floats(found), wanted.ravel(), rtol=0, atol=bound)


def test_images_that_do_not_fit_are_refused(plain_app: Path, tmp_path: Path) -> None:
    nowhere = "bad-request: this model begins from no image: it was exported without an image encoder"
    plain = (plain_app / NAME).read_text("utf-8")
    assert evaluate(START, plain, asked(photo(False)), 0.5, [], "") == nowhere
    text = (write_app(tmp_path / "app", encoder=True, inpaints=True) / NAME).read_text("utf-8")
    small = {**(asked(photo(True)) or {}), "width": 40}
    for image, message in [
        (small, "the image has 40×32 pixels; it should have 48×32"),
        (asked(photo(False)), "this model repaints a part of an image: give a mask"),
        (None, "this model repaints a part of an image: give an image and a mask"),
    ]:
        strength = 0.5 if image else None
        assert evaluate(START, text, image, strength, [], "") == f"bad-request: {message}"
