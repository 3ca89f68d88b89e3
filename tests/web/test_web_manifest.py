"""Both manifests of the page: what Python writes is read, and what is damaged is refused with its place."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from msd.export.app.manifest import FORMAT, NAME
from msd.export.web.manifest import (
    ExpectedOutputs,
    LiteRtJs,
    WebFile,
    WebManifest,
    WebNetwork,
    WebProgram,
    dump_manifest,
)
from tests.app_bundles import write_app
from tests.placed_upscaler import UNFIT_TILES
from tests.web.node import evaluate

PARSE = """
import { modelFile, parseAppManifest, parseWebManifest } from './msd/manifest.js';
console.log(JSON.stringify(input[1].map((text) => {
  try {
    return input[0] === 'app' ? parseAppManifest(text) : parseWebManifest(text);
  } catch ({ code, message }) {
    return `${code}: ${message}`;
  }
})));
"""
AGAIN = "; the page should be exported again"


def parsed(kind: str, *texts: str) -> list[Any]:
    found: list[Any] = evaluate(PARSE, kind, texts)
    return found


def file(name: str, digit: str = "0") -> WebFile:
    return WebFile(name, 12, digit * 64)


PROGRAM = WebProgram(
    file("programs/unet.fp16.json"), (file("weights/00.bin", "a"),), {"maxBufferSize": 2**28}, 99
)
EXPECTED = ExpectedOutputs(7, 49408, {"noise": file("expected/unet.noise.bin")})
OURS = WebManifest(
    runtime="msd",
    model="ab" * 32,
    name="a model",
    example="a dog",
    app=file(NAME),
    vocabulary=file("tokens.txt", "1"),
    merges=file("merges.txt", "2"),
    networks=(
        WebNetwork("unet", 700, {"fp16": PROGRAM, "fp32": PROGRAM}, expected=EXPECTED),
        WebNetwork("vae_decoder", 100, {"fp32": PROGRAM}),
    ),
)
LITERT = WebManifest(
    runtime="litert",
    model="cd" * 32,
    name="b",
    example="",
    app=file(NAME),
    vocabulary=file("tokens.txt"),
    merges=file("merges.txt"),
    networks=(WebNetwork("unet", 700, model=(file("weights/aa.bin"), file("weights/bb.bin"))),),
    litert=LiteRtJs("0.2.1", "../litert/index.js", "../litert/wasm/"),
)


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The manifest of a model that repaints, with everything that one can have."""
    embeddings = {"timestep_embedding": 8, "guidance_embedding": 7}
    folder = tmp_path_factory.mktemp("app") / "whole"
    write_app(folder, encoder=True, inpaints=True, embeddings=embeddings, upscaler=True)
    whole: dict[str, Any] = json.loads((folder / NAME).read_text("utf-8"))
    some = {**whole["image"], "schedules": whole["image"]["schedules"][:2]}
    return {**whole, "preview": "vae_decoder", "schedules": whole["schedules"][:2], "image": some}


def test_what_python_writes_is_read(app: dict[str, Any], plain_app: Path) -> None:
    plain = (plain_app / NAME).read_text("utf-8")
    assert parsed("app", json.dumps(app), plain) == [app, json.loads(plain)]
    texts = [dump_manifest(OURS), dump_manifest(LITERT)]
    assert parsed("web", *texts) == [json.loads(text) for text in texts]


def test_what_a_later_version_adds_is_ignored(app: dict[str, Any]) -> None:
    more = {**app, "colour": "red", "files": [{**one, "colour": 1} for one in app["files"]]}
    assert parsed("app", json.dumps(more)) == [more]


def put(place: str, value: Any) -> Callable[[dict[str, Any]], None]:
    """Return what sets the item at a place such as "files.0.name"; `...` removes it."""

    def change(manifest: dict[str, Any]) -> None:
        *path, last = [int(key) if key.isdigit() else key for key in place.split(".")]
        at: Any = manifest
        for key in path:
            at = at[key]
        if value is ...:
            del at[last]
        else:
            at[last] = value

    return change


