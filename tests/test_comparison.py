"""Two models compared: what is generated, what is measured of it, and what is refused."""

from __future__ import annotations

import json
import math
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from msd.bundle import open_bundle
from msd.errors import BadBundle, BadConfig, BadValue, OutputExists
from msd.files import packages, schema
from msd.models.demo import CHECKPOINT
from msd.models.demo.captions import Scene, captions
from msd.models.demo.scenes import draw
from msd.run.runtime.image import GeneratedImage
from msd.run.runtime.noise import noise
from msd.run.runtime.pipeline import Pipeline
from msd.train.comparison.columns import measure_column
from msd.train.comparison.compare import Comparison, compare
from msd.train.comparison.generated import ColumnPlan, GeneratedColumn
from msd.train.comparison.measures import distance
from msd.train.comparison.model import ComparedModel, open_model
from msd.train.comparison.report_folder import require_replaceable, write_report
from msd.train.comparison.result import ComparisonResult, ImageDistance, median_distance
from msd.train.comparison.sheet import CAPTION, HEAD, MARGIN, ROWS, SIDE, contact_sheet
from tests.checkpoints import TINY, vary, write
from tests.json_schema import violations

ROOT = Path(__file__).parent.parent
PROMPTS = ["red", "a reed, nearly red", "[b]not markup[/b]"]
EQUAL = ImageDistance(psnr_db=None, latent_psnr_db=None, latent_error=0.0, ssim=1.0, hash_distance=0.0)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random checkpoint of images of 16 × 24 pixels; read only."""
    folder = tmp_path_factory.mktemp("checkpoints") / "small"
    write(folder, vary(TINY, unet={"sample_size": [8, 12]}))
    return folder


@pytest.fixture(scope="module")
def compared(small: Path) -> Comparison:
    """That checkpoint with three steps, compared with itself with two."""
    return compare(ComparedModel(small, steps=3), ComparedModel(small, steps=2), PROMPTS, seed=5, batch=2)


def test_a_model_is_no_distance_from_itself(small: Path) -> None:
    result = compare(ComparedModel(small, steps=2), ComparedModel(small, steps=2), PROMPTS).result
    assert [column.label for column in result.columns] == ["A, 2 steps", "B, 2 steps"]
    assert result.columns[0].distance is None
    assert [image.distance for image in result.other.images] == [EQUAL] * 3
    assert result.other.distance == EQUAL
    assert result.other.model_sha256 == result.columns[0].model_sha256


def test_the_reference_at_the_other_s_steps_stands_between(compared: Comparison, small: Path) -> None:
    first, between, other = compared.result.columns
    assert [column.label for column in compared.result.columns] == ["A, 3 steps", "A, 2 steps", "B, 2 steps"]
    assert [column.evaluations for column in compared.result.columns] == [6, 4, 4]
    assert between.distance == other.distance
    assert other.distance is not None
    assert other.distance.psnr_db is not None
    for one, same in zip(compared.images[1], compared.images[2], strict=True):
        assert np.array_equal(one.latents, same.latents)
    alone = Pipeline(open_model(ComparedModel(small), 1).bundle, open_model(ComparedModel(small), 1).backend)
    wanted = alone.generate(PROMPTS[1], seed=6, steps=3)
    assert np.abs(wanted.latents - compared.images[0][1].latents).max() < 1e-4 * np.abs(wanted.latents).max()
    assert [(image.prompt, image.seed) for image in first.images] == [*zip(PROMPTS, [5, 6, 7], strict=True)]


def test_each_side_has_its_own_settings_and_one_pass_is_one_evaluation(small: Path) -> None:
    guided = ComparedModel(small, steps=2, guidance=3.0)
    plain = ComparedModel(small, steps=3, guidance=1.0, scheduler="euler")
    result = compare(guided, plain, PROMPTS[:1], perceptual=False).result
    found = [(c.steps, c.guidance, c.passes, c.evaluations, c.scheduler) for c in result.columns]
    ddim, euler = "ddim, epsilon", "euler, epsilon"
    assert found == [(2, 3.0, 2, 4, ddim), (3, 3.0, 2, 6, ddim), (3, 1.0, 1, 3, euler)]
    assert result.other.distance is not None
    assert (result.other.distance.ssim, result.other.distance.hash_distance) == (None, None)


def image(latents: np.ndarray, pixels: np.ndarray, prompt: str = "red") -> GeneratedImage:
    metadata = {"prompt": prompt, "seed": 3, "backend": "cpu", "scheduler": "ddim, epsilon"}
    return GeneratedImage(pixels, latents.astype(np.float32), metadata)


def test_distances_are_what_they_say() -> None:
    random = np.random.default_rng(2)
    pixels = random.integers(0, 256, (16, 24, 3)).astype(np.uint8)
    moved = (pixels.astype(int) + random.integers(-3, 4, pixels.shape)).clip(0, 255).astype(np.uint8)
    latents, other = random.normal(size=(2, 1, 2, 3, 4))
    found = distance(image(latents, pixels), image(other, moved), perceptual=False)
    errors = (pixels.astype(float) - moved) ** 2
    assert found.psnr_db == pytest.approx(10 * math.log10(255**2 / errors.mean()))
    rmse = math.sqrt(np.mean((latents - other) ** 2))
    assert found.latent_psnr_db == pytest.approx(20 * math.log10(np.abs(latents).max() / rmse), rel=1e-5)
    assert found.latent_error == pytest.approx(rmse / math.sqrt(np.mean(latents**2)), rel=1e-5)


def test_the_median_counts_equal_images_as_infinitely_close() -> None:
    def far(decibels: float | None) -> ImageDistance:
        return ImageDistance(decibels, decibels, 0.5 if decibels else 0.0)

    assert median_distance([far(20.0), far(None), far(30.0)]) == far(30.0)
    assert median_distance([far(None), far(30.0), far(None)]).psnr_db is None
    assert median_distance([far(10.0), far(30.0)]).psnr_db == 20.0
    assert median_distance([far(None), far(5.0)]).psnr_db == 5.0, "half of the images differ"


@pytest.mark.parametrize(("limit", "holds"), [(None, True), (-1000.0, True), (1000.0, False)])
def test_the_gate_is_on_the_other_s_median(compared: Comparison, limit: float | None, holds: bool) -> None:
    values = {**vars(compared.result), "at_least_db": limit}
    broken = ComparisonResult(**values).broken
    assert (broken is None) == holds
    if broken:
        assert "the median PSNR of B, 2 steps is" in broken
        assert broken.endswith("dB, below 1000 dB")


def plan_of(folder: Path) -> ColumnPlan:
    return ColumnPlan("A, 1 step", open_model(ComparedModel(folder)), 1, 2)


def test_attributes_are_those_that_captions_name(small: Path) -> None:
    two = "two red circles over a plain green background"
    wrong = "one blue star over a plain green background"
    drawn = draw(Scene(2, "red", "circle", "left", "green", "plain"), 5)
    images = [image(noise(0, (1, 2, 2, 4)), drawn, caption) for caption in (two, wrong)]
    column = measure_column(GeneratedColumn(plan_of(small), images, 2.0), None)
    assert [each.wrong for each in column.images] == [(), ("count", "colour", "kind")]
    assert [each.attributes for each in column.images] == pytest.approx([1.0, 0.4])
    assert (column.attributes, column.all_attributes) == (pytest.approx(0.7), 0.5)
    assert column.attributes_by_name == {
        **dict.fromkeys(("count", "colour", "kind"), 0.5),
        **dict.fromkeys(("background", "pattern"), 1.0),
    }
    assert column.seconds_per_image == 1.0


def test_other_prompts_and_other_sizes_have_no_attributes(small: Path, compared: Comparison) -> None:
    caption = "one blue star over a plain green background"
    drawn = draw(Scene(1, "blue", "star", "left", "green", "plain"), 5)
    mixed = [image(noise(0, (1, 2, 2, 4)), drawn, prompt) for prompt in (caption, "an owl")]
    half = [image(noise(0, (1, 2, 2, 4)), drawn[:64, :64], caption)]
    for images in (mixed, half):
        column = measure_column(GeneratedColumn(plan_of(small), images, 1.0), None)
        assert (column.attributes, column.images[0].wrong, column.attributes_by_name) == (None, None, None)
    assert compared.result.other.attributes is None


def test_a_checkpoint_s_images_are_those_of_its_converted_files(demo_float: Path) -> None:
    prompts = captions("held-back", 3, 4)
    result = compare(ComparedModel(demo_float, steps=4), ComparedModel(CHECKPOINT, steps=4), prompts).result
    assert result.other.distance is not None
    far = [each.distance.psnr_db for each in result.other.images if each.distance]
    assert len(far) == 3
    assert all(value is None or value >= 60 for value in far)
    assert result.columns[0].backend == "cpu"
    assert result.other.backend.startswith("PyTorch on ")
    assert result.other.attributes is not None
    assert result.other.attributes == result.columns[0].attributes


def test_generating_and_scoring_needs_neither_tensorflow_nor_scikit_image(small: Path) -> None:
    script = f"""
