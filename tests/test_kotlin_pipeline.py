"""Images of the Kotlin pipeline, run on a JVM, against msd.run.runtime's, and the order of its work."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from msd.bundle import open_bundle
from msd.export.app import manifest as app
from msd.graph.parity import psnr
from msd.run.runtime.decode import decoder_runs
from msd.run.runtime.image import pixels
from msd.run.runtime.initial_image import InitialImage
from msd.run.runtime.noise import posterior_noise
from msd.run.runtime.pipeline import Pipeline
from msd.run.runtime.scheduler import SCHEDULERS
from tests.app_bundles import HEIGHT, WIDTH, draw_with_sums, write_app
from tests.jvm import Jvm, Refused, floats, interpreted

WIDE = {"timestep_embedding": 11}
TOLD = {"timestep_embedding": 8, "guidance_embedding": 7}
REQUEST = {
    "prompt": "three red circles",
    "negative": "a blue square!",
    "seed": 9,
    "steps": 6,
    "guidance": 7.5,
}


def generated(kotlin: Jvm, folder: Path, **wishes: Any) -> dict[str, Any]:
    settings = {"refused": "", "times": 1, "cancel": 0, "close": 0, "trim": False}
    answer: dict[str, Any] = kotlin.ask("generate", folder=str(folder), **{**REQUEST, **settings, **wishes})
    return answer


def shown(found: dict[str, Any]) -> np.ndarray:
    """Return the pixels of an image as (height, width, 3)."""
    argb = np.array(found["argb"], np.int64)
    assert np.all(argb & 0xFF000000 == 0xFF000000)
    return np.stack([argb >> 16 & 255, argb >> 8 & 255, argb & 255], 1).reshape(*found["size"], 3)


def require_equal(found: dict[str, Any], wanted: Any) -> None:
    """Require latents within 1e-5 of the largest, and pixels within a level."""
    latents = wanted.latents.ravel()
    np.testing.assert_allclose(floats(found["latents"]), latents, rtol=0, atol=1e-5 * np.abs(latents).max())
    pixels = shown(found)
    assert pixels.shape == wanted.pixels.shape
    assert np.abs(pixels - wanted.pixels.astype(int)).max() <= 1
    assert len(np.unique(pixels)) > 20


MODELS = {
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


@pytest.mark.parametrize(
    ("model", "scheduler"),
    [("batch 2", name) for name in SCHEDULERS] + [(name, "euler-a") for name in MODELS if name != "batch 2"],
)
def test_an_image_is_the_runtime_s(
    model: str, scheduler: str, kotlin: Jvm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings, guidance = MODELS[model]
    folder = write_app(tmp_path / "app", scheduler, scheduler=PLMS, **settings)
    prompt = "three red circles and then two blue squares " * 12
    (found,) = generated(kotlin, folder, prompt=prompt, guidance=guidance)["images"]
    draw_with_sums(monkeypatch)
    wanted = Pipeline(open_bundle(folder), scheduler=scheduler).generate(
        prompt, negative_prompt="a blue square!", seed=9, steps=6, guidance=guidance
    )
    require_equal(found, wanted)


@pytest.mark.parametrize("tile", [(4, 4), (3, 4), (2, 2)])
def test_an_image_in_tiles_is_the_runtime_s(
    tile: tuple[int, int], kotlin: Jvm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The encoder and the decoder take fewer rows and columns than there are."""
    folder = write_app(tmp_path / "app", encoder=True, tile=tile)
    image = photo(masked=False)
    seen = generated(kotlin, folder, image=sent_image(image, 0.5), previews=2)
    draw_with_sums(monkeypatch)
    pipeline = Pipeline(open_bundle(folder))
    wanted = pipeline.generate(
        "three red circles", negative_prompt="a blue square!", seed=9, steps=6, guidance=7.5, image=image,
        strength=0.5,
    )  # fmt: skip
    require_equal(seen["images"][0], wanted)
    runs = [event.split(" ")[1] for event in seen["events"] if event.startswith("run")]
    previews = [step for step in seen["told"] if step[0] == "step" and step[3]]
    assert runs.count("vae_decoder") == decoder_runs(pipeline.bundle) * (1 + len(previews)) > 1
    assert len(previews) == 1


def test_a_decoder_can_be_cancelled_between_two_tiles(kotlin: Jvm, tmp_path: Path) -> None:
    folder = write_app(tmp_path / "app", tile=(2, 2))
    seen = generated(kotlin, folder, cancelDuring="vae_decoder 2")
    assert seen["images"] == [{"error": "Cancelled", "message": "the image was cancelled"}]
    runs = [event.split(" ")[1] for event in seen["events"] if event.startswith("run")]
    assert runs.count("vae_decoder") == 2


