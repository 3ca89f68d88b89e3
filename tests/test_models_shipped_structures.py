"""Structures of public configurations ship with msd; each equals a fresh trace.

`-m slow` and `python -m scripts.ship_structures --check` trace all of them. Of the full-size U-Nets and text
encoders, which take seconds each, tests/test_models_public.py traces two; of the others only the fingerprint
of the code and the versions of the libraries are compared, which hold for all.
"""

from __future__ import annotations

import subprocess
import sys
import zipfile
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from msd.conversion.sources.formats import open_checkpoint
from msd.files.fingerprint import code_fingerprint
from msd.models import shipped_structures, structure_cache
from msd.models.demo import CHECKPOINT
from msd.models.networks import Network
from msd.models.shipped_structures import CODE, FOLDER, INDEX, LIBRARIES, read_index, shipped_path
from msd.models.structure import Structure, VariableSpec, load_structure, save_structure
from msd.models.structure_cache import is_cached, structure_of
from msd.models.trace import trace
from scripts import ship_structures
from tests.stable_diffusion import networks_of

MADE = Structure(b"TFL3" * 9, ("a", "b"), ("c",), {"variable_0": VariableSpec("layer/kernel", (3, 4))})
NETWORK = Network(lambda: None, {"x": ((1, 4), "float32")}, "a made-up network")
LARGE = ("unet", "text_encoder")


def shipped() -> Iterator[Any]:
    """Yield a network of each structure; those that take seconds each to trace are slow."""
    for (name, network), *_ in ship_structures.by_file().values():
        component = name.split(",")[0].split()[-1]
        slow = component in LARGE and not name.startswith("demo ")
        yield pytest.param(network, id=name, marks=[pytest.mark.slow] if slow else [])


@pytest.fixture
def untraced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is cached, and nothing may be traced."""

    def refused(*_: object) -> Structure:
        raise AssertionError("a network was traced")

    monkeypatch.setenv("MSD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(structure_cache, "trace", refused)


@pytest.fixture
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of shipped structures that has that of NETWORK alone, which is made without TensorFlow."""
    folder = tmp_path / "shipped"
    for module in (shipped_structures, ship_structures):
        monkeypatch.setattr(module, "FOLDER", folder)
        monkeypatch.setattr(module, "read_index", lambda: read_index.__wrapped__(folder / INDEX))
    monkeypatch.setattr(ship_structures, "public_networks", lambda: iter([("made up", NETWORK)]))
    for module in (structure_cache, ship_structures):
        monkeypatch.setattr(module, "trace", lambda *_: MADE)
    monkeypatch.setenv("MSD_CACHE", str(tmp_path / "cache"))
    return folder


def call(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(ship_structures.main, arguments)
    return result.exit_code, result.output


@pytest.mark.parametrize("network", list(shipped()))
def test_a_shipped_structure_equals_a_fresh_trace(network: Network) -> None:
    path = shipped_path(network)
    assert path is not None, "the code of the networks has changed; make structures"
    same = load_structure(path) == trace(network.build, network.inputs)
    assert same, (
        f"{read_index().libraries} made {path.name}, which is not what is traced here; make structures"
    )


def test_this_code_and_these_libraries_made_them() -> None:
    index = read_index()
    assert index.code == code_fingerprint(*CODE), "the code of the networks has changed; make structures"
    assert index.libraries == {name: version(name) for name in LIBRARIES}, "make structures"


def test_the_index_names_every_file_and_every_public_network() -> None:
    index, files = read_index(), {path.stem for path in FOLDER.glob("*.zip")}
    assert index.structures == ship_structures.fresh_index().structures
    assert {*index.structures} == files
    assert {path.name for path in FOLDER.iterdir()} == {INDEX, *(f"{name}.zip" for name in files)}
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) < 4e6


@pytest.mark.usefixtures("untraced")
@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("model", ship_structures.public_models())
def test_no_public_network_is_traced(model: str, batch: int) -> None:
    for network in ship_structures.networks_of(ship_structures.public_models()[model], batch).values():
        assert is_cached(network)
        structure = structure_of(network)
        assert structure.inputs == tuple(network.inputs)
        assert structure.variables


@pytest.mark.usefixtures("untraced")
@pytest.mark.parametrize("batch", [1, 2])
def test_the_demo_is_found_as_its_folder_is_opened(batch: int) -> None:
    for network in networks_of(open_checkpoint(CHECKPOINT), batch=batch).values():
        assert structure_of(network).variables


@pytest.mark.usefixtures("untraced")
def test_versions_of_the_libraries_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(structure_cache, "installed_versions", lambda *_: {"keras": "another"})
    for network in networks_of(open_checkpoint(CHECKPOINT)).values():
        assert structure_of(network).variables


