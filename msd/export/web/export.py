"""A bundle as a static folder for any web server: the page, its library, and the model.

index.html  page.css  page/  worker.js  service-worker.js  shell.json       the page
msd/                              the library, which other pages can use
model/                            manifests, tokenizer, and the networks for one runtime
litert/                           LiteRT.js, for the runtime "litert"
README.md
sd-export.json                    the list of exported files
"""

from __future__ import annotations

import html
import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.resources import as_file, files
from pathlib import Path
from string import Template

import msd
from msd.bundle import Bundle
from msd.export.app import manifest as app
from msd.export.app.example import example_prompt
from msd.export.app.model_files import licence_of, networks, require_gpu
from msd.export.app.tokenizer_files import MERGES, VOCABULARY
from msd.export.folder import exporting, finish, require_free
from msd.export.web.expected import write_expected
from msd.export.web.litert import copy_litert_js, require_litert_js, write_shards
from msd.export.web.manifest import NAME, TITLE, Runtime, WebManifest, WebNetwork, WebProgram, dump_manifest
from msd.export.web.programs import write_programs
from msd.export.web.shell import write_shell
from msd.export.web.web_file import web_file
from msd.run.runtime.tokenizer import open_tokenizer

MODEL = "model"

OnProgress = Callable[[str, str, int, int], None]
"""Called with a network's role, what is made of it, and how many of how many parts are done."""


@dataclass(frozen=True)
class WebSettings:
    """The runtime of the page; whether it can compare a device's numbers with the CPU's, for which each
    network runs once; a folder with LiteRT.js, which is fetched without one; the page's title; and what it
    calls the model, where that is not the name of the weights."""

    runtime: Runtime = "msd"
    expected: bool = True
    litert_js: Path | None = None
    title: str = TITLE
    name: str | None = None


def export_web(
    bundle: Bundle,
    out: Path,
    manifest: app.AppManifest,
    settings: WebSettings | None = None,
    force: bool = False,
    on_progress: OnProgress | None = None,
) -> WebManifest:
    """Write the page to the folder `out`, with `force` over an existing one, and return its manifest.

    `manifest` is the result of `msd.export.app.manifest.describe` for the bundle. Raises BadBundle for a file
    whose SHA-256 differs from the manifest's, BadConfig where LiteRT.js cannot be had, DelegateFailed for a
    network without a program, OutputExists and OutputUnwritable. No file gets its final name before all are
    written.
    """
    settings = settings or WebSettings()
    require_free(out, force)
    if settings.runtime == "litert":
        require_gpu(bundle, manifest)
        require_litert_js(settings.litert_js)
    with exporting(out, force, sum(file.bytes for file in manifest.files)) as staging:
        model = staging / MODEL
        _copy_page(staging, settings.title)
        model.mkdir()
        app.write_manifest(manifest, bundle, model)
        written = tuple(_networks(bundle, manifest, settings, model, on_progress or _unwatched))
        litert = copy_litert_js(settings.litert_js, staging) if settings.runtime == "litert" else None
        web = WebManifest(
            runtime=settings.runtime,
            model=manifest.model,
            name=settings.name or manifest.weights.name,
            example=example_prompt(open_tokenizer(bundle.folder / bundle.wiring.tokenizers[0])),
            app=web_file(model / app.NAME, model),
            vocabulary=web_file(model / VOCABULARY, model),
            merges=web_file(model / MERGES, model),
            networks=written,
            litert=litert,
        )
        (model / NAME).write_text(dump_manifest(web), "utf-8")
        (staging / "README.md").write_text(_readme(manifest, web), "utf-8")
        write_shell(staging)
        kept = {"title": settings.title, "name": settings.name, "licence": manifest.weights.licence}
        finish(staging, out, "web", manifest.model, kept)
    return web


def _copy_page(staging: Path, title: str) -> None:
    with as_file(files(__package__).joinpath("site")) as site:
        shutil.copytree(site, staging, dirs_exist_ok=True)
    page, installed = staging / "index.html", staging / "manifest.webmanifest"
    page.write_text(page.read_text("utf-8").replace(TITLE, html.escape(title)), "utf-8")
    named = installed.read_text("utf-8").replace(json.dumps(TITLE), json.dumps(title))
    installed.write_text(named, "utf-8")


def _networks(
    bundle: Bundle,
    manifest: app.AppManifest,
    settings: WebSettings,
    model: Path,
    on_progress: OnProgress,
) -> Iterator[WebNetwork]:
    """Yield each network as it is written to the folder of the model, once all of them have a program."""
    operations = {part.file: part.operations for part in bundle.manifest.components.values()}
    optional, parts = _optional(manifest), 1 + settings.expected
    programs: dict[str, dict[str, WebProgram]] = {}
    for file in networks(manifest) if settings.runtime == "msd" else ():
        on_progress(file.role, "compiling", 0, parts)
        programs[file.role] = write_programs(bundle.folder / file.name, file.role, model)
    for file in networks(manifest):
        path = bundle.folder / file.name
        shards = write_shards(path, model) if settings.runtime == "litert" else ()
        activity = "running on the CPU" if settings.expected else "writing"
        on_progress(file.role, activity, parts - 1, parts)
        expected = write_expected(path, file.role, file.inputs, model) if settings.expected else None
        on_progress(file.role, "written", parts, parts)
        yield WebNetwork(
            role=file.role,
            operations=operations[file.name],
            programs=programs.get(file.role, {}),
            model=shards,
            expected=expected,
            optional=file.role in optional,
        )


def _optional(manifest: app.AppManifest) -> set[str]:
    """Return the roles of networks that not every picture needs: ControlNets, and the upscaler."""
    steering = {call.component for call in manifest.calls if call.control}
    return steering | ({manifest.upscaler.role} if manifest.upscaler else set())


def _readme(manifest: app.AppManifest, web: WebManifest) -> str:
    text = files(__package__).joinpath("README.template.md").read_text("utf-8")
    return Template(text).substitute(
        name=" ".join(web.name.split()),
        msd=msd.__version__,
        megabytes=round(web.fetched["fp16"] / 1e6),
        licence=licence_of(manifest),
    )


def _unwatched(role: str, what: str, done: int, total: int) -> None:
    """Ignore progress."""
