"""What an app is told of a bundle: each number the runtime's; refusals for what an app cannot draw with."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest

from msd.bundle import Bundle, ConvertedFile, file_facts, open_bundle
from msd.errors import BadBundle, BadConfig, BadReport
from msd.export.app.manifest import (
    LARGEST_PREVIEW,
    NAME,
    SYSTEM_MEMORY,
    AppManifest,
    Delegation,
    ModelFile,
    describe,
    dump_manifest,
    load_manifest,
    write_manifest,
)
from msd.export.app.tokenizer_files import MERGES, VOCABULARY
from msd.files import schema
from msd.graph.tflite.read import read
from msd.measure.report.report import FileReport, Report
from msd.run.runtime.scheduler import SCHEDULERS, open_scheduler
from msd.run.runtime.timestep import embed_timestep
from msd.run.runtime.tokenizer import open_tokenizer
from tests.app_bundles import write_bundle
from tests.clip_files import SD15, added
from tests.stable_diffusion import LOOKUP
from tests.verdicts import whole_verdict

TWICE = [2 * 4 - 1, 2 * 20 - 1]
RUNS = {"pndm": [4 + 9, 20 + 9], "heun": TWICE, "dpm2": TWICE, "dpm2-a": TWICE, "dpm++-sde": TWICE}
"""The runs of 4 and 20 steps by schedulers that make more: two a step but the last, or Runge and Kutta's."""


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    embeddings = {"timestep_embedding": 11, "guidance_embedding": 6}
    return open_bundle(write_bundle(tmp_path_factory.mktemp("app") / "bundle", embeddings=embeddings))


def test_the_manifest_of_the_demo_says_what_its_files_are(demo_int8: Path) -> None:
    bundle = open_bundle(demo_int8)
    said = describe(bundle, steps=(25, 20, 20), licence="CreativeML Open RAIL++-M")
    assert [file.role for file in said.files] == [
        "text_encoder",
        "unet",
        "vae_decoder",
        "vocabulary",
        "merges",
    ]
    for file in said.files[:3]:
        facts = file_facts(demo_int8 / file.name)
        assert (file.sha256, file.bytes) == (facts.sha256, facts.bytes)
        (signature,) = read(demo_int8 / file.name).main.signatures
        assert file.signature == signature.key
        assert {port.name: port.shape for port in file.inputs} == {
            n: t.shape for n, t in signature.inputs.items()
        }
    assert [schedule.count for schedule in said.schedules] == [25, 20]
    assert said.latent == next(port.shape for port in said.files[1].inputs if port.name == "latent")
    assert said.latent[1] * 8 == said.height
    assert (said.prediction, said.scheduler, said.recipe) == ("epsilon", "ddim", "gpu-w8")
    assert (said.guidance.mode, said.guidance.scale, said.precision) == ("two passes", 7.5, "fp16")
    assert said.versions["ai-edge-litert"] == said.runtime == "2.3.0"
    assert said.weights.licence == "CreativeML Open RAIL++-M"
    assert said.weights.sha256["unet/diffusion_pytorch_model.safetensors"]


@pytest.mark.parametrize("name", SCHEDULERS)
def test_every_coefficient_is_the_runtime_s(name: str, bundle: Bundle) -> None:
    said = describe(bundle, (4, 20), name)
    assert [schedule.count for schedule in said.schedules] == [4, 20]
    assert [schedule.runs for schedule in said.schedules] == RUNS.get(name, [4, 20])
    scheduler = open_scheduler(bundle.folder / "scheduler", name)
    assert said.scheduler == name
    for schedule in said.schedules:
        table = scheduler.table(schedule.count)
        assert (schedule.start, list(schedule.steps)) == (table.start, list(table.steps))