FREQUENCIES = ".calls[3].inputs[2].sources[0].frequencies"
FURTHER = ".tokenizers.tokenizer.specials[0].further"
MISFIT = " has tiles of an upscaler that do not fit upscaler.tflite"
APP_DAMAGES = [
    ("model", ..., ".model is missing, not text"),
    ("height", "512", '.height is "512", not a whole number'),
    ("width", 0.5, ".width is 0.5, not a whole number"),
    ("latent", {}, ".latent is no list"),
    ("guidance", [], ".guidance is no object"),
    ("guidance.mode", "three", '.guidance.mode is "three", not one of two passes, batch 2, embedding, none'),
    ("calls", None, ".calls is no list"),
    ("calls.3.when", "never", '.calls[3].when is "never", not one of once, step, preview, end'),
    ("calls.3.inputs.2.sources.0.frequencies.2", "x", f'{FREQUENCIES}[2] is "x", not a number'),
    ("calls.3.inputs.1.sources.0.of", "words", " calls unet with words, which is not there by then"),
    ("calls.3.inputs.1.name", "text", " calls unet with text, which unet.tflite does not take"),
    ("calls.0.inputs.0.sources.0.of", "", " calls text_encoder with , which is not there by then"),
    ("calls.3.outputs.0.kind", "tensor", " has 0 calls that compute the prediction, and 1 was expected"),
    ("calls.4.component", "unseen", " calls unseen, of which it lists no file"),
    ("schedules", [], " has no schedule"),
    ("schedules.1.runs", 7, " has a schedule of 7 runs with 6"),
    ("schedules.0.steps.1.latent", None, ".schedules[0].steps[1].latent is null, not a number"),
    ("schedules.0.steps.1.clip", True, ".schedules[0].steps[1].clip is true, not a number"),
    ("schedules.0.steps.1.keeps", 0.5, ".schedules[0].steps[1].keeps is 0.5, not a whole number"),
    ("schedules.0.steps.1.history", None, ".schedules[0].steps[1].history is no list"),
    ("schedules.0.steps.1.save", ["x"], '.schedules[0].steps[1].save[0] is "x", not a number'),
    ("image.schedules.0.schedule.runs", 3, " has a schedule of 3 runs with 1"),
    ("image.inpaints", "yes", '.image.inpaints is "yes", not true or false'),
    ("image.initial", "eye", " has no call that computes eye"),
    ("preview", "tiny", " has no call of tiny"),
    ("files.0.role", "ear", " calls text_encoder, of which it lists no file"),
    ("files.1.name", "../unet.tflite", '.files[1].name is "../unet.tflite", not a plain file name'),
    ("files.1.name", "", '.files[1].name is "", not a plain file name'),
    ("files.1.name", "..", '.files[1].name is "..", not a plain file name'),
    ("files.0.inputs.0.dtype", "int8", '.files[0].inputs[0].dtype is "int8", not one of float32, int32'),
    ("files.0.inputs.0.shape.1", 1.5, ".files[0].inputs[0].shape[1] is 1.5, not a whole number"),
    ("tokenizers.tokenizer.specials.0.further", ["a"], f'{FURTHER}[0] is "a", not a whole number'),
    ("upscaler.role", "eye", " lists no file with the role eye"),
    *((f"upscaler.{place}", value, MISFIT) for place, value in UNFIT_TILES.items()),
]


def test_a_damaged_manifest_of_the_app_is_refused(app: dict[str, Any]) -> None:
    require_refused("app", app, NAME, APP_DAMAGES)


