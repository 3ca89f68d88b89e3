"""What is wrong with a folder of keras-cv's .h5 files is said in a sentence; the order at full size."""

from __future__ import annotations

import dataclasses
import hashlib
import re
import shutil
import tomllib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from msd.bundle import load_manifest
from msd.cli.convert import convert as command
from msd.conversion.convert import Settings, convert
from msd.conversion.sources.formats import open_checkpoint
from msd.conversion.sources.keras_cv import networks as keras_cv
from msd.conversion.sources.keras_cv.order import ORDERS, Slot
from msd.conversion.sources.published import PUBLISHED
from msd.errors import BadCheckpoint
from msd.models.config import TextEncoderConfig, UNetConfig
from msd.models.networks import size_of
from msd.models.trace import trace, unallocated
from msd.models.vae_config import VaeDecoderConfig, VaeEncoderConfig
from tests import checkpoints, keras_cv_files, keras_cv_networks

MODELS = Path(__file__).parent.parent / "configs" / "models"
SMALL = checkpoints.vary(
    keras_cv_files.SECOND, text_encoder={"num_hidden_layers": 1, "hidden_size": 64, "intermediate_size": 256}
)
SMALL = checkpoints.vary(SMALL, text_encoder={"num_attention_heads": 1}, unet={"cross_attention_dim": 64})


def orders(config: checkpoints.Config) -> dict[str, list[Slot]]:
    """Return the places of all weights of each component."""
    read = {
        "text_encoder": TextEncoderConfig.from_diffusers(config["text_encoder"], "text_encoder"),
        "unet": UNetConfig.from_diffusers(config["unet"], "unet"),
        "vae_encoder": VaeEncoderConfig.from_diffusers(config["vae"], "vae"),
        "vae_decoder": VaeDecoderConfig.from_diffusers(config["vae"], "vae"),
    }
    return {name: list(order(read[name])) for name, order in ORDERS.items()}


def write(path: Path, slots: Iterable[Slot]) -> None:
    """Write zeros for all of `slots`."""
    layers = {f"layer_{i}": {"w": np.zeros(slot.shape, np.float32)} for i, slot in enumerate(slots)}
    keras_cv_files.write_layers(path, layers)


@pytest.fixture(scope="module", autouse=True)
def indexed_once() -> Iterator[None]:
    with keras_cv_files.indexed_once():
        yield


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("saved")
    for name, slots in orders(SMALL).items():
        write(folder / keras_cv_files.FILES[name], slots)
    return folder


@pytest.fixture
def folder(saved: Path, tmp_path: Path) -> Path:
    """Return a copy that the test may spoil."""
    return shutil.copytree(saved, tmp_path / "copy", copy_function=_linked)


def _linked(source: str, destination: str) -> None:
    Path(destination).hardlink_to(source)


def rewritten(component: str, change: Callable[[list[Slot]], Any]) -> Callable[[Path], None]:
    """Return what writes a component's file again, with other places."""

    def spoil(folder: Path) -> None:
        slots = orders(SMALL)[component]
        change(slots)
        path = folder / keras_cv_files.FILES[component]
        path.unlink()
        write(path, slots)

    return spoil


def resized(index: int, *shape: int) -> Callable[[list[Slot]], None]:
    def change(slots: list[Slot]) -> None:
        slots[index] = Slot("", shape)

    return change


def swapped(first: int, second: int) -> Callable[[list[Slot]], None]:
    def change(slots: list[Slot]) -> None:
        slots[first], slots[second] = slots[second], slots[first]

    return change


