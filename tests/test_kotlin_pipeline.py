"""Pictures of the Kotlin pipeline, run on a JVM, against msd.runtime's; what it asks of LiteRT."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from msd.bundle import open_bundle
from msd.export.android import manifest as app
from msd.runners.engine import Engine
from msd.runners.registry import find_backend
from msd.runners.runner import Conditions
from msd.runtime.pipeline import Pipeline
from tests.app_bundles import draw_with_sums, write_app
from tests.jvm import Jvm, Refused, floats
from tests.stable_diffusion import COMPONENTS

CPU = Engine(find_backend("cpu"), Conditions(threads=1))
WIDE = {"timestep_embedding": 11}
TOLD = {"timestep_embedding": 8, "guidance_embedding": 7}


def drawn(kotlin: Jvm, folder: Path, **wishes: Any) -> dict[str, Any]:
    request = {
        "prompt": "three red circles",
        "negative": "a blue square!",
        "seed": 9,
        "steps": 6,
        "guidance": 7.5,
    }
    settings = {"refused": "", "times": 1, "cancel": 0, "close": 0, "trim": False}
    answer: dict[str, Any] = kotlin.ask("draw", folder=str(folder), **{**request, **settings, **wishes})
    return answer


MODELS = {
    "two passes": ({}, 7.5),
    "batch 2": ({"batch": 2}, 7.5),
    "no guidance": ({"batch": 2}, 1.0),
    "sinusoids": ({"batch": 2, "embeddings": WIDE}, 3.0),
    "embedded": ({"embeddings": TOLD}, 8.0),
    "chunks": ({"chunks": 3}, 7.5),
    "chunks, batch 2": ({"batch": 2, "chunks": 2}, 7.5),
}


@pytest.mark.parametrize("scheduler", ["ddim", "dpm++", "euler", "euler-a", "lcm", "tcd"])
@pytest.mark.parametrize("model", MODELS)
def test_a_picture_is_the_runtime_s(
    model: str, scheduler: str, kotlin: Jvm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings, guidance = MODELS[model]
    folder = write_app(tmp_path / "app", scheduler, **settings)
    prompt = "three red circles and then two blue squares " * 12
    (found,) = drawn(kotlin, folder, prompt=prompt, guidance=guidance)["pictures"]
    draw_with_sums(monkeypatch)
    wanted = Pipeline(open_bundle(folder), scheduler=scheduler).generate(
        prompt, negative_prompt="a blue square!", seed=9, steps=6, guidance=guidance
    )
    latents = wanted.latents.ravel()
    np.testing.assert_allclose(floats(found["latents"]), latents, rtol=0, atol=1e-5 * np.abs(latents).max())
    argb = np.array(found["argb"], np.int64)
    shown = np.stack([argb >> 16 & 255, argb >> 8 & 255, argb & 255], 1).reshape(*found["size"], 3)
    assert shown.shape == wanted.pixels.shape
    assert np.abs(shown - wanted.pixels.astype(int)).max() <= 1
    assert len(np.unique(shown)) > 20


def test_the_demo_s_picture_is_the_runtime_s(kotlin: Jvm, demo_int8: Path, tmp_path: Path) -> None:
    """The whole pipeline in Kotlin with the real networks, which LiteRT's interpreter runs for it here."""
    bundle, prompt = open_bundle(demo_int8), "two red circles on the left over a striped blue background"
    app.write_manifest(app.describe(bundle), bundle, tmp_path)
    with ExitStack() as stack:
        opened = {name: stack.enter_context(CPU.load(bundle.path(name))) for name in COMPONENTS}

        def serve(role: str, given: dict[str, np.ndarray]) -> np.ndarray:
            part = bundle.component(role)
            shaped = {port.name: given[port.name].reshape(port.shape) for port in part.inputs}
            return opened[role].run(shaped)[part.outputs[0].name]

        found = kotlin.ask(
            "draw served", serve, folder=str(tmp_path), prompt=prompt, negative="", seed=7, steps=20
        )
    wanted = Pipeline(bundle, threads=1).generate(prompt, seed=7)
    np.testing.assert_allclose(floats(found["latents"]), wanted.latents.ravel(), rtol=0, atol=1e-4)
    argb = np.array(found["argb"], np.int64)
    shown = np.stack([argb >> 16 & 255, argb >> 8 & 255, argb & 255], 1).reshape(wanted.pixels.shape)
    assert np.abs(shown - wanted.pixels.astype(int)).max() <= 1
    assert wanted.pixels.std() > 20


def test_networks_are_opened_run_and_freed_in_turn(kotlin: Jvm, plain_app: Path) -> None:
    """The U-Net stays; the text encoder is freed before the first step, the decoder opened beside another."""
    seen = drawn(kotlin, plain_app, times=2)
    events = seen["events"]
    assert seen["told"] == [[i, 6] for i in range(1, 7)] * 2
    kinds = [event.rsplit(" ", 1)[0] for event in events]
    assert {event.rsplit(" ", 1)[1] for event in events if event.startswith("open")} == {"msd-load"}
    assert {event.rsplit(" ", 1)[1] for event in events if not event.startswith("open")} == {"msd-draw"}
    assert kinds.count("open unet") == kinds.count("close unet") == 1
    assert kinds.count("open text_encoder") == kinds.count("close text_encoder") == 2
    assert kinds.count("open vae_decoder") == kinds.count("close vae_decoder") == 2
    assert kinds.index("close text_encoder") < kinds.index("run unet")
    steps = [i for i, kind in enumerate(kinds) if kind == "run unet"]
    assert steps[5] < kinds.index("open vae_decoder") < steps[10]
    assert kinds[-1] == "close unet"
    assert seen["pictures"][0] == seen["pictures"][1]
    assert seen["after"] == {"error": "Cancelled", "message": "the pipeline has been closed"}


