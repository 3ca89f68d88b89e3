"""LiteRT.js beside the page, and .tflite files in shards for it.

    litert/litert.js  litert/wasm-utils.js      npm's packages @litertjs/core and @litertjs/wasm-utils
    litert/wasm/                                WebAssembly, with and without relaxed SIMD
    litert/LICENSE

The files are those of npm's packages but for a few edits: scripts become modules, because a worker that is a
module loads nothing else, and paths replace an import map, which the page's policy forbids.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import files as files_of
from pathlib import Path

from msd.errors import BadConfig
from msd.export.web.litert_packages import CORE, UTILS, VERSION, fetched_packages
from msd.export.web.manifest import LiteRtJs, WebFile
from msd.export.web.programs import WEIGHTS
from msd.gpu.store import SHARD_BYTES, content_name

FOLDER = "litert"
NOTICE = b"// Changed by msd: loaded as a module, from beside the page.\n"
LICENCE = "LICENSE"


OPENED, ABORTED = 344_732_800, 884_268_912
"""The bytes of the largest file that LiteRT.js was seen to open in Chromium, and of one at which its
WebAssembly ran out of memory: SD 2.1's text encoder and U-Net in int8, on an H100 (docs/web.md)."""


@dataclass(frozen=True)
class LiteRtFile:
    """A file of LiteRT.js: its package and path there, its SHA-256, its path in `FOLDER`, and what changes.

    `edits` are pairs of a text that occurs once and another in its place.
    """

    package: str
    path: str
    sha256: str
    target: str
    edits: tuple[tuple[str, str], ...] = ()


def _loader(name: str, sha256: str) -> LiteRtFile:
    path = f"wasm/{name}.js"
    end = "\n// Export using a UMD style export, or ES6 exports if selected\n"
    edit = (end, f"\nglobalThis.ModuleFactory = ModuleFactory;\n{end}")
    return LiteRtFile(CORE, path, sha256, target=path, edits=(edit,))


def _binary(name: str, sha256: str) -> LiteRtFile:
    path = f"wasm/{name}.wasm"
    return LiteRtFile(CORE, path, sha256, target=path)


PARTS = (
    LiteRtFile(
        package=CORE,
        path="dist/index.js",
        sha256="e7daccc3a31eef890848a737ccb863ded5f046a6b40c3fdc0556495adeb5d9b3",
        target="litert.js",
        edits=(
            ('from "@litertjs/wasm-utils";', 'from "./wasm-utils.js";'),
            ("\n//# sourceMappingURL=index.js.map", ""),
        ),
    ),
    LiteRtFile(
        package=UTILS,
        path="dist/bundle.js",
        sha256="c9c6c95a4e8692dd8a01f5d2d19dbe741b59c95c29d51bed19a22496760a9c62",
        target="wasm-utils.js",
        edits=(
            ("importScripts(scriptUrl.toString());", "await import(scriptUrl.toString());"),
            ('script.crossOrigin = "anonymous";', 'script.type = "module";'),
            ("\n//# sourceMappingURL=bundle.js.map", ""),
        ),
    ),
    _loader("litert_wasm_internal", "68efb69f770e3f76aff36a377de629ca496c131b86ac0f0f4b592a1543a898eb"),
    _binary("litert_wasm_internal", "7280cf4471774867e385e6c3cd53e2b45e2975b80fea338fff4ef359b0865614"),
    _loader(
        "litert_wasm_compat_internal", "4d8f894b7883654fd6e8439730aa41e79ceaab7d19184fc4f1f0b0f1a2a2c8a5"
    ),
    _binary(
        "litert_wasm_compat_internal", "5255c8ad06eabdbd2522cdebf6b22fc10faf74625c23a49b9e072570cd1fa41c"
    ),
)
"""What a browser loads. Other variants of the WebAssembly have threads or JSPI, which a GPU does not need."""


def require_litert_js(packages: Path | None = None) -> None:
    """Raise BadConfig where `copy_litert_js` would; fetches the packages if need be."""
    for _ in _parts(packages):
        pass


def copy_litert_js(packages: Path | None, site: Path) -> LiteRtJs:
    """Write LiteRT.js to the site, and return its record, with paths from the model's folder.

    `packages`: a folder with npm's packages, as node_modules is; None fetches them. Raises BadConfig where
    npm is missing or fails, and for files that are missing or are not those of `VERSION`.
    """
    for part, content in _parts(packages):
        target = site / FOLDER / part.target
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(_edited(part, content))
    (site / FOLDER / LICENCE).write_bytes(_licence())
    return LiteRtJs(VERSION, f"../{FOLDER}/litert.js", f"../{FOLDER}/wasm/")


def write_shards(path: Path, folder: Path) -> tuple[WebFile, ...]:
    """Write a .tflite file in pieces to the model's folder, one in memory at a time; raises OSError."""
    (folder / WEIGHTS).mkdir(exist_ok=True)
    shards = []
    with path.open("rb") as file:
        while piece := file.read(SHARD_BYTES):
            sha256 = hashlib.sha256(piece).hexdigest()
            name = f"{WEIGHTS}/{content_name(sha256)}"
            (folder / name).write_bytes(piece)
            shards.append(WebFile(name, len(piece), sha256))
    return tuple(shards)


def _parts(packages: Path | None) -> Iterator[tuple[LiteRtFile, bytes]]:
    """Yield each part with its content, which is what it should be."""
    folder = packages or fetched_packages()
    for part in PARTS:
        path = folder / part.package / part.path
        try:
            content = path.read_bytes()
        except OSError as problem:
            raise BadConfig(
                f"{path} cannot be read ({problem.strerror}); {folder} should have the packages {CORE} and"
                f" {UTILS} {VERSION}, as npm's node_modules has them"
            ) from None
        if hashlib.sha256(content).hexdigest() != part.sha256:
            raise BadConfig(f"{path} is not the file of {part.package} {VERSION}; its SHA-256 differs")
        yield part, content


def _edited(part: LiteRtFile, content: bytes) -> bytes:
    for before, after in part.edits:
        assert content.count(before.encode()) == 1, f"{part.path} has {before!r} once: its SHA-256 is known"
        content = content.replace(before.encode(), after.encode())
    return NOTICE + content if part.edits else content


def _licence() -> bytes:
    """Return LiteRT's licence, of its Python package: npm's packages name it and do not contain it."""
    found = [file for file in files_of("ai-edge-litert") or () if file.name == LICENCE]
    return found[0].read_binary()
