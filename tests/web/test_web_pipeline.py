"""Images of the page's pipeline, run in Node.js on sums, against the runtime's, and the order of its work."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from msd.bundle import open_bundle
from msd.export.app.manifest import NAME
from msd.export.app.tokenizer_files import MERGES, VOCABULARY
from msd.run.runtime.image import pixels
from msd.run.runtime.initial_image import InitialImage
from msd.run.runtime.pipeline import Pipeline
from msd.run.runtime.scheduler import SCHEDULERS
from tests.app_bundles import HEIGHT, WIDTH, draw_with_sums, write_app
from tests.web.arrays import OPENING, floats, levels, sent
from tests.web.node import evaluate

SUMS = Path(__file__).parent / "sums.js"
WIDE = {"timestep_embedding": 11}
TOLD = {"timestep_embedding": 8, "guidance_embedding": 7}
NEGATIVE, SEED, STEPS = "a blue square!", 2**33 + 9, 6
PROMPT = "three red circles and then two blue squares " * 12
GENERATE = (
    OPENING
    + """
import { MsdError } from './msd/errors.js';
import { parseAppManifest } from './msd/manifest.js';
import { Pipeline } from './msd/pipeline.js';
import { Tokenizer } from './msd/tokenizer.js';
const { openSums } = await import(input[0]);
const shown = ({ rgba, width, height }) => ({ rgba: sent(rgba), width, height });
const results = [];
for (const [manifest, tokens, merges, wishes, plan] of input[1]) {
  const app = parseAppManifest(manifest);
  const [log, told, abort] = [[], [], new AbortController()];
  let others = 0;
  const open = async (role) => {
    if (plan.alone && others) throw new MsdError('out-of-memory', 'The GPU is full.');
    const network = openSums(app.files.find((file) => file.role === role), log);
    others += 1;
    return { ...network, close: () => { others -= 1; network.close(); } };
  };
  const tokenizer = new Tokenizer(tokens, merges, app.tokenizers.tokenizer);
  const pipeline = new Pipeline(app, { tokenizer }, open);
  const photo = wishes.image;
  const mask = photo?.mask ? floats(photo.mask) : null;
  const image = photo && { ...photo, pixels: floats(photo.pixels), mask };
  const request = { ...wishes, seed: BigInt(wishes.seed), image: image ?? undefined };
  const onProgress = ({ seconds, preview, ...said }) => {
    told.push(preview ? { ...said, preview: shown(preview) } : said);
    if (plan.cancel && said.step === plan.cancel) abort.abort();
  };
  const images = [];
  for (let i = 0; i < plan.times; i++) {
    const signal = i === 0 ? abort.signal : undefined;
    const made = await pipeline.generate(request, { onProgress, signal }).then(
      (picture) => ({ ...shown(picture), latents: sent(picture.latents) }),
      ({ code, message }) => ({ code, message }),
    );
    images.push(made);
  }
  await pipeline.trim();
  results.push({ images, told, log });
}
console.log(JSON.stringify(results));
"""
)


def case(folder: Path, times: int = 1, cancel: int = 0, alone: bool = False, **wishes: Any) -> list[Any]:
    """Return what `GENERATE` takes: an app's files, what is asked for, and how often.

    With `alone`, the GPU has memory for one network at a time.
    """
    texts = [(folder / name).read_text("utf-8") for name in (NAME, VOCABULARY, MERGES)]
    asked = {"prompt": PROMPT, "negativePrompt": NEGATIVE, "seed": str(SEED), "steps": STEPS, **wishes}
    return [*texts, asked, {"times": times, "cancel": cancel, "alone": alone}]


def generated(*cases: list[Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = evaluate(GENERATE, SUMS.as_uri(), cases)
    return found


def require_equal(found: dict[str, Any], wanted: Any) -> None:
    """Require latents within 1e-5 of the largest, and pixels within a level."""
    assert "latents" in found, found
    latents = wanted.latents.ravel()
    np.testing.assert_allclose(floats(found["latents"]), latents, rtol=0, atol=1e-5 * np.abs(latents).max())
    require_pixels(found, wanted.pixels)


def require_pixels(found: dict[str, Any], wanted: np.ndarray) -> None:
    assert np.abs(rgb(found).astype(int) - wanted).max() <= 1
    assert len(np.unique(rgb(found))) > 20


def rgb(found: dict[str, Any]) -> np.ndarray:
    rgba = levels(found["rgba"]).reshape(found["height"], found["width"], 4)
    assert (rgba[..., 3] == 255).all()
    return rgba[..., :3]


MODELS: dict[str, tuple[dict[str, Any], float]] = {
    "two passes": ({}, 7.5),
    "batch 2": ({"batch": 2}, 7.5),
    "no guidance": ({"batch": 2}, 1.0),
    "sinusoids": ({"batch": 2, "embeddings": WIDE}, 3.0),
    "embedded": ({"embeddings": TOLD}, 8.0),
    "chunks": ({"chunks": 3}, 7.5),
    "chunks, batch 2": ({"batch": 2, "chunks": 2}, 7.5),
}
PLMS = {"skip_prk_steps": True}
"""What lets pndm make images of the fewest steps."""


@pytest.mark.parametrize("model", MODELS)
def test_an_image_is_the_runtime_s(model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings, guidance = MODELS[model]
    folders = {name: write_app(tmp_path / name, name, scheduler=PLMS, **settings) for name in SCHEDULERS}
    found = generated(*(case(folder, guidance=guidance) for folder in folders.values()))
    draw_with_sums(monkeypatch)
    for (scheduler, folder), page in zip(folders.items(), found, strict=True):
        pipeline = Pipeline(open_bundle(folder), scheduler=scheduler)
        wanted = pipeline.generate(
            PROMPT, negative_prompt=NEGATIVE, seed=SEED, steps=STEPS, guidance=guidance
        )
        require_equal(page["images"][0], wanted)


def photo(masked: bool) -> InitialImage:
    """Return a random image, and with `masked` a mask whose edges are not those of the latents' cells."""
    random = np.random.default_rng(3).integers(0, 256, (HEIGHT * 8, WIDTH * 8, 3), np.uint8)
    mask = np.zeros((1, HEIGHT * 8, WIDTH * 8, 1), np.float32)
    mask[:, 5:20, 9:41] = 1
    return InitialImage(random[None] / np.float32(127.5) - np.float32(1), mask if masked else None, "random")