def test_another_size_is_traced() -> None:
    found = networks_of(open_checkpoint(CHECKPOINT), height=128, width=256)
    assert [name for name, network in found.items() if shipped_path(network)] == ["text_encoder"]


@pytest.mark.usefixtures("own_folder")
def test_changed_code_uses_its_own_traces(monkeypatch: pytest.MonkeyPatch) -> None:
    assert call()[0] == 0
    assert is_cached(NETWORK)
    monkeypatch.setattr(shipped_structures, "code_fingerprint", lambda *_: "another")
    assert not is_cached(NETWORK)
    assert structure_of(NETWORK) == MADE
    assert is_cached(NETWORK)


@pytest.mark.parametrize("spoilt", ["structure", "index", "no index"])
def test_a_damaged_installation_only_costs_time(own_folder: Path, spoilt: str) -> None:
    assert call()[0] == 0
    (path,) = own_folder.glob("*.zip")
    if spoilt == "structure":
        path.write_bytes(path.read_bytes()[:40])
    elif spoilt == "index":
        (own_folder / INDEX).write_text("{")
    else:
        (own_folder / INDEX).unlink()
    assert structure_of(NETWORK) == MADE
    assert list(structure_cache.cache_folder().glob("*.zip"))


def test_what_is_made_again_keeps_its_bytes(own_folder: Path) -> None:
    status, said = call()
    assert status == 0
    assert said.splitlines()[0].endswith(".zip: made up")
    before = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in own_folder.glob("*.zip")}
    status, said = call()
    assert status == 0
    assert said.startswith("1 structures, ")
    assert before == {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in own_folder.glob("*.zip")}
    assert call("--check") == (0, "each of 1 structures equals a fresh trace\n")


def test_a_check_names_what_is_out_of_date(own_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    call()
    save_structure(MADE, own_folder / "old.zip")
    monkeypatch.setattr(ship_structures, "trace", lambda *_: Structure(b"TFL3", (), (), {}))
    monkeypatch.setattr(ship_structures, "version", lambda _: "0.1")
    status, said = call("--check")
    first, second, third = said.splitlines()
    assert (status, first) == (3, "made up differs from a fresh trace")
    assert second == "old.zip belongs to no public network"
    assert third.startswith("index.json says ")
    assert "'tensorflow': '0.1'" in third
    assert call()[0] == 0
    assert call("--check")[0] == 0
    assert not (own_folder / "old.zip").exists()


def test_a_stored_structure_has_no_date(tmp_path: Path) -> None:
    save_structure(MADE, tmp_path / "made.zip")
    with zipfile.ZipFile(tmp_path / "made.zip") as file:
        assert {info.date_time for info in file.infolist()} == {(1980, 1, 1, 0, 0, 0)}


def test_a_conversion_of_the_demo_with_nothing_cached_imports_no_tensorflow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MSD_CACHE", str(tmp_path / "cache"))
    script = (
        "import sys\n"
        "from msd.cli.convert import convert\n"
        "convert(sys.argv[1:], standalone_mode=False)\n"
        "print(sorted(set(sys.modules) & {'tensorflow', 'keras', 'torch', 'keras_cv'}))\n"
    )
    command = [sys.executable, "-c", script, "-o", tmp_path / "out", "--also", "vae_encoder"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
    assert not (tmp_path / "cache").exists()
    assert len(list((tmp_path / "out").glob("*.tflite"))) == 4


def test_a_wheel_has_them(tmp_path: Path) -> None:
    root = Path(__file__).parent.parent
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path]
    subprocess.run(command, cwd=root, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as file:
        inside = {name.rpartition("/")[2] for name in file.namelist() if "msd/models/structures/" in name}
    assert inside == {path.name for path in FOLDER.iterdir()}


def test_configurations_of_every_family_are_read_without_tensorflow() -> None:
    """A public model of any family converts where TensorFlow is not installed."""
    code = (
        "import sys\n"
        "from msd.models.families import families\n"
        "from msd.models.families.family import resolve\n"
        "components = [c for family in families().values() for c in family.components]\n"
        "places = [a.config for c in components for a in (c, *c.alternatives.values())]\n"
        "print(len([resolve(place) for place in places]))\n"
        "print(sorted(set(sys.modules) & {'tensorflow', 'keras', 'torch', 'keras_cv'}))\n"
    )
    count, imported = subprocess.check_output([sys.executable, "-c", code], text=True).splitlines()
    assert (int(count) > 10, imported) == (True, "[]")
