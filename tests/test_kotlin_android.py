"""What the Kotlin sources ask of LiteRT and of the device, on stubs with LiteRT's own signatures."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from msd.export.android.probe import PROBE, write_probe
from msd.export.app import manifest as app
from tests.jvm import Jvm, Refused
from tests.test_kotlin_pipeline import REQUEST, generated

GB = 10**9


def on_android(kotlin: Jvm, folder: Path, home: Path, refused: str = "") -> dict[str, Any]:
    answer: dict[str, Any] = kotlin.ask(
        "android", folder=str(folder), home=str(home), refused=refused, **{**REQUEST, "negative": ""}
    )
    return answer


def test_litert_is_asked_for_the_gpu_alone_by_path_and_everything_is_freed(
    kotlin: Jvm, plain_app: Path, tmp_path: Path
) -> None:
    seen = on_android(kotlin, plain_app, tmp_path)
    (image,) = generated(kotlin, plain_app, negative="")["images"]
    assert seen["images"] == [image, image]
    names = [opened[0] for opened in seen["opened"]]
    assert names == ["text_encoder.tflite", "unet.tflite", "vae_decoder.tflite"] * 2
    files = app.load_manifest(plain_app / app.NAME).files
    hashes = {file.name: file.sha256 for file in files}
    cache = str(tmp_path / "code_cache" / "msd-gpu")
    assert all(opened[1:] == [["GPU"], "FP16", cache, hashes[opened[0]], True] for opened in seen["opened"])
    total = sum(file.bytes for file in files)
    assert seen["checked"] == ["checking", total, total]
    unet_and_its_buffers_and_the_environment = 1 + 4 + 1
    assert seen["held"] == unet_and_its_buffers_and_the_environment
    assert (seen["left"], seen["environments"]) == (1, 1)
    assert seen["rests"] == [0, 500, 2000, 0]
    assert seen["listening"] == 0
    assert len([*(tmp_path / "no_backup" / "msd").iterdir()]) == 5
    again = on_android(kotlin, plain_app, tmp_path)
    assert again["checked"] is None


def test_what_litert_refuses_is_said_and_not_run_on_the_cpu(
    kotlin: Jvm, plain_app: Path, tmp_path: Path
) -> None:
    seen = on_android(kotlin, plain_app, tmp_path, refused="unet")
    for image in seen["images"]:
        assert image["error"] == "NoGpu"
        assert image["message"] == (
            "unet.tflite cannot be compiled for this device's GPU: Failed to compile model;"
            " nothing was run on the CPU instead"
        )
    assert seen["left"] == 1


def test_whatever_litert_throws_is_a_failure_that_apps_catch(kotlin: Jvm) -> None:
    begin, end = "unet.tflite cannot be run: ", "; nothing was run on the CPU instead"
    assert kotlin.ask("explanations") == [
        f"{begin}{why}{end}"
        for why in (
            "no liblitert_jni.so",
            "no libLiteRt.so",
            "Could not initialize class",
            "The handle has been destroyed.",
            "Unknown status code: 7000",
        )
    ]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """The folder of an app that has the tiny network among its assets."""
    (tmp_path / "assets/sd-models").mkdir(parents=True)
    write_probe(tmp_path / "assets/sd-models" / PROBE)
    return tmp_path


def asked(kotlin: Jvm, folder: Path, home: Path, **wishes: Any) -> Any:
    device = {"memory": 8 * GB, "accelerators": ["CPU", "GPU"], "refused": ""}
    return kotlin.ask("device", folder=str(folder), home=str(home), **{**device, **wishes})


def test_a_device_is_asked_with_a_tiny_network(kotlin: Jvm, plain_app: Path, home: Path) -> None:
    assert asked(kotlin, plain_app, home) == [[PROBE, ["GPU"]]]


def test_a_device_that_cannot_is_told_why(kotlin: Jvm, plain_app: Path, home: Path, tmp_path: Path) -> None:
    folder = tmp_path / "large"
    folder.mkdir()
    shutil.copy(plain_app / app.NAME, folder / app.NAME)
    large = json.loads((folder / app.NAME).read_text()) | {"min_memory": 7 * GB}
    (folder / app.NAME).write_text(json.dumps(large))
    with pytest.raises(Refused, match=r"BadDevice: this device has 5\.9 GB of memory, and the model needs 7"):
        asked(kotlin, folder, home, memory=5_990_000_000)
    assert asked(kotlin, folder, home, memory=7 * GB)
    with pytest.raises(
        Refused, match="NoGpu: LiteRT finds no accelerator for this device's GPU, but CPU; the"
    ):
        asked(kotlin, plain_app, home, accelerators=["CPU"])
    with pytest.raises(
        Refused, match="NoGpu: this device's GPU cannot run even a tiny network: Failed to comp"
    ):
        asked(kotlin, plain_app, home, refused="probe")


def test_only_64_bit_devices_with_a_recent_android_are_accepted(kotlin: Jvm) -> None:
    for abis in (["arm64-v8a"], ["x86_64"], ["riscv64", "x86_64"]):
        kotlin.ask("device question", what="abi", abis=abis)
    for abis, runs in (([], "32-bit apps only"), (["riscv64"], "riscv64")):
        with pytest.raises(
            Refused, match=f"BadDevice: this device runs {runs}; the model needs arm64-v8a or"
        ):
            kotlin.ask("device question", what="abi", abis=abis)
    kotlin.ask("device question", what="android", level=24)
    with pytest.raises(Refused, match="BadDevice: this device has API level 23 of Android; it should be at"):
        kotlin.ask("device question", what="android", level=23)
