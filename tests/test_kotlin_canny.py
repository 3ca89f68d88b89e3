"""The edges that the Kotlin sources find in a picture are those of `msd generate --from-photo`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from msd.export.app.manifest import NAME, dump_manifest, load_manifest
from tests.app_bundles import write_app
from tests.edge_pictures import PICTURES, require_edges
from tests.jvm import Jvm, Refused


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_app(tmp_path_factory.mktemp("edges") / "app")


def found(kotlin: Jvm, app: Path, picture: np.ndarray, size: tuple[int, ...]) -> np.ndarray:
    """Return the colours of the edges, for a model of the size."""
    whole = load_manifest(app / NAME)
    rgb = picture.astype(np.int64)
    argb = (rgb[..., 0] << 16 | rgb[..., 1] << 8 | rgb[..., 2]) - (1 << 24)
    try:
        (app / NAME).write_text(dump_manifest(replace(whole, height=size[0], width=size[1])), "utf-8")
        return np.array(kotlin.ask("edges", folder=str(app), argb=argb.ravel().tolist()))
    finally:
        (app / NAME).write_text(dump_manifest(whole), "utf-8")


@pytest.mark.parametrize("name", PICTURES)
def test_edges_are_the_runtime_s(name: str, kotlin: Jvm, app: Path) -> None:
    picture = PICTURES[name]
    colours = found(kotlin, app, picture, picture.shape[:2])
    black, white = -1 << 24, -1
    assert set(np.unique(colours)) <= {black, white}
    require_edges(colours == white, picture)


def test_a_picture_of_another_size_is_refused(kotlin: Jvm, app: Path) -> None:
    picture = PICTURES["noise"]
    with pytest.raises(Refused, match="BadRequest: the picture should have 50 times 65 pixels"):
        found(kotlin, app, picture, (65, 50))
