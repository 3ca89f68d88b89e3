"""Upscalers: their numbers beside PyTorch's, tiles without seams, and `msd generate --upscale`."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from PIL import Image

from msd.bundle import Bundle, open_bundle
from msd.cli.bench import bench
from msd.cli.convert import convert
from msd.cli.export import export_android, export_files
from msd.cli.generate import generate
from msd.graph.parity import psnr
from msd.run.runners.engine import Engine
from msd.run.runners.registry import find_backend
from msd.run.runners.runner import Conditions
from msd.run.runtime.components import LoadedNetwork, open_component
from msd.run.runtime.tiles import Tiling, joined_rows, spans
from msd.run.runtime.upscale import scale_of, upscale
from tests import photos, upscalers
from tests.upscalers import KINDS

UPSCALER = "upscaler"


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("upscalers")
    upscalers.write_sources(folder, KINDS)
    return folder


@pytest.fixture(scope="module", params=[*KINDS])
def converted(request: pytest.FixtureRequest, source: Path) -> tuple[Bundle, torch.nn.Module]:
    """A bundle of the upscaler alone in float32, whose tiles are 64 by 48, and the network in PyTorch."""
    kind, settings = KINDS[request.param]
    return upscalers.convert_alone(source, request.param, "float32"), upscalers.make(kind, **settings)


@contextmanager
def opened(bundle: Bundle) -> Iterator[LoadedNetwork]:
    with open_component(bundle, UPSCALER, Engine(find_backend("cpu"), Conditions())) as network:
        yield network


def tile_of(network: LoadedNetwork, scale: int, image: np.ndarray) -> np.ndarray:
    """Return what the network makes of a tile in [0, 1]."""
    made = network.rows("enlarged", {"image": image[None] * 2 - 1})
    return made.reshape(scale * image.shape[0], scale * image.shape[1], 3) / 2 + 0.5


def photo(rows: int, columns: int) -> np.ndarray:
    return photos.colours(rows, columns, seed=3)[..., :3]


def levels(image: np.ndarray) -> np.ndarray:
    return np.round(np.clip(image, 0, 1) * 255)


def test_the_numbers_are_pytorchs(converted: tuple[Bundle, torch.nn.Module]) -> None:
    bundle, network = converted
    image = photo(64, 48).astype(np.float32) / 255
    with opened(bundle) as own:
        assert psnr(tile_of(own, scale_of(bundle), image), upscalers.enlarged(network, image)) > 100


@pytest.mark.parametrize("name", ["large-4", "compact-4"])
def test_int8_is_near(source: Path, name: str) -> None:
    kind, settings = KINDS[name]
    image = photo(64, 48).astype(np.float32) / 255
    with opened(upscalers.convert_alone(source, name, "gpu-w8")) as network:
        made = tile_of(network, 4, image)
    assert psnr(made, upscalers.enlarged(upscalers.make(kind, **settings), image)) > 38


@pytest.mark.parametrize(("rows", "columns"), [(150, 97), (64, 131), (65, 48), (200, 202)])
def test_tiles_are_the_whole(converted: tuple[Bundle, torch.nn.Module], rows: int, columns: int) -> None:
    bundle, network = converted
    image = photo(rows, columns)
    with opened(bundle) as own:
        tiled = upscale(bundle, own, image)
    scale = scale_of(bundle)
    even = np.pad(image, ((0, rows % 2), (0, columns % 2), (0, 0)), "edge") if scale == 2 else image
    whole = levels(upscalers.enlarged(network, even.astype(np.float32) / 255))[
        : scale * rows, : scale * columns
    ]
    assert tiled.shape == (scale * rows, scale * columns, 3)
    assert tiled.dtype == np.uint8
    assert psnr(tiled / 255, whole / 255) > 40
    error = np.abs(tiled - whole)
    assert error.max() <= 1, "a seam would be a step"


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (20, 90), (63, 47)])
def test_a_small_image_is_continued(
    converted: tuple[Bundle, torch.nn.Module], rows: int, columns: int
) -> None:
    bundle, network = converted
    image, scale = photo(rows, columns), scale_of(bundle)
    size = max(rows, 64), max(columns + columns % 2, 48)
    larger = np.pad(image, ((0, size[0] - rows), (0, size[1] - columns), (0, 0)), "edge")
    with opened(bundle) as own:
        made = upscale(bundle, own, image)
    whole = levels(upscalers.enlarged(network, larger.astype(np.float32) / 255))
    assert psnr(made / 255, whole[: scale * rows, : scale * columns] / 255) > 40


@pytest.mark.parametrize(
    ("size", "tile", "overlap", "multiple"),
    [
        (512, 192, 32, 1),
        (192, 192, 32, 2),
        (194, 192, 32, 2),
        (1000, 64, 32, 2),
        (97, 48, 24, 1),
        (65, 64, 8, 1),
    ],
)
def test_shares_of_spans_are_one(size: int, tile: int, overlap: int, multiple: int) -> None:
    found, total = spans(size, tile, overlap, multiple), np.zeros(size)
    for span in found:
        assert span.start % multiple == 0
        assert len(span.shares) == tile
        total[span.start : span.start + tile] += span.shares
        inside = span.shares[overlap // 4 : -(overlap // 4)]
        edges = np.concatenate([span.shares[: overlap // 4], span.shares[-(overlap // 4) :]])
        assert span in (found[0], found[-1]) or not edges.any(), "the edge of a tile counts"
        assert inside.any()
    assert np.allclose(total, 1, atol=1e-6)
    assert found[0].start == 0
    assert found[-1].start + tile == size
    assert all(b.start + overlap <= a.start + tile for a, b in pairwise(found))


def test_a_usual_image_takes_nine_tiles() -> None:
    assert [span.start for span in spans(512, 192, 32)] == [0, 160, 320]


def test_memory_is_that_of_a_row_of_tiles() -> None:
    def peak(rows: int) -> int:
        def run(down: slice, across: slice) -> np.ndarray:
            return np.ones((4 * 32, 4 * 32, 3), np.float32)

        tracemalloc.start()
        count = sum(len(part) for part in joined_rows(rows, 200, Tiling(32, 32, 8), 4, run))
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert count == 4 * rows
        return most

    assert peak(4000) < 1.5 * peak(250)


def test_generate_enlarges(source: Path) -> None:
    out = source / "whole"
    options = ["--upscaler", source / "compact-4.pth", "--steps", "2"]
    result = CliRunner().invoke(convert, [*map(str, [source / "source", "-o", out, *options])])
    assert result.exit_code == 0, result.output
    for name, more in (("plain", []), ("larger", ["--upscale", "4"])):
        result = CliRunner().invoke(generate, [str(out), "-p", "a hill", "-o", f"{source}/{name}.png", *more])
        assert result.exit_code == 0, result.output
    plain, larger = (Image.open(source / f"{name}.png") for name in ("plain", "larger"))
    assert larger.size == tuple(4 * n for n in plain.size)
    assert larger.text["upscale"] == "4" if "upscale" in larger.text else "upscale" in str(larger.text)
    bundle = open_bundle(out)
    with opened(bundle) as network:
        assert np.array_equal(np.asarray(larger), upscale(bundle, network, np.asarray(plain)))
    refused = CliRunner().invoke(generate, [str(out), "-p", "a hill", "--upscale", "2"])
    assert refused.exit_code == 1
    assert f"the upscaler of {out} enlarges 4 times, not 2" in refused.output


def test_generate_without_an_upscaler_is_refused(source: Path) -> None:
    out = source / "without"
    result = CliRunner().invoke(convert, [str(source / "source"), "-o", str(out)])
    assert result.exit_code == 0, result.output
    refused = CliRunner().invoke(generate, [str(out), "-p", "a hill", "--upscale", "4"])
    assert refused.exit_code == 1
    assert "has no upscaler; msd-convert CHECKPOINT --upscaler PATH -o OUT writes one" in refused.output
    wanting = CliRunner().invoke(
        convert, [str(source / "source"), "-o", str(source / "n"), "--also", UPSCALER]
    )
    assert "has no weights of the upscaler; --upscaler gives some" in wanting.output


@pytest.fixture(scope="module")
def for_apps(source: Path) -> Path:
    out = source / "for-apps"
    options = ["--upscaler", source / "compact-2.pth"]
    assert CliRunner().invoke(convert, [*map(str, [source / "source", "-o", out, *options])]).exit_code == 0
    return out


def test_files_for_an_app_have_the_upscaler(source: Path, for_apps: Path) -> None:
    result = CliRunner().invoke(export_files, [str(for_apps), "-o", str(source / "files")])
    assert result.exit_code == 0, result.output
    models = source / "files/SDModels"
    manifest = json.loads((models / "sd-manifest.json").read_text())
    rows, columns = open_bundle(for_apps).component(UPSCALER).inputs[0].shape[1:3]
    assert manifest["upscaler"] == {
        "role": UPSCALER,
        "input": "image",
        "output": "enlarged",
        "scale": 2,
        "tiles": {"rows": rows, "columns": columns, "overlap": min(rows, columns, 64) // 2, "multiple": 2},
    }
    assert (models / "upscaler.tflite").read_bytes() == (for_apps / "upscaler.tflite").read_bytes()
    assert UPSCALER in [file["role"] for file in manifest["files"]]
    assert UPSCALER not in [call["component"] for call in manifest["calls"]]


def test_android_apps_have_the_upscaler(source: Path, for_apps: Path) -> None:
    result = CliRunner().invoke(export_android, [str(for_apps), "-o", str(source / "android")])
    assert result.exit_code == 0, result.output
    (placed,) = (source / "android").rglob("upscaler.tflite")
    assert placed.read_bytes() == (for_apps / "upscaler.tflite").read_bytes()
    assert json.loads((placed.parent / "sd-manifest.json").read_text())["upscaler"]["scale"] == 2


def test_a_folder_of_an_upscaler_alone_is_measured(source: Path) -> None:
    bundle = upscalers.convert_alone(source, "compact-2", "float16")
    result = CliRunner().invoke(bench, [str(bundle.folder), "--backend", "litert-cpu", "--max-seconds", "1"])
    assert result.exit_code == 0, result.output
    assert UPSCALER in result.output