FP32 = ".networks[0].programs.fp32"
INSIDE = "a path inside the page's folder"
WEB_DAMAGES = [
    ("runtime", "java", '.runtime is "java", not one of msd, litert'),
    ("app", ..., ".app is no object"),
    ("app.sha256", "A" * 64, ".app.sha256 is not 64 hex digits"),
    ("merges.bytes", -1, ".merges.bytes is -1, less than 0"),
    ("merges.bytes", 1e300, ".merges.bytes is 1e+300, not a whole number"),
    ("networks.0.programs", {}, " has nothing that the runtime msd could run as unet"),
    ("networks.0.programs.fp32.limits.some", "1", f'{FP32}.limits.some is "1", not a whole number'),
    ("networks.0.programs.fp16.shards.0", None, ".networks[0].programs.fp16.shards[0] is no object"),
    ("networks.0.expected.outputs.noise", 3, ".networks[0].expected.outputs.noise is no object"),
    ("networks.1.role", ..., ".networks[1].role is missing, not text"),
    *(
        ("app.file", path, f".app.file is {json.dumps(path, ensure_ascii=False)}, not {INSIDE}")
        for path in ("/a", "../a", "a/../b", "https://b.org/a", "//b/c", "a\\b", "a//b", "", ".", "a?b", "ä")
    ),
]  # fmt: skip


def test_a_damaged_manifest_of_the_page_is_refused() -> None:
    require_refused("web", json.loads(dump_manifest(OURS)), "web-manifest.json", WEB_DAMAGES)
    litert = json.loads(dump_manifest(LITERT))
    path = '.litert.module is "https://b/c.js", not a path inside the page\'s folder'
    damages = [
        ("litert", None, " has nothing that the runtime litert could run as unet"),
        ("networks.0.model", [], " has nothing that the runtime litert could run as unet"),
        ("litert.module", "https://b/c.js", path),
        ("litert.wasm", "../../wasm", '.litert.wasm is "../wasm", not a path inside the page\'s folder'),
    ]
    require_refused("web", litert, "web-manifest.json", damages)


def require_refused(kind: str, whole: dict[str, Any], name: str, damages: list[tuple[str, Any, str]]) -> None:
    texts = []
    for place, value, _ in damages:
        damaged = copy.deepcopy(whole)
        put(place, value)(damaged)
        texts.append(json.dumps(damaged))
    for (place, _, message), found in zip(damages, parsed(kind, *texts), strict=True):
        assert found == f"bad-manifest: {name}{message}{AGAIN}", place


@pytest.mark.parametrize(("kind", "name", "newest"), [("app", NAME, FORMAT), ("web", "web-manifest.json", 1)])
def test_another_format_or_no_json_is_refused(kind: str, name: str, newest: int) -> None:
    texts = ["", "{", "[1]", "null", '{"format": "1"}', '{"format": 99}', '{"format": 0}']
    assert parsed(kind, *texts) == [
        f"bad-manifest: {name} is not JSON{AGAIN}",
        f"bad-manifest: {name} is not JSON{AGAIN}",
        f"bad-manifest: {name} is no object{AGAIN}",
        f"bad-manifest: {name} is no object{AGAIN}",
        f'bad-manifest: {name}.format is "1", not a whole number{AGAIN}',
        f"bad-manifest: {name} has format 99 and this page reads {newest}; reload the page",
        f"bad-manifest: {name} has format 0 and this page reads {newest}{AGAIN}",
    ]


VALUES = [None, True, -1, 0.5, 1e300, "", "x", [], [None], {}, ...]


@pytest.mark.parametrize("kind", ["app", "web"])
def test_any_damage_is_read_or_refused_in_a_sentence(kind: str, app: dict[str, Any]) -> None:
    """Never another error, such as that of a property of undefined."""
    whole = app if kind == "app" else json.loads(dump_manifest(OURS))
    chance, texts = random.Random(1), []
    for _ in range(400):
        damaged = copy.deepcopy(whole)
        put(chance.choice(places(whole)), chance.choice(VALUES))(damaged)
        texts.append(json.dumps(damaged))
    found = parsed(kind, *texts)
    assert all(isinstance(one, dict) or one.startswith("bad-manifest: ") for one in found)
    assert 200 < sum(isinstance(one, str) for one in found) < 400


def places(value: Any, where: str = "") -> list[str]:
    """Return the place of every item in JSON, those of keys with a dot aside."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else []
    found = [f"{where}{key}" for key, _ in items if "." not in str(key)]
    return [*found, *(place for key, item in items for place in places(item, f"{where}{key}."))]
