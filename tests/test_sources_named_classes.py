"""What model_index.json says of components counts: a null, and a class, as in diffusers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from msd.conversion.sources.diffusers import open_folder
from msd.errors import BadCheckpoint
from tests import checkpoints, xl_checkpoints
from tests.late import diffusers


@pytest.fixture(scope="module")
def xl(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("xl") / "xl"
    xl_checkpoints.write(folder)
    return folder


@pytest.fixture(scope="module")
def sd(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sd") / "sd"
    checkpoints.write(folder, checkpoints.TINY)
    return folder


def change(folder: Path, name: str, **values: Any) -> None:
    path = folder / name
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


def refusal(folder: Path, part: str, entry: Any) -> str:
    """Return why the folder is refused once its model_index.json has the `entry` for a `part`."""
    was = (folder / "model_index.json").read_text()
    change(folder, "model_index.json", **{part: entry})
    try:
        with pytest.raises(BadCheckpoint) as caught:
            open_folder(folder)
    finally:
        (folder / "model_index.json").write_text(was)
    return str(caught.value).replace(str(folder), "xl")


@pytest.mark.parametrize("entry", [[None, None], None])
@pytest.mark.parametrize(
    "part", ["text_encoder", "text_encoder_2", "unet", "vae", "tokenizer", "tokenizer_2"]
)
def test_a_component_that_is_null_is_not_read(part: str, entry: Any, xl: Path) -> None:
    """Diffusers loads none, and makes no image then."""
    assert refusal(xl, part, entry) == (
        f"xl/model_index.json says {part} = null, so that diffusers loads none, and every image needs it; the"
        " names of its library and its class are expected there"
    )


def test_a_null_of_what_images_do_without_is_nothing(xl: Path) -> None:
    for part in ("image_encoder", "feature_extractor"):
        change(xl, "model_index.json", **{part: [None, None]})
    assert open_folder(xl).remarks == ()


def test_an_autoencoder_that_is_null_may_be_given(sd: Path) -> None:
    """And then the folder of that name, if there is one, is not read."""
    was = (sd / "model_index.json").read_text()
    change(sd, "model_index.json", vae=[None, None])
    assert "vae_decoder" not in open_folder(sd, vae_is_given=True).weights
    with pytest.raises(BadCheckpoint, match="says vae = null"):
        open_folder(sd)
    (sd / "model_index.json").write_text(was)


@pytest.mark.parametrize(
    ("part", "named", "own"),
    [
        ("vae", "AutoencoderTiny", "_class_name 'AutoencoderKL'"),
        ("unet", "UNet2DModel", "_class_name 'UNet2DConditionModel'"),
        ("text_encoder", "CLIPTextModelWithProjection", "architectures ['CLIPTextModel']"),
    ],
)
def test_a_class_that_is_not_the_config_s_is_refused(part: str, named: str, own: str, xl: Path) -> None:
    library = "transformers" if part.startswith("text") else "diffusers"
    assert refusal(xl, part, [library, named]) == (
        f"xl/model_index.json says that {part} is a {named}, and {part}/config.json that it is of {own};"
        " they must be the same"
    )


def test_an_encoder_with_a_projection_is_read_as_the_plain_one_that_is_named(sd: Path) -> None:
    change(sd, "text_encoder/config.json", architectures=["CLIPTextModelWithProjection"])
    assert open_folder(sd).configs["text_encoder"].width == 48
    pipeline = diffusers.StableDiffusionPipeline.from_pretrained(sd)
    assert type(pipeline.text_encoder).__name__ == "CLIPTextModel"


def test_a_class_counts_where_the_config_names_none(sd: Path) -> None:
    change(sd, "vae/config.json", _class_name=None)
    assert open_folder(sd).configs["vae_decoder"].channels == (8, 12)
    change(sd, "model_index.json", vae=["diffusers", "AutoencoderTiny"])
    with pytest.raises(BadCheckpoint, match=r"vae/config\.json says "):
        open_folder(sd)
