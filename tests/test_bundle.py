"""The folder of converted files and its manifest, on a real bundle of stand-in networks."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from msd.bundle import Adapter, Bundle, Manifest, dump_manifest, file_facts, load_manifest, open_bundle
from msd.errors import BadBundle
from msd.files import schema
from tests.app_bundles import write_bundle
from tests.stable_diffusion import COMPONENTS


@pytest.fixture
def copied(bundle_folder: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(bundle_folder, tmp_path / "bundle"))


def change(folder: Path, **changes: Any) -> None:
    path = folder / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def test_a_bundle_knows_its_files(bundle_folder: Path) -> None:
    bundle = open_bundle(bundle_folder, verify=True)
    assert bundle.path("unet") == bundle_folder / "unet.tflite"
    inputs = {interface.name: interface.shape for interface in bundle.component("unet").inputs}
    assert inputs == {"latent": (1, 4, 6, 4), "timestep": (1,), "context": (1, 1, 77, 5)}
    assert bundle.component("vae_decoder").outputs[0].shape == (1, 32, 48, 3)


def test_a_manifest_is_read_as_it_was_written(bundle_folder: Path) -> None:
    text = (bundle_folder / "manifest.json").read_text()
    manifest = load_manifest(bundle_folder / "manifest.json")
    assert dump_manifest(manifest) == text
    assert next(iter(json.loads(text))) == "format"
    assert set(schema.document(Manifest)["required"]) <= set(json.loads(text))


def test_a_manifest_from_before_there_were_adapters(copied: Path) -> None:
    path = copied / "manifest.json"
    value = json.loads(path.read_text())
    value["source"]["adapters"] = [{"file": "lora/x.safetensors", "scale": -1}]
    path.write_text(json.dumps(value))
    assert load_manifest(path).source.adapters == (Adapter("lora/x.safetensors", -1.0),)
    del value["source"]["adapters"]
    path.write_text(json.dumps(value))
    assert load_manifest(path).source.adapters == ()


def test_the_model_hash_is_that_of_the_networks_alone(bundle_folder: Path) -> None:
    bundle = open_bundle(bundle_folder)
    manifest = bundle.manifest
    backwards = dict(reversed(manifest.components.items()))
    other = replace(manifest.components["unet"], sha256="0" * 64)
    same = Bundle(bundle.folder, replace(manifest, msd="9", components=backwards))
    changed = Bundle(bundle.folder, replace(manifest, components=manifest.components | {"unet": other}))
    assert same.model_hash == bundle.model_hash != changed.model_hash


def test_facts_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"abc")
    facts = file_facts(tmp_path / "file")
    assert facts.bytes == 3
    assert facts.sha256 == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


def test_refuses_what_is_no_folder(tmp_path: Path) -> None:
    with pytest.raises(BadBundle, match="is not a folder"):
        open_bundle(tmp_path / "nowhere")


def test_refuses_a_folder_without_a_manifest(tmp_path: Path) -> None:
    with pytest.raises(BadBundle, match=r"manifest\.json \(No such file or directory\)"):
        open_bundle(tmp_path)


@pytest.mark.parametrize("component", COMPONENTS)
def test_refuses_a_missing_file(component: str, copied: Path) -> None:
    (copied / f"{component}.tflite").unlink()
    with pytest.raises(BadBundle, match=rf"{component}\.tflite is missing"):
        open_bundle(copied)


def test_refuses_a_truncated_file(copied: Path) -> None:
    path = copied / "unet.tflite"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(BadBundle, match=r"unet\.tflite has \d+ bytes and manifest\.json says \d+"):
        open_bundle(copied)


def test_refuses_a_changed_file_when_asked_to_verify(copied: Path) -> None:
    path = copied / "unet.tflite"
    content = bytearray(path.read_bytes())
    content[-9] ^= 1
    path.write_bytes(content)
    assert open_bundle(copied).folder == copied
    with pytest.raises(BadBundle, match=r"unet\.tflite has another SHA-256"):
        open_bundle(copied, verify=True)


def test_refuses_a_newer_format(copied: Path) -> None:
    change(copied, format=4, msd={"another": "shape"})
    with pytest.raises(BadBundle, match="has format 4 and this msd reads up to 3; a newer msd is needed"):
        open_bundle(copied)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"components": {"unet": {}}}, r"manifest\.json\.components\.unet lacks 'file'"),
        ({"conversion": None}, r"manifest\.json\.conversion is NoneType, not an object"),
        ({"format": "1"}, r"manifest\.json\.format is '1', not of type integer"),
    ],
)
def test_refuses_a_senseless_manifest(changes: dict[str, Any], sentence: str, copied: Path) -> None:
    change(copied, **changes)
    with pytest.raises(BadBundle, match=sentence):
        open_bundle(copied)


@pytest.mark.parametrize("text", ["{", "[]", "null", "\ud800"])
def test_refuses_what_is_no_manifest_at_all(text: str, copied: Path) -> None:
    (copied / "manifest.json").write_text(text, errors="surrogatepass")
    with pytest.raises(BadBundle, match=r"manifest\.json is not"):
        open_bundle(copied)


@pytest.mark.parametrize("name", ["../unet.tflite", "/etc/passwd", "sub/unet.tflite", "", ".."])
def test_refuses_a_file_name_that_leads_elsewhere(name: str, copied: Path) -> None:
    components = json.loads((copied / "manifest.json").read_text())["components"]
    components["unet"]["file"] = name
    change(copied, components=components)
    with pytest.raises(BadBundle, match="which is not a plain file name"):
        open_bundle(copied)


@pytest.mark.parametrize("name", ["../table.bin", "/etc/passwd", ".."])
def test_refuses_time_embeddings_that_lead_elsewhere(name: str, copied: Path) -> None:
    """A conversion of another interface would remove them, and found that out when all was written."""
    configuration = json.loads((copied / "manifest.json").read_text())["configuration"]
    change(copied, configuration={**configuration, "time_embeddings": name})
    with pytest.raises(BadBundle, match=r"puts the time embeddings in .*, which is not a plain file name"):
        open_bundle(copied)


Edit = Callable[[dict[str, Any]], object]


@pytest.mark.parametrize(
    ("edit", "sentence"),
    [
        (
            lambda read: read["calls"][1]["outputs"][0].update(factor=0.5),
            "its call of vae_encoder has 0.5 as the factor of initial_latent, and its configuration 0.25",
        ),
        (
            lambda read: read["configuration"]["unet"].update(cosine_first=True),
            "its call of unet has 0 as cosine_first of timestep_embedding, and its configuration 1",
        ),
        (
            lambda read: read["configuration"]["unet"].update(frequency_shift=0.5),
            "its call of unet has 1 as frequency_shift of timestep_embedding, and its configuration 0.5",
        ),
    ],
)
def test_refuses_numbers_that_stand_twice_and_differ(edit: Edit, sentence: str, tmp_path: Path) -> None:
    folder = write_bundle(tmp_path / "bundle", encoder=True, embeddings={"timestep_embedding": 8})
    bundle = open_bundle(folder)
    read = json.loads(dump_manifest(replace(bundle.manifest, calls=bundle.wiring.calls)))
    edit(read)
    (folder / "manifest.json").write_text(json.dumps(read))
    with pytest.raises(BadBundle, match=rf"manifest\.json is not a manifest: {re.escape(sentence)}$"):
        open_bundle(folder)


@pytest.mark.parametrize(
    ("edit", "sentence"),
    [
        (lambda c: c.update(steps_offset=0), "says steps_offset = 0, and manifest.json steps_offset = 1"),
        (lambda c: c.pop("beta_end"), "says no beta_end, and manifest.json beta_end = 0.012"),
        (
            lambda c: c.update(timestep_spacing="trailing"),
            "says timestep_spacing = 'trailing', and manifest.json no timestep_spacing",
        ),
    ],
)
def test_another_scheduler_than_the_manifest_s_is_refused(
    edit: Callable[[dict[str, Any]], Any], sentence: str, copied: Path
) -> None:
    path = copied / "scheduler" / "scheduler_config.json"
    config = json.loads(path.read_text())
    edit(config)
    path.write_text(json.dumps(config))
    with pytest.raises(BadBundle, match=re.escape(f"scheduler_config.json {sentence}; make both alike, or")):
        open_bundle(copied)
    change(copied, scheduler=config)
    assert open_bundle(copied).manifest.scheduler == config
    change(copied, scheduler={})
    assert open_bundle(copied).manifest.scheduler == {}