def photo(masked: bool) -> InitialImage:
    """Return a random image, and with `masked` a mask whose cells are not aligned to those of the latents."""
    random = np.random.default_rng(3)
    levels = random.integers(0, 256, (HEIGHT * 8, WIDTH * 8, 3), np.uint8)
    pixels = levels[None] / np.float32(127.5) - np.float32(1)
    mask = np.zeros((1, HEIGHT * 8, WIDTH * 8, 1), np.float32)
    mask[:, 5:20, 9:41] = 1
    return InitialImage(pixels, mask if masked else None, "random")


def sent_image(image: InitialImage, strength: float) -> dict[str, Any]:
    levels = np.rint((image.pixels[0].astype(np.float64) + 1) * 127.5).astype(np.int64)
    argb = (levels[..., 0] << 16 | levels[..., 1] << 8 | levels[..., 2]) - (1 << 24)
    wishes = {"argb": argb.ravel().tolist(), "strength": strength}
    if image.mask is not None:
        wishes["mask"] = base64.b64encode(image.mask.astype(np.uint8).tobytes()).decode()
    return wishes


@pytest.mark.parametrize("strength", [0.5, 1.0])
@pytest.mark.parametrize("kind", ["image", "mask", "inpainting"])
@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_an_image_that_begins_from_an_image_is_the_runtime_s(
    scheduler: str, kind: str, strength: float, kotlin: Jvm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inpaints = kind == "inpainting"
    folder = write_app(tmp_path / "app", scheduler, scheduler=PLMS, encoder=True, inpaints=inpaints)
    image = photo(masked=kind != "image")
    (found,) = generated(kotlin, folder, image=sent_image(image, strength))["images"]
    draw_with_sums(monkeypatch)
    wanted = Pipeline(open_bundle(folder), scheduler=scheduler).generate(
        "three red circles", negative_prompt="a blue square!", seed=9, steps=6, guidance=7.5, image=image,
        strength=strength,
    )  # fmt: skip
    require_equal(found, wanted)
    if image.mask is not None:
        kept = image.mask[0, ..., 0] == 0
        assert np.array_equal(shown(found)[kept], pixels(image.pixels[0])[kept])
        (whole,) = generated(kotlin, folder, image=sent_image(image, strength), paste=False)["images"]
        assert whole["latents"] == found["latents"]
        assert not np.array_equal(shown(whole)[kept], shown(found)[kept])
        inner = np.s_[9:16, 13:37]
        assert np.array_equal(shown(whole)[inner], shown(found)[inner])


def test_the_posterior_s_noise_is_the_runtime_s(kotlin: Jvm) -> None:
    for seed, stream in [(0, 1), (9, 2), (2**32, 1), (2**63 - 1, 2)]:
        found = kotlin.ask("posterior noise", seed=seed, size=30, stream=stream)
        assert floats(found).tolist() == posterior_noise(seed, (30,), stream).tolist()


def test_images_that_do_not_fit_are_refused(kotlin: Jvm, plain_app: Path, tmp_path: Path) -> None:
    image = sent_image(photo(masked=True), 0.5)
    with pytest.raises(Refused, match="BadRequest: this model begins from no image: it was exported without"):
        generated(kotlin, plain_app, image=image)
    folder = write_app(tmp_path / "app", encoder=True, inpaints=True)
    for wishes, message in [
        (None, "repaints a part of an image: give an image and a mask"),
        ({**image, "mask": ""}, "repaints a part of an image: give a mask"),
        ({**image, "argb": [0] * 5}, "the image has 5 pixels; it should have 48 times 32"),
        ({**image, "mask": "AQE="}, "the mask has 2 pixels; it should have 48 times 32"),
        ({**image, "strength": 0.55}, "no schedule for 6 steps at strength 0.55; there are 0.2, 0.3, "),
    ]:
        with pytest.raises(Refused, match=f"BadRequest: .*{message}"):
            generated(kotlin, folder, image=wishes)


def test_the_demo_s_image_is_the_runtime_s(kotlin: Jvm, demo_int8: Path, tmp_path: Path) -> None:
    """The whole pipeline in Kotlin with the real networks, which LiteRT's interpreter runs for it here."""
    bundle, prompt = open_bundle(demo_int8), "two red circles on the left over a striped blue background"
    app.write_manifest(app.describe(bundle), bundle, tmp_path)
    with interpreted(bundle) as serve:
        found = kotlin.ask(
            "generate served", serve, folder=str(tmp_path), prompt=prompt, negative="", seed=7, steps=20
        )
    wanted = Pipeline(bundle, threads=1).generate(prompt, seed=7)
    np.testing.assert_allclose(floats(found["latents"]), wanted.latents.ravel(), rtol=0, atol=1e-4)
    pixels = shown(found)
    assert np.abs(pixels - wanted.pixels.astype(int)).max() <= 1
    assert psnr(wanted.pixels, pixels) >= 60
    assert wanted.pixels.std() > 20


STEPS_TOLD = [["step", i, 6, None] for i in range(1, 7)]
FIRST = [["compiling", "text encoder"], ["encoding"], ["compiling", "U-Net"]]
LAST = [["compiling", "VAE decoder"], ["decoding"]]


def test_networks_are_opened_run_and_freed_in_turn_on_one_thread(kotlin: Jvm, plain_app: Path) -> None:
    """The U-Net stays; the text encoder is freed before the first step, the decoder opened after the last."""
    seen = generated(kotlin, plain_app, times=2)
    again = [step for step in FIRST if step != ["compiling", "U-Net"]]
    assert seen["told"] == [*FIRST, *STEPS_TOLD, *LAST, *again, *STEPS_TOLD, *LAST]
    events = [event.rsplit(" ", 1)[0] for event in seen["events"]]
    assert {event.rsplit(" ", 1)[1] for event in seen["events"]} == {"msd-generate"}
    encoder = ["open text_encoder", "run text_encoder", "run text_encoder", "close text_encoder"]
    decoder = ["open vae_decoder", "run vae_decoder", "close vae_decoder"]
    steps = ["run unet"] * 12
    assert events == [
        *encoder, "open unet", *steps, *decoder, *encoder, *steps, *decoder, "close unet",
    ]  # fmt: skip
    assert seen["images"][0] == seen["images"][1]
    assert seen["after"] == {"error": "Cancelled", "message": "the pipeline has been closed"}


def test_progress_counts_the_runs_of_the_u_net(kotlin: Jvm, tmp_path: Path) -> None:
    """Heun's method runs it twice a step, but for the last: six steps are eleven runs."""
    folder = write_app(tmp_path / "app", "heun")
    seen = generated(kotlin, folder)
    assert [step for step in seen["told"] if step[0] == "step"] == [
        ["step", i, 11, None] for i in range(1, 12)
    ]
    assert len([event for event in seen["events"] if event.startswith("run unet")]) == 2 * 11


def test_previews_are_decoded_as_often_as_asked_for(
    kotlin: Jvm, plain_app: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The decoder stays open meanwhile; the last step has none, as the image follows."""
    seen = generated(kotlin, plain_app, previews=2)
    draw_with_sums(monkeypatch)
    wanted: dict[int, np.ndarray] = {}
    Pipeline(open_bundle(plain_app)).generate(
        "three red circles", negative_prompt="a blue square!", seed=9, steps=6, guidance=7.5,
        on_preview=lambda preview: wanted.update({preview.number: preview.pixels()}),
    )  # fmt: skip
    previews = {step[1]: step[3] for step in seen["told"] if step[0] == "step" and step[3]}
    assert sorted(previews) == [2, 4]
    for number, argb in previews.items():
        found = shown({"argb": argb, "size": [HEIGHT * 8, WIDTH * 8]})
        assert np.abs(found - wanted[number].astype(int)).max() <= 1
    events = [event.rsplit(" ", 1)[0] for event in seen["events"]]
    assert (events.count("open vae_decoder"), events.count("run vae_decoder")) == (1, 3)


def test_an_image_can_be_cancelled_between_steps_and_the_next_one_generated(
    kotlin: Jvm, plain_app: Path
) -> None:
    seen = generated(kotlin, plain_app, times=2, cancel=2)
    first, second = seen["images"]
    assert first == {"error": "Cancelled", "message": "the image was cancelled"}
    assert "argb" in second
    again = [step for step in FIRST if step != ["compiling", "U-Net"]]
    assert seen["told"] == [*FIRST, *STEPS_TOLD[:2], *again, *STEPS_TOLD, *LAST]


def test_cancelling_while_a_network_is_compiled_ends_the_wait_at_once(kotlin: Jvm, plain_app: Path) -> None:
    """The compilation cannot be interrupted, so it goes on; nothing of that image follows it."""
    seen = kotlin.ask("cancel compiling", folder=str(plain_app), **REQUEST)
    first, second = seen["images"]
    assert first == {"error": "Cancelled", "message": "the image was cancelled"}
    assert seen["while"] == ["open text_encoder msd-generate"]
    assert "argb" in second
    events = [event.rsplit(" ", 1)[0] for event in seen["events"]]
    assert events[:3] == ["open text_encoder", "close text_encoder", "open text_encoder"]


def test_closing_ends_the_image_at_once_and_frees_everything(kotlin: Jvm, plain_app: Path) -> None:
    seen = generated(kotlin, plain_app, close=2)
    assert seen["images"] == [{"error": "Cancelled", "message": "the pipeline has been closed"}]
    kinds = [event.split(" ")[0] for event in seen["events"]]
    assert kinds.count("open") == kinds.count("close") == 2


def test_suspend_and_flow_give_the_same_and_end_with_their_coroutine(kotlin: Jvm, plain_app: Path) -> None:
    (image,) = generated(kotlin, plain_app)["images"]
    seen = kotlin.ask("coroutines", folder=str(plain_app), refused="", **REQUEST)
    assert seen["suspended"] == image
    again = [step for step in FIRST if step != ["compiling", "U-Net"]]
    assert seen["updates"] == [*again, *STEPS_TOLD, *LAST, ["finished", image["argb"]]]
    assert seen["ended"] == "cancelled"
    runs = [event for event in seen["events"] if event.startswith("run unet")]
    assert len(runs) == 12 + 12 + 4
    refused = kotlin.ask("coroutines", folder=str(plain_app), refused="unet", **REQUEST)
    message = "unet.tflite cannot be compiled for this device's GPU"
    assert refused["suspended"] == {"error": "NoGpu", "message": message}
    assert refused["updates"] == ["NoGpu", message]
    assert refused["ended"] == "NoGpu"


@pytest.mark.parametrize("role", ["text_encoder", "unet", "vae_decoder"])
def test_a_network_that_the_gpu_refuses_is_reported_and_nothing_stays_open(
    role: str, kotlin: Jvm, plain_app: Path
) -> None:
    seen = generated(kotlin, plain_app, refused=role, times=2)
    for image in seen["images"]:
        message = f"{role}.tflite cannot be compiled for this device's GPU"
        assert image == {"error": "NoGpu", "message": message}
    opened = [event.split(" ")[1] for event in seen["events"] if event.startswith("open")]
    closed = [event.split(" ")[1] for event in seen["events"] if event.startswith("close")]
    assert sorted(closed) == sorted(name for name in opened if name != role)
    assert opened.count(role) == 2


@pytest.mark.parametrize(
    ("role", "by", "count", "what"),
    [
        ("text_encoder", "NaN", 385, "the output of the text encoder"),
        ("vae_encoder", "Infinity", 96, "the output of the VAE encoder"),
        ("unet", "-Infinity", 96, "the output of the U-Net in step 1 of 3"),
        ("vae_decoder", "NaN", 4608, "the image of the VAE decoder"),
    ],
)
def test_numbers_that_are_not_finite_end_the_image(
    role: str, by: str, count: int, what: str, kotlin: Jvm, tmp_path: Path
) -> None:
    folder = write_app(tmp_path / "app", encoder=True)
    spoiled = {"role": role, "by": by, "all": False}
    image = sent_image(photo(masked=False), 0.5)
    (found,) = generated(kotlin, folder, guidance=1.0, image=image, spoiled=spoiled)["images"]
    assert found["error"] == "NoImage"
    said = f"{what} has 1 of {count} values that are NaN or infinite, so no image was made; "
    assert found["message"].startswith(said)


def test_an_image_of_one_colour_is_none_and_a_preview_of_one_is_shown(kotlin: Jvm, plain_app: Path) -> None:
    """As in msd.run.runtime.finite, for what a decoder computes whose numbers overflow float16."""
    spoiled = {"role": "vae_decoder", "by": "-1", "all": True}
    seen = generated(kotlin, plain_app, previews=3, spoiled=spoiled)
    (found,) = seen["images"]
    assert found["error"] == "NoImage"
    assert found["message"].startswith("the image of the VAE decoder is one colour throughout, so no image")
    assert [set(step[3]) for step in seen["told"] if step[0] == "step" and step[3]] == [{-(1 << 24)}]


def test_what_a_request_leaves_open_is_the_manifest_s(kotlin: Jvm, plain_app: Path) -> None:
    """Two steps, which come first in it, and guidance 7.5."""
    (found,) = generated(kotlin, plain_app, steps=None, guidance=None)["images"]
    (said,) = generated(kotlin, plain_app, steps=2, guidance=7.5)["images"]
    assert found == said


def test_impossible_requests_are_refused_at_once(kotlin: Jvm, plain_app: Path) -> None:
    with pytest.raises(Refused, match="BadRequest: there is no schedule for 7 steps; there are 2, 6, 20"):
        generated(kotlin, plain_app, steps=7)
    with pytest.raises(Refused, match="BadRequest: there is no schedule for 1 step; there are 2, 6, 20"):
        generated(kotlin, plain_app, steps=1)
    with pytest.raises(Refused, match="BadRequest: the seed -1 is negative"):
        generated(kotlin, plain_app, seed=-1)
    with pytest.raises(Refused, match="BadRequest: without a mask no pixels are pasted back"):
        generated(kotlin, plain_app, paste=False)
    with pytest.raises(Refused, match="BadRequest: previews after every -1 steps are impossible"):
        generated(kotlin, plain_app, previews=-1)