import sys
for name in ("tensorflow", "keras", "skimage", "scipy", "matplotlib", "imagehash", "platformdirs"):
    sys.modules[name] = None
from pathlib import Path
from msd.train.comparison.compare import compare
from msd.train.comparison.columns import measure_column
from msd.train.comparison.model import ComparedModel
from msd.models.demo.scorer import score
model = ComparedModel(Path({str(small)!r}), steps=1)
result = compare(model, model, ["red"], perceptual=False).result
import numpy
print(result.other.distance.latent_error, score(numpy.zeros((128, 128, 3), "uint8"), "one red star"))
"""
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "0.0 0.0\n"


def test_models_of_other_sizes_are_refused(small: Path, tmp_path: Path) -> None:
    write(tmp_path, vary(TINY, unet={"sample_size": [12, 8]}))
    with pytest.raises(BadConfig, match=r"shape \[8, 12, 4\] and those of .* \[12, 8, 4\]"):
        compare(ComparedModel(small), ComparedModel(tmp_path), PROMPTS)


def test_images_of_other_sizes_from_the_same_latents_are_refused(small: Path, tmp_path: Path) -> None:
    one = {"block_out_channels": [8], "down_block_types": ["DownEncoderBlock2D"]}
    one |= {"up_block_types": ["UpDecoderBlock2D"]}
    write(tmp_path / "large", vary(TINY, unet={"sample_size": [8, 12]}, vae=one))
    with pytest.raises(BadConfig, match=r"small makes images of 24x16 pixels and .*large of 12x8, from"):
        compare(ComparedModel(small), ComparedModel(tmp_path / "large"), PROMPTS)


def test_what_is_no_model_is_refused(small: Path, tmp_path: Path) -> None:
    with pytest.raises(BadConfig, match=r"is no model: it has neither the manifest\.json .* model_index"):
        compare(ComparedModel(small), ComparedModel(tmp_path), PROMPTS)


def test_another_network_than_the_manifest_names_is_refused(bundle_folder: Path, tmp_path: Path) -> None:
    """The result would name the model of the manifest."""
    copied = Path(shutil.copytree(bundle_folder, tmp_path / "copied"))
    network = copied / "unet.tflite"
    network.write_bytes(network.read_bytes()[:-1] + b"\1")
    with pytest.raises(BadBundle, match=r"unet\.tflite has another SHA-256 than manifest\.json says"):
        open_model(ComparedModel(copied))


def test_no_prompts_and_impossible_steps_are_refused(small: Path) -> None:
    with pytest.raises(BadConfig, match="no prompts"):
        compare(ComparedModel(small), ComparedModel(small), [])
    with pytest.raises(BadConfig, match="5000 steps are impossible"):
        compare(ComparedModel(small), ComparedModel(small, steps=5000), PROMPTS)


def test_a_missing_package_is_named_with_its_extra(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    present = {"skimage", "imagehash", "torch", "transformers"}
    monkeypatch.setattr(packages, "find_spec", lambda name: object() if name in present else None)
    with pytest.raises(BadConfig, match=r"needs diffusers, and.*pip install 'msd\[train\]' installs it"):
        compare(ComparedModel(small), ComparedModel(small), PROMPTS)
    present -= {"torch", "transformers"}
    with pytest.raises(BadConfig, match=r"clip needs torch and transformers, and"):
        compare(ComparedModel(small), ComparedModel(small), PROMPTS, clip=Path("clip"))
    present.clear()
    with pytest.raises(BadConfig, match=r"needs scikit-image and imagehash, and.*'msd\[regress\]'"):
        compare(ComparedModel(small), ComparedModel(small), PROMPTS)


def test_the_result_is_json_of_its_schema(compared: Comparison) -> None:
    parsed = json.loads(schema.dump(compared.result))
    assert [*violations(parsed, schema.document(ComparisonResult))] == []
    assert schema.read(ComparisonResult, parsed, "it") == compared.result
    assert next(iter(parsed)) == "format"


def test_the_sheet_shows_each_image_in_its_place(compared: Comparison) -> None:
    page = np.asarray(contact_sheet(compared))
    assert page.shape == (HEAD + 3 * (16 + MARGIN), CAPTION + 3 * (24 + MARGIN), 3)
    for number, images in enumerate(compared.images):
        for row, each in enumerate(images):
            top, left = HEAD + row * (16 + MARGIN), CAPTION + number * (24 + MARGIN)
            assert np.array_equal(page[top : top + 16, left : left + 24], each.pixels)
    assert (page[:HEAD, CAPTION:] < 128).any()
    assert (page[HEAD : HEAD + 16, :CAPTION] < 128).any()


def test_a_sheet_of_many_large_images_stays_small(compared: Comparison) -> None:
    count = ROWS + 1
    large = GeneratedImage(np.full((512, 1024, 3), 7, np.uint8), noise(0, (1, 2, 2, 4)), {})
    columns = tuple(
        type(column)(**{**vars(column), "images": column.images[:1] * count})
        for column in compared.result.columns
    )
    result = ComparisonResult(**{**vars(compared.result), "prompts": count, "columns": columns})
    page = contact_sheet(Comparison(result, ([large] * count,) * 3))
    assert page.size == (CAPTION + 3 * (SIDE + MARGIN), HEAD + ROWS * (SIDE // 2 + MARGIN))


def test_a_report_holds_the_result_and_the_sheet(compared: Comparison, tmp_path: Path) -> None:
    folder = tmp_path / "report"
    require_replaceable(folder, force=False)
    write_report(compared, folder)
    assert sorted(path.name for path in folder.iterdir()) == ["result.json", "sheet.png"]
    assert json.loads((folder / "result.json").read_text()) == json.loads(schema.dump(compared.result))
    assert np.array_equal(np.asarray(Image.open(folder / "sheet.png")), np.asarray(contact_sheet(compared)))
    with pytest.raises(OutputExists, match="--force replaces it"):
        require_replaceable(folder, force=False)
    require_replaceable(folder, force=True)
    write_report(compared, folder)


def test_a_bundle_takes_its_manifest_s_defaults(bundle_folder: Path) -> None:
    opened = open_model(ComparedModel(bundle_folder, guidance=2.0))
    images = open_bundle(bundle_folder).manifest.images
    assert (opened.images.steps, opened.images.guidance) == (images.steps, 2.0)
    two, one = (ComparedModel(bundle_folder, steps=steps) for steps in (2, 1))
    result = compare(two, one, PROMPTS, perceptual=False).result
    assert [column.steps for column in result.columns] == [2, 1, 1]
    assert result.columns[1].distance == result.other.distance


def test_seeds_beyond_the_largest_are_refused_before_anything_is_opened(tmp_path: Path) -> None:
    nothing = ComparedModel(tmp_path / "nothing")
    with pytest.raises(BadValue, match="3 images have consecutive seeds, from 9223372036854775806 on"):
        compare(nothing, nothing, PROMPTS, seed=(1 << 63) - 2)
