"""Structures are traced once and kept; damaged or outdated ones are traced again."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from contextlib import suppress
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from msd.errors import BadModelFile
from msd.models import structure_cache
from msd.models.config import AddedWidths, TextEncoderConfig, UNetConfig
from msd.models.networks import Network
from msd.models.structure import Structure, VariableSpec, load_structure, save_structure
from msd.models.structure_cache import is_cached, network_key, structure_of
from msd.models.vae_config import VaeDecoderConfig
from tests import checkpoints
from tests.stable_diffusion import networks_for

MADE = Structure(b"TFL3" * 9, ("a", "b"), ("c",), {"variable_0": VariableSpec("layer/kernel", (3, 4))})


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MSD_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def traced(monkeypatch: pytest.MonkeyPatch) -> list[Network]:
    """Count what is traced: the structure of a network is its description."""
    calls: list[Network] = []

    def trace(build: object, inputs: object) -> Structure:
        calls.append(build)  # type: ignore[arg-type]
        return MADE

    monkeypatch.setattr(structure_cache, "trace", trace)
    return calls


def network(description: str = "one") -> Network:
    return Network(lambda: None, {"x": ((1, 4), "float32")}, description)


def the_file() -> Path:
    (path,) = structure_cache.cache_folder().glob("*")
    return path


def test_the_second_time_is_not_traced(traced: list[Network]) -> None:
    assert not is_cached(network())
    assert structure_of(network()) == structure_of(network()) == MADE
    assert len(traced) == 1
    assert is_cached(network())


@pytest.mark.usefixtures("traced")
def test_a_trace_is_announced_before_it_begins() -> None:
    said = list[str]()
    for word in ("first", "again"):
        structure_of(network(), partial(said.append, word))
    assert said == ["first"]


def test_every_fact_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    one = network()
    others = [
        network("two"),
        replace(one, inputs={"x": ((2, 4), "float32")}),
        replace(one, inputs={"x": ((1, 4), "int32")}),
        replace(one, inputs={"y": ((1, 4), "float32")}),
    ]
    keys = {network_key(n) for n in (one, *others)}
    for name in ("installed_versions", "code_fingerprint"):
        with monkeypatch.context() as patch:
            patch.setattr(structure_cache, name, lambda *_: "another")
            keys.add(network_key(one))
    assert len(keys) == len(others) + 3


@pytest.mark.parametrize("spoil", ["cut", "flipped", "emptied"])
def test_a_damaged_file_is_traced_again(traced: list[Network], spoil: str) -> None:
    structure_of(network())
    whole = the_file().read_bytes()
    flipped = bytearray(whole)
    flipped[45] ^= 255
    the_file().write_bytes({"cut": whole[:-30], "flipped": bytes(flipped), "emptied": b""}[spoil])
    assert structure_of(network()) == MADE
    assert len(traced) == 2
    assert load_structure(the_file()) == MADE


def test_a_cache_that_cannot_be_written_only_costs_time(traced: list[Network], tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file in the way")
    assert structure_of(network()) == structure_of(network()) == MADE
    assert len(traced) == 2


def test_the_longest_unused_go(traced: list[Network], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(structure_cache, "MOST", 2)
    for age, name in enumerate(("old", "used", "new")):
        structure_of(network(name))
        path = structure_cache.cache_folder() / f"{network_key(network(name))}.zip"
        os.utime(path, (age, age))
        if name == "used":
            structure_of(network("old"))
    kept = [name for name in ("old", "used", "new") if is_cached(network(name))]
    assert kept == ["old", "new"]


@given(st.integers(0, 2**32 - 1))
def test_a_damaged_file_is_never_believed(seed: int) -> None:
    path = structure_cache.cache_folder() / "damaged.zip"
    path.parent.mkdir(parents=True, exist_ok=True)
    save_structure(MADE, path)
    data, draw = bytearray(path.read_bytes()), random.Random(seed)
    data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
    path.write_bytes(data)
    with suppress(BadModelFile):
        assert load_structure(path) == MADE


def test_a_conversion_from_the_cache_imports_no_tensorflow(tmp_path: Path) -> None:
    checkpoints.write(tmp_path / "source", checkpoints.TINY)
    script = (
        "import sys\n"
        "from msd.cli.convert import convert\n"
        "convert(sys.argv[1:], standalone_mode=False)\n"
        "print(sorted(set(sys.modules) & {'tensorflow', 'keras', 'torch', 'keras_cv'}))\n"
    )
    for out, imported in (("cold", "['keras', 'tensorflow']"), ("warm", "[]")):
        command = [sys.executable, "-c", script, tmp_path / "source", "-o", tmp_path / out]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        assert done.stdout.splitlines()[-1] == imported
    for name in ("text_encoder.tflite", "unet.tflite", "vae_decoder.tflite"):
        assert (tmp_path / "cold" / name).read_bytes() == (tmp_path / "warm" / name).read_bytes()


CONFIGS = {
    "text_encoder": TextEncoderConfig.from_diffusers(checkpoints.TINY["text_encoder"], "text_encoder"),
    "unet": UNetConfig.from_diffusers(checkpoints.TINY["unet"], "unet"),
    "vae_decoder": VaeDecoderConfig.from_diffusers(checkpoints.TINY["vae"], "vae"),
}


OTHERS = {"added": AddedWidths(pooled=20, size=20)}


def another(value: Any) -> Any:
    """Return another value of the same type, one that a network can have too."""
    if isinstance(value, tuple):
        return (another(value[0]), *value[1:])
    if isinstance(value, bool):
        return not value
    return {"gelu": "quick_gelu", None: 20}[value] if value in ("gelu", None) else value * 2 or 0.5


@pytest.mark.parametrize(
    ("component", "setting"), [(name, each.name) for name in CONFIGS for each in fields(CONFIGS[name])]
)
def test_every_setting_of_a_network_is_part_of_its_key(component: str, setting: str) -> None:
    config = CONFIGS[component]
    changed = replace(config, **{setting: OTHERS.get(setting) or another(getattr(config, setting))})
    before, after = networks_for(CONFIGS), networks_for({**CONFIGS, component: changed})
    assert network_key(before[component]) == network_key(networks_for(CONFIGS)[component])
    assert network_key(before[component]) != network_key(after[component])