def test_a_picture_can_be_cancelled_between_steps_and_the_next_one_drawn(
    kotlin: Jvm, plain_app: Path
) -> None:
    seen = drawn(kotlin, plain_app, times=2, cancel=2)
    first, second = seen["pictures"]
    assert first == {"error": "Cancelled", "message": "drawing was cancelled"}
    assert "argb" in second
    assert seen["told"] == [[1, 6], [2, 6], *([i, 6] for i in range(1, 7))]


def test_closing_ends_the_picture_that_is_drawn_and_frees_everything(kotlin: Jvm, plain_app: Path) -> None:
    seen = drawn(kotlin, plain_app, close=2)
    assert seen["pictures"] == [{"error": "Cancelled", "message": "the pipeline has been closed"}]
    kinds = [event.split(" ")[0] for event in seen["events"]]
    assert kinds.count("open") == kinds.count("close") == 2


@pytest.mark.parametrize("role", ["text_encoder", "unet", "vae_decoder"])
def test_a_network_that_the_gpu_refuses_is_reported_and_nothing_stays_open(
    role: str, kotlin: Jvm, plain_app: Path
) -> None:
    seen = drawn(kotlin, plain_app, refused=role, times=2)
    for picture in seen["pictures"]:
        assert picture == {
            "error": "NoGpu",
            "message": f"{role}.tflite cannot be opened on this device's GPU",
        }
    opened = [event.split(" ")[1] for event in seen["events"] if event.startswith("open")]
    closed = [event.split(" ")[1] for event in seen["events"] if event.startswith("close")]
    assert sorted(closed) == sorted(name for name in opened if name != role)
    assert opened.count(role) == 2


def test_what_a_request_leaves_open_is_the_manifest_s(kotlin: Jvm, plain_app: Path) -> None:
    """Two steps, which come first in it, and guidance 7.5."""
    (found,) = drawn(kotlin, plain_app, steps=None, guidance=None)["pictures"]
    (said,) = drawn(kotlin, plain_app, steps=2, guidance=7.5)["pictures"]
    assert found == said


def test_impossible_requests_are_refused_at_once(kotlin: Jvm, plain_app: Path) -> None:
    with pytest.raises(Refused, match="BadRequest: there is no schedule for 7 steps; there are 2, 6, 20"):
        drawn(kotlin, plain_app, steps=7)
    with pytest.raises(Refused, match="BadRequest: the seed -1 is negative"):
        drawn(kotlin, plain_app, seed=-1)


def on_android(kotlin: Jvm, folder: Path, home: Path, refused: str = "") -> dict[str, Any]:
    answer: dict[str, Any] = kotlin.ask(
        "android", folder=str(folder), home=str(home), refused=refused,
        prompt="three red circles", negative="", seed=9, steps=6, guidance=7.5,
    )  # fmt: skip
    return answer


def test_litert_is_asked_for_the_gpu_alone_by_path_and_everything_is_freed(
    kotlin: Jvm, plain_app: Path, tmp_path: Path
) -> None:
    seen = on_android(kotlin, plain_app, tmp_path)
    (picture,) = drawn(kotlin, plain_app, negative="")["pictures"]
    assert seen["pictures"] == [picture, picture]
    names = [opened[0] for opened in seen["opened"]]
    assert names == ["text_encoder.tflite", "unet.tflite", "vae_decoder.tflite"] * 2
    hashes = {file.name: file.sha256 for file in app.load_manifest(plain_app / app.NAME).files}
    cache = str(tmp_path / "code_cache" / "msd-gpu")
    assert all(opened[1:] == [["GPU"], "FP16", cache, hashes[opened[0]], True] for opened in seen["opened"])
    unet_and_its_buffers_and_the_environment = 1 + 4 + 1
    assert seen["held"] == unet_and_its_buffers_and_the_environment
    assert (seen["left"], seen["environments"]) == (1, 1)
    assert seen["rests"] == [0, 500, 2000, 0]
    assert seen["listening"] == 0
    assert len([*(tmp_path / "no_backup" / "msd").iterdir()]) == 5


def test_what_litert_refuses_is_said_and_not_drawn_on_the_cpu(
    kotlin: Jvm, plain_app: Path, tmp_path: Path
) -> None:
    seen = on_android(kotlin, plain_app, tmp_path, refused="unet")
    for picture in seen["pictures"]:
        assert picture["error"] == "NoGpu"
        assert picture["message"] == (
            "unet.tflite cannot be opened on this device's GPU: Failed to compile model;"
            " nothing was drawn on the CPU instead"
        )
    assert seen["left"] == 1
