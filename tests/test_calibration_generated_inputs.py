"""Real inputs: what is gathered is what the networks were fed, the same each time."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from msd.bundle import open_bundle
from msd.compress.calibration.generated_inputs import collect_inputs, record_inputs
from msd.compress.calibration.prompt_file import read_prompts
from msd.errors import BadCalibration
from msd.run.runners.interpreter import Interpreter
from msd.run.runtime.pipeline import Pipeline
from msd.run.runtime.request import Request
from tests.stable_diffusion import COMPONENTS
from tests.stand_in import choose_scheduler

REQUESTS = [Request("a", steps=3, seed=1), Request("b", steps=2, seed=2, guidance=1)]


def test_every_run_is_kept(bundle_folder: Path) -> None:
    bundle = open_bundle(bundle_folder)
    found = collect_inputs(bundle, REQUESTS)
    # With guidance each step runs twice, and the negative prompt is read too.
    assert {name: len(runs) for name, runs in found.items()} == {
        "text_encoder": 3,
        "unet": 3 * 2 + 2,
        "vae_decoder": 2,
    }
    for name in COMPONENTS:
        for inputs in found[name]:
            assert {n: v.shape for n, v in inputs.items()} == {
                i.name: i.shape for i in bundle.component(name).inputs
            }


def test_the_last_latents_are_the_pictures(bundle_folder: Path) -> None:
    bundle = open_bundle(bundle_folder)
    found = collect_inputs(bundle, REQUESTS)["vae_decoder"]
    for inputs, picture in zip(found, Pipeline(bundle).generate_all(REQUESTS), strict=True):
        np.testing.assert_array_equal(inputs["latent"].reshape(picture.latents.shape), picture.latents)


def test_it_is_deterministic(bundle_folder: Path) -> None:
    first, second = (collect_inputs(open_bundle(bundle_folder), REQUESTS) for _ in range(2))
    for name, runs in first.items():
        for a, b in zip(runs, second[name], strict=True):
            for key, value in a.items():
                np.testing.assert_array_equal(value, b[key])
    with Interpreter(bundle_folder / "unet.tflite", float_weights=True) as network:
        assert np.isfinite(network.run(first["unet"][0])["noise"]).all()


def test_files_hold_what_is_gathered(bundle_folder: Path, tmp_path: Path) -> None:
    bundle = open_bundle(bundle_folder)
    wanted, found = collect_inputs(bundle, REQUESTS), record_inputs(bundle, REQUESTS, tmp_path)
    assert set(found) == set(wanted) == set(COMPONENTS)
    for name, runs in found.items():
        # They can be gone through again.
        for every in (list(runs), list(runs)):
            assert len(every) == len(runs) == len(wanted[name])
            for a, b in zip(every, wanted[name], strict=True):
                assert set(a) == set(b)
                for key, value in a.items():
                    np.testing.assert_array_equal(value, b[key])


def test_steps_are_kept_evenly_along_each_trajectory(bundle_folder: Path, tmp_path: Path) -> None:
    bundle = open_bundle(bundle_folder)
    requests = [Request("a", steps=7, seed=1), Request("b", steps=2, seed=2, guidance=1)]
    every = collect_inputs(bundle, requests)["unet"]
    found = list(record_inputs(bundle, requests, tmp_path, steps=3)["unet"])
    # Steps 0, 3 and 6 of the first, twice each because of guidance; both of the second.
    for inputs, number in zip(found, [0, 1, 6, 7, 12, 13, 14, 15], strict=True):
        np.testing.assert_array_equal(inputs["latent"], every[number]["latent"])


def test_the_runs_of_a_scheduler_with_two_a_step_are_counted(bundle_folder: Path, tmp_path: Path) -> None:
    """Heun's method makes seven runs of four steps: runs 0, 3 and 6 of each image, twice with guidance."""
    folder = shutil.copytree(bundle_folder, tmp_path / "heun")
    choose_scheduler(folder, {"_class_name": "HeunDiscreteScheduler"})
    bundle = open_bundle(folder)
    requests = [Request("a", steps=4, seed=1), Request("b", steps=4, seed=2)]
    every = collect_inputs(bundle, requests)["unet"]
    found = list(record_inputs(bundle, requests, tmp_path, steps=3)["unet"])
    numbers = [0, 1, 6, 7, 12, 13]
    for inputs, number in zip(found, [*numbers, *(14 + each for each in numbers)], strict=True):
        np.testing.assert_array_equal(inputs["latent"], every[number]["latent"])


def test_two_rows_of_guidance_fit_one_run_of_two(batch_two_folder: Path, tmp_path: Path) -> None:
    found = record_inputs(open_bundle(batch_two_folder), [Request("a", steps=5)], tmp_path, steps=2)
    assert {name: len(runs) for name, runs in found.items()} == {
        "text_encoder": 1,
        "unet": 2,
        "vae_decoder": 1,
    }


def test_the_same_requests_give_the_same_bytes(bundle_folder: Path, tmp_path: Path) -> None:
    bundle = open_bundle(bundle_folder)
    first, second = (record_inputs(bundle, REQUESTS, tmp_path / name) for name in "ab")
    for name, runs in first.items():
        assert [f.read_bytes() for f in runs.files] == [f.read_bytes() for f in second[name].files]


def test_prompts_are_read_without_comments_and_blanks(tmp_path: Path) -> None:
    path = tmp_path / "prompts.txt"
    path.write_text("# ours\n\n  a red circle \nzwei Kreise über Grau\n", "utf-8")
    assert read_prompts(path) == ("a red circle", "zwei Kreise über Grau")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"# none\n", "has no prompt"),
        (b"\xff\xfe\x00", "UTF-8 text"),
        (None, "No such file"),
        (b"a\n" * 10_001, "has 10001 prompts, and at most 10000 are read"),
        (b"a " * 10_001, "has a prompt of 20001 letters, and at most 20000 are read"),
    ],
)
def test_prompts_are_refused(content: bytes | None, said: str, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / "prompts.txt").write_bytes(content)
    with pytest.raises(BadCalibration, match=said):
        read_prompts(tmp_path / "prompts.txt")
