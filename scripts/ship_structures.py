"""Make the structures that ship with msd, or check them: each is traced again and compared by content.

    make structures                                # → msd/models/structures/
    python -m scripts.ship_structures --check      # exit code 3 for one that differs

A structure is the same whatever was traced before it, so that files are rewritten only where one changed.
"""

from __future__ import annotations

import json
import sys
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import click

from msd.conversion.activations import CELLS
from msd.errors import BadModelFile
from msd.files import schema
from msd.files.fingerprint import code_fingerprint
from msd.models.demo import CHECKPOINT
from msd.models.families import Family
from msd.models.families.stable_diffusion import STABLE_DIFFUSION, UPSCALER
from msd.models.families.stable_diffusion_xl import STABLE_DIFFUSION_XL
from msd.models.networks import Network, Size, networks, read_configs, size_of
from msd.models.shipped_structures import (
    CODE,
    FOLDER,
    FORMAT,
    INDEX,
    LIBRARIES,
    StructureIndex,
    read_index,
    shipped_name,
)
from msd.models.structure import Structure, load_structure, save_structure
from msd.models.trace import trace
from msd.models.upscaler_config import TILE, CompactConfig, RrdbConfig

MODELS = Path(__file__).parent.parent / "configs" / "models"
XL = MODELS / "xl"
BATCHES = (1, 2)
TINY = {"_class_name": "AutoencoderTiny"}
"""The config.json of TAESD, which leaves every setting as it is by default."""

UPSCALERS = {
    "RealESRGAN_x4plus": RrdbConfig(scale=4, features=64, growth=32, blocks=23),
    "RealESRGAN_x2plus": RrdbConfig(scale=2, features=64, growth=32, blocks=23),
    "RealESRGAN_x4plus_anime_6B": RrdbConfig(scale=4, features=64, growth=32, blocks=6),
    "realesr-general-x4v3": CompactConfig(scale=4, features=64, convs=32),
    "realesr-animevideov3": CompactConfig(scale=4, features=64, convs=16),
}
"""The networks of the weights that Real-ESRGAN published, by the names of their files."""

Named = tuple[str, Network]
"""A network and what people call it."""


def public_models() -> dict[str, Mapping[str, Any]]:
    """Return the parsed config.json files of each public model, and of the demo, by component's folder."""
    public = {path.stem: tomllib.loads(path.read_text("utf-8")) for path in sorted(MODELS.glob("*.toml"))}
    folders = {component.part.folder for component in STABLE_DIFFUSION.components}
    paths = [CHECKPOINT / folder / "config.json" for folder in sorted(folders)]
    demo = {path.parent.name: json.loads(path.read_text("utf-8")) for path in paths if path.exists()}
    return {"demo": demo, **public}


def networks_of(
    parsed: Mapping[str, Any], batch: int, family: Family = STABLE_DIFFUSION, most_cells: int | None = None
) -> dict[str, Network]:
    """Return the networks of a model, by component, for images of its own size, or of fewer cells."""
    configs = read_configs(family, parsed)
    size = size_of(family, configs, batch=batch)
    if most_cells:
        size = replace(size, rows=min(size.rows, most_cells), columns=min(size.columns, most_cells))
    return networks(family, configs, size)


def public_networks() -> Iterator[Named]:
    """Yield every network that a structure ships of; several are the same under different names."""
    for model, parsed in public_models().items():
        for batch in BATCHES:
            for component, network in networks_of(parsed, batch).items():
                yield f"{model} {component}, batch {batch}", network
            if model != "demo":
                tiny = networks_of({**parsed, "vae": TINY}, batch)
                for component in ("vae_encoder", "vae_decoder"):
                    yield f"{model} with TAESD {component}, batch {batch}", tiny[component]
    yield from _of_xl()
    size = Size(rows=TILE, columns=TILE, scale=1)
    for name, config in UPSCALERS.items():
        yield name, networks(STABLE_DIFFUSION, {UPSCALER.name: config}, size)[UPSCALER.name]


def _of_xl() -> Iterator[Named]:
    """Yield the networks of Stable Diffusion XL, and those that a conversion measures activations in."""
    for path in sorted(XL.glob("*.toml")):
        parsed = tomllib.loads(path.read_text("utf-8"))
        for batch in BATCHES:
            for component, network in networks_of(parsed, batch, STABLE_DIFFUSION_XL).items():
                yield f"{path.stem} {component}, batch {batch}", network
        small = networks_of(parsed, 1, STABLE_DIFFUSION_XL, CELLS)
        for component in ("vae_encoder", "vae_decoder"):
            yield f"{path.stem} {component}, {CELLS} cells a side", small[component]


def by_file() -> dict[str, list[Named]]:
    """Return the networks by the name of the file that has their structure, each network once."""
    found: dict[str, list[Named]] = {}
    for name, network in public_networks():
        found.setdefault(shipped_name(network), []).append((name, network))
    return found


def fresh_index() -> StructureIndex:
    """Return the index of structures that are made here and now."""
    libraries = {name: version(name) for name in LIBRARIES}
    names = {file: tuple(name for name, _ in same) for file, same in sorted(by_file().items())}
    return StructureIndex(FORMAT, code_fingerprint(*CODE), libraries, names)


def stored(file: str) -> Structure | None:
    """Return the structure that ships under the name `file`, or None where it is missing or damaged."""
    with suppress(BadModelFile):
        return load_structure(FOLDER / f"{file}.zip")
    return None


def differing() -> Iterator[tuple[str, str, Structure]]:
    """Yield the file, the name and the fresh trace of each structure that is not what ships."""
    for file, ((name, network), *_) in by_file().items():
        fresh = trace(network.build, network.inputs)
        if stored(file) != fresh:
            yield file, name, fresh


def check() -> list[str]:
    """Return a sentence for everything that is not as `make structures` would leave it."""
    old, now = read_index(), fresh_index()
    wrong = [f"{name} differs from a fresh trace" for _, name, _ in differing()]
    wrong += [f"{path.name} belongs to no public network" for path in left_over()]
    return wrong if old == now else [*wrong, f"{INDEX} says {old}, and {now} would be right"]


def left_over() -> list[Path]:
    """Return the files of structures that no public network has any more."""
    return [path for path in sorted(FOLDER.glob("*.zip")) if path.stem not in by_file()]


def make() -> None:
    """Write what changed, delete what no network needs, and write the index last."""
    FOLDER.mkdir(exist_ok=True)
    for file, name, structure in differing():
        save_structure(structure, FOLDER / f"{file}.zip")
        click.echo(f"{file}.zip: {name}")
    for path in left_over():
        path.unlink()
    (FOLDER / INDEX).write_text(schema.dump(fresh_index()), "utf-8")
    total = sum(path.stat().st_size for path in FOLDER.iterdir())
    click.echo(f"{len(by_file())} structures, {total / 1e6:.2f} MB in all")


@click.command()
@click.option("--check", "only_check", is_flag=True, help="Write nothing; say what differs.")
def main(only_check: bool) -> None:
    """Make the structures of the public configurations, or check them."""
    if not only_check:
        make()
    elif wrong := check():
        click.echo("\n".join(wrong))
        sys.exit(3)
    else:
        click.echo(f"each of {len(by_file())} structures equals a fresh trace")


if __name__ == "__main__":
    main()
