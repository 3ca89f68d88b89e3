"""An autoencoder that runs in tiles: how near it is to the whole one, and where tiles are refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner, Result
from PIL import Image

from msd.bundle import Bundle, open_bundle
from msd.cli.convert import convert
from msd.cli.export import export_files
from msd.cli.generate import generate
from msd.cli.report import report
from msd.graph.parity import psnr
from msd.measure.report import phrases
from msd.run.runners.engine import Engine
from msd.run.runners.registry import find_backend
from msd.run.runners.runner import Conditions
from msd.run.runtime.components import open_component
from msd.run.runtime.decode import decode_latent, decoder_runs
from msd.run.runtime.image_encoder import encode_pixels
from msd.run.runtime.pipeline import Pipeline
from tests import checkpoints, photos, tiny_autoencoders
from tests.jvm import Jvm, interpreted
from tests.late import diffusers

ENCODER, DECODER = "vae_encoder", "vae_decoder"
HEIGHT, WIDTH, CELL = 128, 96, 2
Convert = Callable[..., Bundle]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tiles")
    checkpoints.write(folder / "source", checkpoints.TINY)
    tiny_autoencoders.write(folder / "taesd", **tiny_autoencoders.SHALLOW)
    return folder


def converted(folder: Path, *options: object, out: str) -> Result:
    more = ["--recipe", "float32", *options]
    return CliRunner().invoke(convert, [*map(str, [folder / "source", "-o", folder / out, *more])])


@pytest.fixture(scope="module")
def autoencoder(folder: Path) -> Convert:
    """A function that converts the two halves of an autoencoder alone, each kind once."""

    def made(*options: object) -> Bundle:
        out = "-".join(["halves", *(str(each).strip("-").replace("/", "") for each in options)])
        if not (folder / out).exists():
            size = ["--height", HEIGHT, "--width", WIDTH, "--component", ENCODER, "--component", DECODER]
            result = converted(folder, *size, *options, out=out)
            assert result.exit_code == 0, result.output
        return open_bundle(folder / out)

    return made


def decoded(bundle: Bundle, latent: np.ndarray) -> np.ndarray:
    with open_component(bundle, DECODER, Engine(find_backend("cpu"), Conditions())) as network:
        return decode_latent(network, "latent", "image", latent)


def encoded(bundle: Bundle, image: np.ndarray) -> np.ndarray:
    initial = next(call for call in bundle.family.calls if call.component == ENCODER)
    file = bundle.component(ENCODER)
    outputs = tuple(o for o in initial.outputs if o.tensor == file.outputs[0].name)
    call = type(initial)(initial.component, initial.when, initial.inputs, outputs)
    with open_component(bundle, ENCODER, Engine(find_backend("cpu"), Conditions())) as network:
        return encode_pixels(call, network, {"image": image}, {}, seed=5)[outputs[0].value]


def latent() -> np.ndarray:
    return np.random.default_rng(2).normal(size=(1, HEIGHT // CELL, WIDTH // CELL, 4)).astype(np.float32)


def photo() -> np.ndarray:
    return photos.colours(HEIGHT, WIDTH, seed=1)[None, ..., :3] / np.float32(127.5) - 1


def test_a_tiny_autoencoder_in_tiles_is_the_whole_one(autoencoder: Convert, folder: Path) -> None:
    whole, tiles = (autoencoder("--vae", folder / "taesd", *more) for more in ((), ("--vae-tile", 56)))
    assert tiles.component(DECODER).inputs[0].shape == (1, 28, 28, 4)
    assert psnr(decoded(whole, latent()), decoded(tiles, latent())) > 60
    assert psnr(encoded(whole, photo()), encoded(tiles, photo())) > 60


def test_group_norms_of_tiles_differ_less_than_in_diffusers(autoencoder: Convert, folder: Path) -> None:
    """A group norm of a tile has not the mean of the image: no way of joining tiles can be exact."""
    whole, tiles = autoencoder(), autoencoder("--vae-tile", 48)
    own = decoded(whole, latent())
    vae = diffusers.AutoencoderKL.from_pretrained(folder / "source" / "vae").eval()
    vae.tile_latent_min_size, vae.tile_sample_min_size = 24, 48
    vae.enable_tiling()
    z = torch.from_numpy(latent()).permute(0, 3, 1, 2) / vae.config.scaling_factor
    with torch.no_grad():
        theirs = vae.decode(z).sample[0].permute(1, 2, 0).numpy()
    made = decoded(tiles, latent())
    assert made.shape == own.shape
    assert psnr(own, made) > max(25, psnr(own, theirs))
    assert psnr(encoded(whole, photo()), encoded(tiles, photo())) > 15


def test_no_step_where_tiles_meet(autoencoder: Convert) -> None:
    made = decoded(autoencoder("--vae-tile", 48), latent())
    own = decoded(autoencoder(), latent())
    error = (made - own).mean(-1)
    for axis, size in ((0, HEIGHT), (1, WIDTH)):
        steps = np.abs(np.diff(error, axis=axis)).mean(1 - axis)
        assert steps.max() < 3 * np.median(steps), f"a seam along axis {axis} of {size}"


@pytest.fixture(scope="module")
def images(folder: Path) -> dict[str, np.ndarray]:
    """Images of one seed by a bundle of two sizes, whole and in tiles, and by one for tiles alone."""
    two = converted(folder, "--size", "64x64", "--size", "32x32", "--also", ENCODER, out="two")
    alone = converted(folder, "--height", 64, "--width", 64, "--vae-tile", 32, "--also", ENCODER, out="alone")
    assert (two.exit_code, alone.exit_code) == (0, 0), two.output + alone.output
    Image.fromarray(photos.colours(64, 64, seed=4)[..., :3]).save(folder / "photo.png")
    found = {}
    for name, bundle, *more in (
        ("whole", "two"),
        ("tiles", "two", "--tiles"),
        ("alone", "alone"),
        ("asked", "alone", "--tiles"),
    ):
        for kind, extra in (("text", []), ("image", ["--image", folder / "photo.png", "--strength", "0.5"])):
            path = folder / f"{name}-{kind}.png"
            arguments = [folder / bundle, "-p", "a hill", "--steps", 2, "-o", path, *more, *extra]
            result = CliRunner().invoke(generate, [*map(str, arguments)])
            assert result.exit_code == 0, result.output
            found[f"{name} {kind}"] = np.asarray(Image.open(path)).astype(float)
    return found


def test_a_decoder_runs_for_each_tile(images: dict[str, np.ndarray], folder: Path) -> None:
    assert decoder_runs(open_bundle(folder / "alone")) == 9
    assert decoder_runs(open_bundle(folder / "two")) == 1


@pytest.mark.parametrize("kind", ["text", "image"])
def test_generate_in_tiles(images: dict[str, np.ndarray], kind: str) -> None:
    tiles = images[f"tiles {kind}"]
    assert np.array_equal(tiles, images[f"alone {kind}"]), "a smaller size is a tile"
    assert np.array_equal(tiles, images[f"asked {kind}"])
    assert tiles.shape == (64, 64, 3)
    assert not np.array_equal(tiles, images[f"whole {kind}"])


def test_tiles_of_one_size_are_refused(folder: Path) -> None:
    result = converted(folder, out="plain")
    assert result.exit_code == 0, result.output
    refused = CliRunner().invoke(generate, [str(folder / "plain"), "-p", "a hill", "--tiles"])
    assert refused.exit_code == 1
    assert (
        "decodes images of 32x32 at once: for tiles convert it with --vae-tile, or for a smaller"
        in refused.output
    )
    again = converted(folder, "--vae-tile", 16, out="plain")
    assert "another conversion of this checkpoint (the autoencoder for whole images)" in again.output


@pytest.mark.parametrize(("tile", "least"), [(17, 16), (8, 16)])
def test_other_tiles_are_refused(folder: Path, tile: int, least: int) -> None:
    refused = converted(folder, "--vae-tile", tile, out="refused")
    assert refused.exit_code == 1
    assert f"tiles of {tile} pixels must be a multiple of 2, and at least {least}" in refused.output


def test_what_does_nothing_is_said(folder: Path) -> None:
    result = converted(folder, "--vae-tile", 32, "--component", DECODER, out="large")
    assert "--vae-tile 32 does nothing: images have at most 32 pixels a side" in result.output
    result = converted(folder, "--vae-tile", 16, "--component", "text_encoder", out="text")
    assert "--vae-tile is for vae_encoder and vae_decoder, which this conversion leaves out" in result.output


def test_sizes_of_which_some_take_tiles(folder: Path) -> None:
    sizes = [each for size in ("32x32", "64x64", "16x16") for each in ("--size", size)]
    result = converted(folder, *sizes, "--vae-tile", 32, "--component", DECODER, out="three")
    assert result.exit_code == 0, result.output
    assert open_bundle(folder / "three").component(DECODER).signatures == ("32x32", "64x64", "16x16")


def test_apps_decode_in_tiles(images: dict[str, np.ndarray], folder: Path, kotlin: Jvm) -> None:
    """In Kotlin, with the real networks, which LiteRT's interpreter runs for it."""
    bundle = open_bundle(folder / "alone")
    exported = CliRunner().invoke(
        export_files, [str(bundle.folder), "-o", str(folder / "files"), "--steps", "2"]
    )
    assert exported.exit_code == 0, exported.output
    asked = {"prompt": "a hill", "negative": "", "seed": 7, "steps": 2, "guidance": 7.5}
    with interpreted(bundle) as serve:
        found = kotlin.ask("generate served", serve, folder=str(folder / "files/SDModels"), **asked)
    with Pipeline(bundle, threads=1) as pipeline:
        wanted = pipeline.generate("a hill", seed=7, steps=2, guidance=7.5).pixels
    argb = np.array(found["argb"]).reshape(64, 64)
    assert np.abs(np.stack([argb >> 16 & 255, argb >> 8 & 255, argb & 255], -1) - wanted).max() <= 1
    assert wanted.std() > 5


@pytest.mark.parametrize("form", ["table", "markdown", "html"])
def test_a_report_advises_tiles(
    autoencoder: Convert, monkeypatch: pytest.MonkeyPatch, form: str, tmp_path: Path
) -> None:
    file, out = autoencoder().path(DECODER), tmp_path / "report.txt"
    sentence = "decode in tiles, with msd-convert --vae-tile 512"

    def told() -> bool:
        to_file = [] if form == "table" else ["-o", str(out), "--force"]
        result = CliRunner().invoke(report, ["--no-run", "--format", form, *to_file, str(file)])
        return sentence in (out.read_text() if to_file else result.output)

    assert not told()
    monkeypatch.setattr(phrases, "MOST_ACTIVATIONS", 1_000_000)
    assert told()