@pytest.mark.parametrize("name", SCHEDULERS)
def test_schedules_that_begin_from_an_image_are_the_runtime_s(name: str, tmp_path: Path) -> None:
    """Of 4 steps, a strength of 0.1 or 0.2 leaves none: those are left out."""
    bundle = open_bundle(write_bundle(tmp_path / "bundle", encoder=True))
    facts = describe(bundle, (4, 20), name).image
    assert facts is not None
    assert (facts.initial, facts.required, facts.inpaints) == ("initial_latent", False, False)
    (encoder,) = (call for call in bundle.wiring.calls if call.component == "vae_encoder")
    assert [(each.kind, each.factor) for each in encoder.outputs] == [("moments", 0.25)]
    scheduler = open_scheduler(bundle.folder / "scheduler", name)
    for begun in facts.schedules:
        table = scheduler.table(begun.schedule.count, begun.strength)
        assert begun.schedule.runs == len(table.steps)
        assert (begun.schedule.start, list(begun.schedule.steps)) == (table.start, list(table.steps))
    strengths = {n: [s.strength for s in facts.schedules if s.schedule.count == n] for n in (4, 20)}
    assert strengths[20] == [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0]
    assert strengths[4] == [s for s in strengths[20] if int(4 * s) >= 1]


def test_a_bundle_without_an_image_encoder_begins_from_no_image(bundle: Bundle) -> None:
    assert describe(bundle).image is None


def test_a_model_that_repaints_needs_an_image_encoder(tmp_path: Path) -> None:
    bare = open_bundle(write_bundle(tmp_path / "bare", inpaints=True))
    with pytest.raises(BadBundle, match=r"repaints a part of an image, .*; convert with --also vae_encoder"):
        describe(bare)
    facts = describe(open_bundle(write_bundle(tmp_path / "whole", inpaints=True, encoder=True))).image
    assert facts is not None
    assert facts.inpaints


def test_previews_are_decoded_by_what_fits_beside_the_u_net(bundle: Bundle) -> None:
    assert describe(bundle).preview == "vae_decoder"
    parts = bundle.manifest.components
    large = {**parts, "vae_decoder": dataclasses.replace(parts["vae_decoder"], bytes=LARGEST_PREVIEW + 1)}
    assert describe(_with(bundle, large)).preview is None
    both = {**large, "preview_decoder": parts["vae_decoder"]}
    assert describe(_with(bundle, both)).preview == "preview_decoder"


def test_the_memory_of_a_phone_is_estimated_by_the_largest_network_or_given(bundle: Bundle) -> None:
    parts = bundle.manifest.components
    grown = {**parts, "unet": dataclasses.replace(parts["unet"], bytes=10**9)}
    assert describe(_with(bundle, grown)).min_memory == SYSTEM_MEMORY + 3 * 10**9
    assert describe(bundle, min_memory=7 * 10**9).min_memory == 7 * 10**9


def _with(bundle: Bundle, parts: dict[str, ConvertedFile]) -> Bundle:
    return Bundle(bundle.folder, dataclasses.replace(bundle.manifest, components=parts))


def test_sinusoids_are_made_of_the_frequencies(bundle: Bundle) -> None:
    said = describe(bundle)
    (denoiser,) = (call for call in said.calls if call.when == "step")
    sources = {source.of: source for source in denoiser.sources if source.kind == "sinusoids"}
    assert set(sources) == {"timestep", "guidance"}
    assert not sources["timestep"].cosine_first
    angles = np.float32(321) * np.float32(sources["timestep"].frequencies)
    made = np.float32([*np.sin(angles), *np.cos(angles), 0])
    np.testing.assert_array_equal(made, embed_timestep(321, 11, False, 1.0))
    assert said.guidance.mode == "embedding"
    assert (len(sources["guidance"].frequencies), sources["guidance"].cosine_first) == (3, False)


def test_what_is_written_reads_the_same_and_the_tokenizer_s_files_are_listed(
    bundle: Bundle, tmp_path: Path
) -> None:
    said = describe(bundle, (2,), licence="MIT")
    write_manifest(said, bundle, tmp_path)
    assert load_manifest(tmp_path / NAME) == said
    tokenizer = open_tokenizer(bundle.folder / "tokenizer")
    for name, role in ((VOCABULARY, "vocabulary"), (MERGES, "merges")):
        facts = file_facts(tmp_path / name)
        assert ModelFile(name, role, role, facts.bytes, facts.sha256) in said.files
    lines = (tmp_path / VOCABULARY).read_text("utf-8").splitlines()
    assert {token: number for number, token in enumerate(lines) if token} == tokenizer.vocabulary
    pairs = [tuple(line.split(" ")) for line in (tmp_path / MERGES).read_text("utf-8").splitlines()]
    assert {pair: rank for rank, pair in enumerate(pairs)} == tokenizer.ranks
    assert (said.tokenizers["tokenizer"].start, said.tokenizers["tokenizer"].pad) == (
        tokenizer.start,
        tokenizer.pad,
    )


