"""Pictures against golden ones: the figures, the thresholds, and what is said of them."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from msd.bundle import open_bundle
from msd.errors import BadConfig, MsdError
from msd.measure.regress import metrics, regression
from msd.measure.regress.compare import compare, require_scorer
from msd.measure.regress.goldens import Origin
from msd.measure.regress.suite import Thresholds
from tests.regressions import SUITE, goldens, judged, noisy, pipeline, waves


@pytest.fixture
def folder(bundle_folder: Path, tmp_path: Path) -> Path:
    """The goldens of `SUITE`."""
    regression.update(SUITE, pipeline(bundle_folder), tmp_path / "goldens")
    return tmp_path / "goldens"


def test_psnr_is_to_a_peak_of_255() -> None:
    golden = waves()
    assert metrics.psnr(golden, golden) == math.inf
    assert metrics.psnr(golden, golden ^ 1) == pytest.approx(20 * math.log10(255))
    assert metrics.psnr(golden // 2, golden // 2 + 2) == pytest.approx(20 * math.log10(255 / 2))


def test_ssim_is_what_wang_et_al_define() -> None:
    """The formula in float64, on windows of 11 pixels wholly inside; scikit-image crops the same rim."""
    golden, new = waves(), noisy(waves(), 20)
    taps = np.exp(-(np.arange(-5, 6) ** 2) / (2 * 1.5**2))
    window = np.outer(taps, taps) / taps.sum() ** 2

    def blurred(a: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return np.einsum(
            "yxcij,ij->yxc", np.lib.stride_tricks.sliding_window_view(a, (11, 11), (0, 1)), window
        )

    a, b = golden.astype(float), new.astype(float)
    ma, mb = blurred(a), blurred(b)
    va, vb, both = blurred(a * a) - ma**2, blurred(b * b) - mb**2, blurred(a * b) - ma * mb
    c1, c2 = (0.01 * 255) ** 2, (0.03 * 255) ** 2
    wanted = (2 * ma * mb + c1) * (2 * both + c2) / ((ma**2 + mb**2 + c1) * (va + vb + c2))
    assert metrics.ssim(golden, new) == pytest.approx(wanted.mean(), abs=1e-6)
    assert metrics.ssim(golden, golden) == 1


def test_the_hash_is_of_what_a_picture_shows() -> None:
    golden = waves()
    assert metrics.hash_distance(golden, golden) == 0
    assert metrics.hash_distance(golden, noisy(golden, 3)) <= 6
    assert metrics.hash_distance(golden, golden[:, ::-1].copy()) > 10


def test_the_same_bundle_draws_the_same_pictures(bundle_folder: Path, folder: Path) -> None:
    steps: list[tuple[int, int]] = []
    guard = regression.guard(SUITE, pipeline(bundle_folder), folder)
    found = guard.regress(lambda done, total, _: steps.append((done, total)))
    assert steps == [(i, 4) for i in range(1, 5)]
    assert found.result.broken == []
    assert [(p.psnr_db, p.ssim, p.hash_distance, p.attributes) for p in found.result.pictures] == [
        (None, 1.0, 0, None)
    ] * 2
    assert found.result.notes[0].startswith("Goldens and new images come from the same model, ")


def test_what_is_not_used_of_a_suite_is_among_its_notes(bundle_folder: Path) -> None:
    """Each sentence once, with the images that it is about unless it is about all."""
    one, *others = SUITE.drawing.pictures
    pictures = (replace(one, prompt=f"{one.prompt} BREAK", negative_prompt="a dog"), *others)
    drawing = replace(SUITE.drawing, pictures=pictures, guidance=0.5)
    found = regression.suite_remarks(replace(SUITE, drawing=drawing), pipeline(bundle_folder))
    assert "guidance 0.5 is used as 1, which is none." in found
    assert f"{one.name}: the negative prompt is not used: guidance of 1 or less needs none." in found
    (said,) = (each for each in found if "BREAK" in each)
    assert said.startswith(f"{one.name}: read as text: BREAK; long prompts are cut every 75 tokens")


def test_another_model_is_what_it_is_for(bundle_folder: Path, batch_two_folder: Path, folder: Path) -> None:
    result = regression.guard(SUITE, pipeline(batch_two_folder), folder).regress().result
    old, new = (open_bundle(place).model_hash[:12] for place in (bundle_folder, batch_two_folder))
    assert result.notes == (
        f"Goldens come from model {old} (none, recipe float32, msd 0); "
        f"new images from {new} (recipe float32, msd 0).",
        *regression.suite_remarks(SUITE, pipeline(batch_two_folder)),
    )


def test_every_broken_threshold_is_named_worst_picture_first() -> None:
    result = judged({"fox": noisy(waves(0), 1), "owl": noisy(waves(1), 60)})
    assert [p.name for p in result.pictures] == ["owl", "fox"]
    assert list(result.pictures[0].broken) == ["psnr_least", "ssim_least", "hash_distance_most"]
    assert result.pictures[1].broken == {}
    found = " ".join(result.broken)
    for said in (
        "the median PSNR is ", "below 45 dB (psnr_median)", "owl: PSNR is ", "below 40 dB (psnr_least)",
        "owl: SSIM is ", "below 0.99 (ssim_least)", " bits of the perceptual hash differ, more than 5",
    ):  # fmt: skip
        assert said in found


def test_a_threshold_holds_at_its_own_value() -> None:
    new = {"fox": waves(0) ^ 1, "owl": waves(1) ^ 1}
    exact = 20 * math.log10(255)
    for below, broken in ((0.01, False), (-0.01, True)):
        for key in ("psnr_least", "psnr_median"):
            limits = Thresholds(**{key: exact - below})
            assert bool(judged(new, replace(SUITE, thresholds=limits)).broken) == broken, key


def test_the_median_is_over_equal_pictures_too() -> None:
    result = judged({})
    assert (result.checks[0].found, result.broken) == (None, [])
    half = judged({"owl": noisy(waves(1), 90)})
    assert half.checks[0].found == half.pictures[0].psnr_db, "an equal image makes no wrong one equal"
    assert half.checks[0].broken


@pytest.mark.parametrize(
    ("origin", "again"),
    [({}, True), ({"model": "b" * 64, "msd": "1"}, True), ({"weights": "other"}, False),
     ({"backend": "gpu"}, False), ({"precision": "fp16"}, False)],
)  # fmt: skip
def test_a_model_converted_again_is_held_to_limits_of_its_own(origin: dict[str, str], again: bool) -> None:
    suite = replace(SUITE, thresholds=Thresholds(psnr_least=10), reconverted=Thresholds(psnr_least=90))
    result = judged({"fox": waves(0) ^ 1}, suite, **origin)
    assert result.reconverted == again
    assert bool(result.broken) == again
    assert result.limits == (suite.reconverted if again else suite.thresholds)
    without = judged({"fox": waves(0) ^ 1}, replace(suite, reconverted=None), **origin)
    assert (without.broken, without.limits) == ([], suite.thresholds)


def test_notes_say_what_else_differs() -> None:
    notes = " ".join(judged({}, backend="gpu", precision="fp16").notes)
    assert "goldens on cpu in fp32, new images on gpu in fp16" in notes
    kept, golden = goldens(replace(SUITE, thresholds=Thresholds(psnr_least=1)))
    notes = " ".join(compare(SUITE, kept, golden, golden, kept.origin, False, 1.0).notes)
    assert "thresholds have changed since the goldens were generated" in notes


@pytest.mark.parametrize(
    ("origin", "note"),
    [
        (
            {"scheduler": "ddim", "schedule": "x"},
            "The schedules differ: goldens with euler, new images",
        ),
        ({"schedule": "y"}, "The schedules differ: euler has other settings than for the goldens."),
        ({"versions": {"numpy": "2", "msd": "1"}}, "The goldens were generated by numpy 1, now 2."),
        (
            {"backend": "gpu"},
            "The limits of [reconverted] do not apply: the place changed since the goldens.",
        ),
        ({"weights": "other"}, "do not apply: the checkpoint's files or the recipe changed since the"),
    ],
)
def test_notes_say_what_of_the_origin_differs(origin: dict[str, Any], note: str) -> None:
    suite = replace(SUITE, reconverted=Thresholds(psnr_least=90))
    kept, golden = goldens(suite)
    came = replace(kept.origin, scheduler="euler", schedule="x", versions={"numpy": "1"})
    kept = replace(kept, origin=came)
    notes = compare(suite, kept, golden, golden, replace(came, **origin), False, 1.0).notes
    assert note in " ".join(notes)


def test_older_goldens_say_no_schedule(bundle_folder: Path, folder: Path) -> None:
    new = Origin.of(pipeline(bundle_folder))
    assert (new.scheduler, len(new.schedule)) == ("euler", 64)
    assert replace(new, scheduler="", schedule="").has_schedule_of(new)


def test_attributes_are_asked_of_the_demo_alone() -> None:
    asks = replace(SUITE, thresholds=Thresholds(attributes_least=0.5))
    with pytest.raises(BadConfig, match="attributes_least is for the demo checkpoint, whose scenes msd can"):
        require_scorer(asks, demo=False)
    with pytest.raises(MsdError, match="'a fox' is not a caption of the demo scenes"):
        require_scorer(asks, demo=True)
    require_scorer(SUITE, demo=False)
