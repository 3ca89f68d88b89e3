"""One image size of a converted folder that has several: a folder as if converted for that size alone.

LiteRT compiles every signature of a file, and a GPU then keeps the weights once for each: docs/sizes.md has
the measurement. So commands run a file with the graph of one size, written to a temporary folder.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from msd.bundle import MANIFEST, Bundle, ConvertedFile, ImageSize, dump_manifest, file_facts
from msd.conversion.sizes.share import alone
from msd.errors import BadConfig, MsdError
from msd.files.scratch import scratch_folder
from msd.files.wording import listed
from msd.graph import tflite
from msd.graph.ir import SIGNATURE, Model
from msd.graph.ir.interface import Interface


@contextmanager
def one_size(bundle: Bundle, size: ImageSize | None = None, tiles: bool = False) -> Iterator[Bundle]:
    """Yield the bundle of one of its sizes, by default the first, for a `with` block.

    A bundle of one size is yielded itself. With `tiles`, its autoencoder is that of a smaller size.
    Raises BadConfig for a size that it lacks, and for tiles of a bundle without a smaller one.
    """
    chosen = find_size(bundle, size)
    tile = find_tile(bundle, chosen) if tiles else None
    if not bundle.manifest.configuration.sizes:
        yield bundle
        return
    with scratch_folder() as scratch:
        picked = write_size(bundle, chosen, scratch / bundle.folder.resolve().name, tile)
        with _named(picked.folder, bundle.folder):
            yield picked


@contextmanager
def _named(folder: Path, original: Path) -> Iterator[None]:
    """Make errors of the `with` block that name `folder` name `original`, which their reader knows."""
    try:
        yield
    except MsdError as error:
        error.rename(str(folder), str(original))
        raise


def find_size(bundle: Bundle, size: ImageSize | None) -> ImageSize:
    """Return `size`, or the first size for None; raises BadConfig for a size that the bundle lacks."""
    sizes = bundle.manifest.configuration.all_sizes
    if size is not None and size not in sizes:
        has = listed(sizes)
        raise BadConfig(f"{bundle.folder} has no size {size}, it has {has}; msd-convert --size adds sizes")
    return sizes[0] if size is None else size


def find_tile(bundle: Bundle, size: ImageSize) -> ImageSize | None:
    """Return the largest size whose images are tiles of those of `size`; None where tiles are all there is.

    Raises BadConfig for a bundle without a smaller size.
    """
    configuration = bundle.manifest.configuration
    if configuration.vae_tile and configuration.vae_tile < max(size.width, size.height):
        return None
    inside = [
        each
        for each in configuration.all_sizes
        if each != size and each.width <= size.width and each.height <= size.height
    ]
    if not inside:
        raise BadConfig(
            f"{bundle.folder} decodes images of {size} at once: for tiles convert it with --vae-tile, or for"
            " a smaller --size too"
        )
    return max(inside, key=lambda each: each.width * each.height)


def write_size(bundle: Bundle, size: ImageSize, folder: Path, tile: ImageSize | None = None) -> Bundle:
    """Write the bundle of one size to the new `folder` and return it; files of every size are links.

    The autoencoder is that of `tile`, if there is one.
    """
    folder.mkdir()
    for path in bundle.folder.resolve().iterdir():
        if path.name != MANIFEST:
            (folder / path.name).symlink_to(path)
    manifest = bundle.manifest
    of = dict.fromkeys(bundle.family.tiled, tile or size)
    parts = {
        name: _picked(bundle, part, of.get(name, size), folder) for name, part in manifest.components.items()
    }
    settings = replace(manifest.configuration, width=size.width, height=size.height, sizes=())
    picked = Bundle(folder, replace(manifest, configuration=settings, components=parts))
    (folder / MANIFEST).write_text(dump_manifest(picked.manifest), "utf-8")
    return picked


def write_signature(file: Path, key: str, path: Path) -> Model:
    """Write to `path` the file of the signature `key` of `file` alone, and return its model."""
    model = alone(tflite.read(file), key, SIGNATURE)
    tflite.write(model, path)
    return model


def _picked(bundle: Bundle, part: ConvertedFile, size: ImageSize, folder: Path) -> ConvertedFile:
    """Write the file of one size in place of the link to that of all; return its description."""
    if not part.signatures:
        return part
    path = folder / part.file
    path.unlink()
    model = write_signature(bundle.folder / part.file, str(size), path)
    facts, ports = file_facts(path), Interface.of(model, path)
    return replace(
        part,
        sha256=facts.sha256,
        bytes=facts.bytes,
        operations=len(model.main.ops),
        inputs=tuple(ports.inputs.values()),
        outputs=tuple(ports.outputs.values()),
        signatures=(),
    )