def test_a_report_s_figures_go_with_the_file_that_they_are_of(bundle: Bundle) -> None:
    unet = bundle.component("unet")
    run = whole_verdict(adapter="Mali", precision="fp16", operations=9, delegated=9, psnr_db=51.5)
    files = [
        FileReport(unet.file, unet.sha256, 1, 9, {}, (), run),
        FileReport(unet.file, "00", 1, 9, {}, (), run),
        FileReport("text_encoder.tflite", bundle.component("text_encoder").sha256, 1, 9, {}, ()),
    ]
    said = describe(bundle, report=Report("1", tuple(files)))
    assert said.delegation == (Delegation("unet", "Mali", "fp16", 9, 9, 1, 51.5),)
    assert describe(bundle).delegation == ()
    with pytest.raises(BadReport, match="no run of a file of"):
        describe(bundle, report=Report("1", tuple(files[1:])))


def test_the_schema_in_the_documents_is_this_one() -> None:
    """The text of `json.dumps(schema.document(AppManifest), indent=1)`."""
    path = Path(__file__).parent.parent / "docs" / "sd-manifest.schema.json"
    assert json.loads(path.read_text("utf-8")) == schema.document(AppManifest)
    assert set(schema.document(AppManifest)["properties"]) == {
        field.name for field in dataclasses.fields(AppManifest)
    }


def test_refuses_what_an_app_cannot_draw_with(bundle: Bundle, tmp_path: Path) -> None:
    parts = bundle.manifest.components
    looked_up = {**parts, LOOKUP: parts["unet"]}
    with pytest.raises(BadBundle, match="is for TensorFlow Lite's delegate, and an app runs LiteRT's"):
        describe(Bundle(bundle.folder, dataclasses.replace(bundle.manifest, components=looked_up)))
    half = dataclasses.replace(parts["unet"].inputs[0], dtype="float16")
    halved = {**parts, "unet": dataclasses.replace(parts["unet"], inputs=(half, *parts["unet"].inputs[1:]))}
    with pytest.raises(
        BadBundle, match=r"unet\.tflite has latent of type float16; apps support float32 and int32"
    ):
        describe(Bundle(bundle.folder, dataclasses.replace(bundle.manifest, components=halved)))
    blind = {**parts, "unet": dataclasses.replace(parts["unet"], inputs=parts["unet"].inputs[1:])}
    with pytest.raises(BadBundle, match="the U-Net takes no latents, so that nothing can denoise"):
        describe(Bundle(bundle.folder, dataclasses.replace(bundle.manifest, components=blind)), guidance=1)
    few = {name: part for name, part in parts.items() if name != "vae_decoder"}
    with pytest.raises(BadBundle, match="has no vae_decoder"):
        describe(Bundle(bundle.folder, dataclasses.replace(bundle.manifest, components=few)))
    alone = {**SD15, "pad_token": added("B", single_word=True)}
    other = open_bundle(write_bundle(tmp_path / "alone", tokenizer=alone))
    with pytest.raises(BadConfig, match="matches 'B' as a word of its own; apps do not support that"):
        describe(other)


def test_refuses_impossible_settings(bundle: Bundle) -> None:
    with pytest.raises(BadConfig, match="can take 1 to 1000"):
        describe(bundle, (20, 0))
    with pytest.raises(BadConfig, match="precision 'int8' is not known; there are fp16 and fp32"):
        describe(bundle, precision="int8")


def test_refuses_a_manifest_that_is_missing_newer_or_older(bundle: Bundle, tmp_path: Path) -> None:
    with pytest.raises(BadBundle, match="cannot read"):
        load_manifest(tmp_path / NAME)
    newer = json.loads(dump_manifest(describe(bundle))) | {"format": 5}
    (tmp_path / NAME).write_text(json.dumps(newer))
    with pytest.raises(BadBundle, match="has format 5 and this msd reads up to 4"):
        load_manifest(tmp_path / NAME)
    (tmp_path / NAME).write_text(json.dumps({**newer, "format": 3}))
    with pytest.raises(BadBundle, match=r"has format 3, which an older msd wrote; .* make it again"):
        load_manifest(tmp_path / NAME)