REFUSED: dict[str, tuple[Callable[[Path], Any], str]] = {
    "no U-Net": (
        lambda f: (f / "b.h5").unlink(),
        "has no .h5 file with a unet; keras-cv names it diffusion_model_v2_1.h5 or kcv_diffusion_model.h5",
    ),
    "two decoders": (
        lambda f: shutil.copy(f / "c.h5", f / "d.h5"),
        "d.h5 both hold a vae_decoder; leave one",
    ),
    "one too few": (
        rewritten("unet", lambda s: s.pop(-4)),
        "has 685 weights; keras-cv's network so wide has 686",
    ),
    "another order": (
        rewritten("unet", swapped(3, 4)),
        "w:0 in {folder} is conv_in.bias by its place; its shape is [128, 128], and [32] was",
    ),
    "few tokens": (
        rewritten("text_encoder", resized(0, 1000, 64)),
        "knows 1000 tokens; keras-cv's tokenizer",
    ),
    "long prompts": (rewritten("text_encoder", resized(1, 99, 64)), "reads 99 tokens at once"),
    "odd heads": (rewritten("text_encoder", resized(0, 49408, 63)), "is 63 channels wide; a multiple of 64"),
    "odd groups": (rewritten("unet", resized(2, 3, 3, 4, 33)), "is 33 channels wide; a multiple of 32"),
    "odd decoder": (
        rewritten("vae_decoder", resized(2, 3, 3, 4, 96)),
        "is 96 channels wide; a multiple of 128",
    ),
    "odd encoder": (
        rewritten("vae_encoder", resized(0, 3, 3, 3, 48)),
        "is 48 channels wide; a multiple of 32",
    ),
    "no table": (rewritten("text_encoder", resized(0, 64)), "weight 0 is [64]"),
    "only a bias": (rewritten("unet", lambda s: s.__setitem__(slice(0, -2), [])), "weight 2 is []"),
    "another width": (
        rewritten(
            "text_encoder",
            lambda s: s.__setitem__(slice(None), orders(keras_cv_files.SECOND)["text_encoder"]),
        ),
        "attn2.to_k.weight by its place; its shape is [64, 32], and [128, 32] was expected",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_it_is_refused(folder: Path, case: str) -> None:
    spoil, because = REFUSED[case]
    spoil(folder)
    with pytest.raises(BadCheckpoint, match=re.escape(because.format(folder=folder))):
        open_checkpoint(folder)


def test_other_files_of_weights_are_left_alone(folder: Path) -> None:
    write(folder / "other.h5", [Slot("", (1, 1, 8, 7)), Slot("", (7,))])
    keras_cv_files.write_layers(folder / "none.h5", {"input": {}})
    assert list(open_checkpoint(folder).files) == ["a.h5", "b.h5", "c.h5", "e.h5"]


def test_the_encoder_may_be_missing(folder: Path) -> None:
    (folder / "e.h5").unlink()
    found = open_checkpoint(folder)
    assert list(found.weights) == list(found.configs) == ["text_encoder", "unet", "vae_decoder"]
    said = [str(folder), "-o", str(folder / "out"), "--component", "vae_encoder"]
    result = CliRunner().invoke(command, said)
    assert result.exit_code == 1
    assert f"{folder} has no weights of the VAE encoder" in result.stderr


def test_only_its_own_files_are_for_its_own_networks(tmp_path: Path) -> None:
    with pytest.raises(BadCheckpoint, match=r"has no \.h5 files; --source keras-cv wants a folder"):
        open_checkpoint(tmp_path, networks="keras-cv")


def test_its_own_networks_have_one_width(folder: Path, tmp_path: Path) -> None:
    said = [str(folder), "-o", str(tmp_path / "out"), "--source", "keras-cv"]
    result = CliRunner().invoke(command, [*said, "--component", "vae_decoder"])
    assert result.exit_code == 1
    assert (
        "keras-cv's Decoder has decoder.conv_in.weight of the shape [3, 3, 4, 512], "
        "and the checkpoint has [3, 3, 4, 128]; without --source keras-cv it can be converted"
    ) in result.stderr


def test_its_own_networks_have_one_depth(folder: Path) -> None:
    c = open_checkpoint(folder)
    deeper = dataclasses.replace(c.configs["vae_decoder"], resnets=3)
    configs = {**c.configs, "vae_decoder": deeper}
    network = keras_cv.networks(c.family, configs, size_of(c.family, configs, 64, 64))["vae_decoder"]
    with pytest.raises(BadCheckpoint, match="keras-cv's Decoder has 140 weights, and the checkpoint has 172"):
        trace(network.build, network.inputs)


def test_integers_are_refused(folder: Path, tmp_path: Path) -> None:
    (folder / "c.h5").unlink()
    slots = orders(SMALL)["vae_decoder"]
    layers = {f"layer_{i}": {"w": np.zeros(slot.shape, np.int8)} for i, slot in enumerate(slots)}
    keras_cv_files.write_layers(folder / "c.h5", layers)
    with pytest.raises(BadCheckpoint, match="only floating-point weights are supported"):
        convert(folder, tmp_path / "out", Settings([], components=("vae_decoder",), height=64, width=64))


def test_numbers_that_are_not_finite_are_refused(folder: Path, tmp_path: Path) -> None:
    (folder / "c.h5").unlink()
    slots = orders(SMALL)["vae_decoder"]
    layers = {f"layer_{i}": {"w": np.full(slot.shape, np.nan, np.float32)} for i, slot in enumerate(slots)}
    keras_cv_files.write_layers(folder / "c.h5", layers)
    with pytest.raises(BadCheckpoint, match="not finite"):
        convert(folder, tmp_path / "out", Settings([], components=("vae_decoder",), height=64, width=64))
    assert not (tmp_path / "out").exists()


def test_files_that_are_published_are_said_to_be(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sha256 = hashlib.sha256((folder / "c.h5").read_bytes()).hexdigest()
    monkeypatch.setitem(PUBLISHED, sha256, "keras-cv's kcv_decoder.h5")
    said = [str(folder), "-o", str(tmp_path / "out"), "--component", "vae_decoder", "--height", "64"]
    result = CliRunner().invoke(command, [*said, "--width", "64"])
    assert result.exit_code == 0, result.stderr
    assert "c.h5 is keras-cv's kcv_decoder.h5 as published" in result.stdout
    assert load_manifest(tmp_path / "out" / "manifest.json").source.published == {
        "c.h5": "keras-cv's kcv_decoder.h5"
    }


def full_size() -> Iterator[Any]:
    """Yield a public model's name, whether it is of the second form, and a component."""
    for name, second in (("sd21-base", True), ("sd15", False)):
        for component in ORDERS:
            slow = [pytest.mark.slow] if (name, component) == ("sd15", "unet") else []
            yield pytest.param(name, second, component, marks=slow)


@pytest.mark.parametrize(("name", "second", "component"), list(full_size()))
def test_the_order_is_keras_cvs_at_full_size(name: str, second: bool, component: str) -> None:
    config = tomllib.loads((MODELS / f"{name}.toml").read_text())
    with unallocated(), keras_cv_networks.built_once():
        from keras_cv.src.models.stable_diffusion import decoder, diffusion_model, image_encoder, text_encoder

        made = {
            "text_encoder": lambda: getattr(text_encoder, "TextEncoderV2" if second else "TextEncoder"),
            "unet": lambda: getattr(diffusion_model, "DiffusionModelV2" if second else "DiffusionModel"),
            "vae_encoder": lambda: image_encoder.ImageEncoder,
            "vae_decoder": lambda: decoder.Decoder,
        }[component]()
        sizes = {"text_encoder": (77,), "unet": (128, 128, 77), "vae_decoder": (128, 128)}.get(component, ())
        found = [tuple(v.shape) for v in keras_cv.ordered_variables(made(*sizes, download_weights=False))]
    assert found == [slot.shape for slot in orders(config)[component]]


def test_a_decoder_may_come_from_elsewhere(folder: Path) -> None:
    whole = open_checkpoint(folder)
    (folder / "a.h5").rename(folder / "a.weights")
    assert {*open_checkpoint(folder).weights} == {*whole.weights}
    (folder / "c.h5").unlink()
    with pytest.raises(BadCheckpoint, match=r"has no \.h5 file with a vae_decoder; keras-cv names it kcv"):
        open_checkpoint(folder)
    found = open_checkpoint(folder, vae_is_given=True)
    assert {*found.weights} == {*found.configs} == {*whole.weights} - {"vae_decoder"}