def asked(image: InitialImage) -> dict[str, Any]:
    mask = None if image.mask is None else sent(image.mask)
    return {"pixels": sent(image.pixels), "mask": mask, "width": WIDTH * 8, "height": HEIGHT * 8}


@pytest.mark.parametrize("kind", ["image", "mask", "inpainting"])
def test_an_image_that_begins_from_an_image_is_the_runtime_s(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At several strengths, and at that of diffusers where none is given."""
    image = photo(masked=kind != "image")
    settings: dict[str, Any] = {"encoder": True, "inpaints": kind == "inpainting", "scheduler": PLMS}
    folders = {name: write_app(tmp_path / name, name, **settings) for name in SCHEDULERS}
    cases = [(name, strength) for name in SCHEDULERS for strength in (0.5, 1.0, None)]
    wishes = [{} if strength is None else {"strength": strength} for _, strength in cases]
    asks = [
        case(folders[name], image=asked(image), **wish) for (name, _), wish in zip(cases, wishes, strict=True)
    ]
    found = generated(*asks)
    draw_with_sums(monkeypatch)
    for (scheduler, strength), page in zip(cases, found, strict=True):
        wanted = Pipeline(open_bundle(folders[scheduler]), scheduler=scheduler).generate(
            PROMPT,
            negative_prompt=NEGATIVE,
            seed=SEED,
            steps=STEPS,
            guidance=7.5,
            image=image,
            strength=strength,
        )
        require_equal(page["images"][0], wanted)


@pytest.mark.parametrize("tile", [(4, 4), (3, 4), (2, 2)])
def test_an_image_in_tiles_is_the_runtime_s(
    tile: tuple[int, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The encoder and the decoder take fewer rows and columns than there are."""
    image, folder = photo(masked=False), write_app(tmp_path / "app", encoder=True, tile=tile)
    (found,) = generated(case(folder, image=asked(image), strength=0.5))
    draw_with_sums(monkeypatch)
    settings: dict[str, Any] = {"seed": SEED, "steps": STEPS, "guidance": 7.5}
    with Pipeline(open_bundle(folder)) as pipeline:
        wanted = pipeline.generate(PROMPT, negative_prompt=NEGATIVE, image=image, strength=0.5, **settings)
    require_equal(found["images"][0], wanted)


def test_what_a_mask_keeps_is_pasted_back(tmp_path: Path) -> None:
    """To the byte, over previews too; what is repainted is the same without."""
    image = photo(masked=True)
    assert image.mask is not None
    kept, levels_of = image.mask[0, ..., 0] == 0, pixels(image.pixels[0])
    folder = write_app(tmp_path / "app", encoder=True)
    wishes = {"image": asked(image), "strength": 0.5, "previewEvery": 1}
    pasted, whole = generated(case(folder, **wishes), case(folder, **wishes, paste=False))
    previews = [said["preview"] for said in pasted["told"] if "preview" in said]
    assert len(previews) == 2
    for each in (*pasted["images"], *previews):
        assert np.array_equal(rgb(each)[kept], levels_of[kept])
    assert not np.array_equal(rgb(whole["images"][0])[kept], levels_of[kept])
    assert np.array_equal(rgb(whole["images"][0])[9:16, 13:37], rgb(pasted["images"][0])[9:16, 13:37])


STEPS_TOLD = [{"stage": "denoising", "step": i, "steps": STEPS} for i in range(1, STEPS + 1)]


def test_networks_are_opened_run_and_freed_in_turn(plain_app: Path) -> None:
    """The U-Net stays; the decoder is opened during the last step; texts are encoded once."""
    (seen,) = generated(case(plain_app, times=2))
    first, second = seen["images"]
    assert first == second
    encoder = ["open text_encoder", "run text_encoder", "run text_encoder", "close text_encoder"]
    steps = ["run unet"] * (2 * STEPS - 2)
    last = ["open vae_decoder", "run unet", "run unet", "run vae_decoder", "close vae_decoder"]
    assert seen["log"] == [*encoder, "open unet", *steps, *last, *steps, *last, "close unet"]
    assert [said for said in seen["told"] if said["stage"] == "denoising"] == 2 * STEPS_TOLD


def test_progress_counts_the_runs_of_the_u_net(tmp_path: Path) -> None:
    """Heun's method runs it twice a step, but for the last."""
    (seen,) = generated(case(write_app(tmp_path / "app", "heun")))
    runs = 2 * STEPS - 1
    told = [said for said in seen["told"] if said["stage"] == "denoising"]
    assert told == [{"stage": "denoising", "step": i, "steps": runs} for i in range(1, runs + 1)]
    assert seen["log"].count("run unet") == 2 * runs


def test_previews_are_decoded_as_often_as_asked_for(plain_app: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last step has none, as the image follows."""
    (seen,) = generated(case(plain_app, previewEvery=2))
    draw_with_sums(monkeypatch)
    wanted: dict[int, np.ndarray] = {}
    Pipeline(open_bundle(plain_app)).generate(
        PROMPT, negative_prompt=NEGATIVE, seed=SEED, steps=STEPS, guidance=7.5,
        on_preview=lambda preview: wanted.update({preview.number: preview.pixels()}),
    )  # fmt: skip
    previews = {said["step"]: said["preview"] for said in seen["told"] if "preview" in said}
    assert sorted(previews) == [2, 4]
    for number, found in previews.items():
        require_pixels(found, wanted[number])
    assert (seen["log"].count("open vae_decoder"), seen["log"].count("run vae_decoder")) == (1, 3)


def test_an_image_can_be_cancelled_between_steps_and_the_next_one_generated(plain_app: Path) -> None:
    seen, whole = generated(case(plain_app, times=2, cancel=2), case(plain_app))
    first, second = seen["images"]
    assert first == {"code": "cancelled", "message": "It was cancelled."}
    assert second == whole["images"][0]
    assert seen["log"].count("run unet") == 4 + 2 * STEPS


def test_impossible_requests_are_refused_and_nothing_is_opened(plain_app: Path, tmp_path: Path) -> None:
    repaints = write_app(tmp_path / "app", encoder=True, inpaints=True)
    plain, masked = asked(photo(masked=False)), asked(photo(masked=True))
    found = generated(
        case(plain_app, steps=7),
        case(plain_app, seed="-1"),
        case(plain_app, image=plain),
        case(repaints),
        case(repaints, image=masked, strength=0.55),
        case(repaints, image=plain),
        case(plain_app, guidance=-1000.5),
        case(plain_app, previewEvery=-1),
        case(plain_app, previewEvery=0.5),
        case(plain_app, negativePrompt="🦊" * 20_001),
        case(plain_app, prompt="x" * 20_001),
        case(plain_app, paste=False),
        case(plain_app, strength=0.5),
    )
    messages = [page["images"][0]["message"] for page in found]
    assert messages == [
        "there is no schedule for 7 steps; there are 2, 6, 20",
        "the seed is -1; it should be a whole number from 0 to 9223372036854775807, a bigint beyond 2^53",
        "this model begins from no image: it was exported without an image encoder",
        "this model repaints a part of an image: give an image and a mask",
        "there is no schedule for 6 steps at strength 0.55;"
        " there are 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1",
        "this model repaints a part of an image: give a mask",
        "guidance -1000.5 should be a number up to 1000",
        "previews after every -1 steps are impossible",
        "previews after every 0.5 steps are impossible",
        *2 * ["a prompt has 20001 letters, and at most 20000 are read"],
        "without a mask no pixels are pasted back: leave out paste: false",
        "a strength says how much of an image changes; give the image too",
    ]
    assert {page["images"][0]["code"] for page in found} == {"bad-request"}
    assert [page["log"] for page in found] == [[]] * len(messages)


def test_where_two_networks_do_not_fit_the_others_are_freed_first(plain_app: Path) -> None:
    roomy, tight = generated(
        case(plain_app, times=2, previewEvery=2), case(plain_app, times=2, previewEvery=2, alone=True)
    )
    assert "latents" in roomy["images"][0]
    assert tight["images"] == roomy["images"]
    assert tight["log"].count("open unet") > roomy["log"].count("open unet")
    opened: set[str] = set()
    for what, role in (event.split(" ") for event in tight["log"] if not event.startswith("run")):
        assert what == "close" or not opened, "a network is opened while another is open"
        opened ^= {role}
    assert not opened
