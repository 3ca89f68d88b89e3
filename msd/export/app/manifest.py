"""The files that an app reads: sd-manifest.json, computed in advance, and the tokenizer's two files.

    manifest = describe(bundle, steps=(20, 25))
    write_manifest(manifest, bundle, folder)        # sd-manifest.json, tokens.txt, merges.txt

Apps of every platform read it, such as Android's (msd/export/android/kotlin/Manifest.kt). It has all
coefficients of the scheduler, so that a phone only multiplies and adds.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msd
from msd.bundle import Bundle, ConvertedFile, Source
from msd.errors import BadBundle
from msd.export.app.delegation import Delegation, delegation
from msd.export.app.requirements import require_runs
from msd.export.app.schedules import ImageFacts, Schedule, image_facts, schedules
from msd.export.app.tokenizer_facts import TokenizerFacts, open_tokenizers, tokenizer_facts
from msd.export.app.tokenizer_files import MERGES, VOCABULARY, tokenizer_texts
from msd.export.app.upscaler import UpscalerFacts, upscaler_facts
from msd.files import schema
from msd.files.atomic import atomic_write
from msd.graph.ir import SIGNATURE
from msd.measure.report.report import Report
from msd.models.demo.least_steps import is_demo
from msd.models.families import title_of
from msd.models.families.calls import Call, InputSource
from msd.run.runtime.guidance import Guidance, Mode
from msd.run.runtime.needs import latent_shape
from msd.run.runtime.numbers import COUNTS
from msd.run.runtime.scheduler import bundle_scheduler, name_of_kind
from msd.run.runtime.timestep import frequencies
from msd.run.runtime.tokenizer import Tokenizer
from msd.tensor_spec import TensorSpec

FORMAT = 4
NAME = "sd-manifest.json"
DEMO_NAME = "msd demo"
UNTELLING = "checkpoint", "diffusers", "model", "weights"
"""Names of checkpoints that do not say which one it is."""
LARGEST_PREVIEW = 32_000_000
"""The size in bytes from which a decoder is too large for previews: it would stay open beside the U-Net."""
SYSTEM_MEMORY = 1_500_000_000
"""What Android and other apps keep for themselves, in bytes: an estimate that no phone has confirmed."""

RUNTIME = "2.3.0"
"""The version of LiteRT whose delegate the conversion is tested with."""


@dataclass(frozen=True)
class ModelFile:
    """A file of the app: its `role` is a component's name, or "vocabulary" or "merges".

    `title` is the role in people's words. `signature` is the key of a .tflite file's signature, None for
    the tokenizer's files.
    """

    name: str
    role: str
    title: str
    bytes: int
    sha256: str
    signature: str | None = None
    inputs: tuple[TensorSpec, ...] = ()
    outputs: tuple[TensorSpec, ...] = ()


@dataclass(frozen=True)
class GuidanceFacts:
    """The guidance mode at `scale`, the app's default."""

    mode: Mode
    scale: float


@dataclass(frozen=True)
class WeightsOrigin:
    """The origin of the weights: what people call them, files by SHA-256, and the licence, None where it is
    unknown."""

    kind: str
    name: str
    sha256: dict[str, str]
    licence: str | None = None


@dataclass(frozen=True)
class AppManifest:
    """The content of sd-manifest.json; `height` and `width` in pixels, `latent` NHWC.

    `calls` say what each network is given, when it runs, and what it computes (msd/models/families/calls.py).
    `tokenizers` are by the names that calls have for them; they share one vocabulary and its merges.
    `prompt_chunks`: how many outputs of a text encoder follow each other. `precision`, "fp16" or "fp32", is
    for the phone's arithmetic. `runtime`: the oldest supported version of LiteRT. `versions` of the converter
    and its libraries. `min_memory`: the least memory of a phone in bytes. `preview`: the role of the network
    that decodes previews, None where they would cost too much memory. `image`: None where no network reads
    one. `upscaler`: None where there is none, whose call is not among `calls`.
    """

    model: str
    files: tuple[ModelFile, ...]
    calls: tuple[Call, ...]
    height: int
    width: int
    latent: tuple[int, ...]
    prediction: str
    scheduler: str
    schedules: tuple[Schedule, ...]
    guidance: GuidanceFacts
    tokenizers: dict[str, TokenizerFacts]
    recipe: str
    precision: str
    runtime: str
    versions: dict[str, str]
    weights: WeightsOrigin
    min_memory: int
    preview: str | None = None
    image: ImageFacts | None = None
    upscaler: UpscalerFacts | None = None
    delegation: tuple[Delegation, ...] = ()
    prompt_chunks: int = 1
    format: int = FORMAT


def describe(
    bundle: Bundle,
    steps: Sequence[int] = (),
    scheduler: str | None = None,
    guidance: float | None = None,
    precision: str = "fp16",
    licence: str | None = None,
    report: Report | None = None,
    min_memory: int | None = None,
) -> AppManifest:
    """Return the app's manifest of a bundle, with a schedule for each number of `steps`, the default first.

    Without `steps` or `guidance`, those of the bundle's manifest are used.
    `report`: a delegation report of the bundle's files. `min_memory`: the least memory of a phone in bytes,
    estimated where it is None. Raises BadBundle for a bundle that lacks a file or is for TensorFlow Lite's
    delegate, BadReport for a report without any of its files, and BadConfig for an impossible number of
    steps, precision or tokenizer.
    """
    require_runs(bundle, precision)
    images = bundle.manifest.images.unless(None, guidance)
    configuration, source = bundle.manifest.configuration, bundle.manifest.source
    chosen = bundle_scheduler(bundle, scheduler)
    tokenizers = open_tokenizers(bundle)
    enlarging = upscaler_facts(bundle)
    roles = [*_roles(bundle), *([enlarging.role] if enlarging else [])]
    networks = [_file(name, bundle.component(name)) for name in roles]
    counts = steps or [images.steps]
    return AppManifest(
        model=bundle.model_hash,
        files=(*networks, *_tokenizer_files(next(iter(tokenizers.values())))),
        calls=tuple(_with_frequencies(call, bundle) for call in _calls(bundle)),
        height=configuration.height,
        width=configuration.width,
        latent=latent_shape(bundle),
        prediction=chosen.diffusion.prediction_type,
        scheduler=name_of_kind(chosen),
        schedules=schedules(chosen, counts),
        guidance=GuidanceFacts(Guidance.of(bundle, images.guidance).mode, images.guidance),
        tokenizers={name: tokenizer_facts(tokenizer) for name, tokenizer in tokenizers.items()},
        recipe=configuration.recipe.name,
        precision=precision,
        runtime=RUNTIME,
        versions={"msd": msd.__version__, **bundle.manifest.versions},
        weights=_origin(source, _name(bundle), licence),
        min_memory=min_memory or _memory(bundle, networks),
        preview=_preview(bundle, networks),
        image=image_facts(bundle, chosen, counts),
        upscaler=enlarging,
        delegation=delegation(bundle, report),
        prompt_chunks=configuration.prompt_chunks,
    )


def write_manifest(manifest: AppManifest, bundle: Bundle, folder: Path) -> None:
    """Write sd-manifest.json, tokens.txt and merges.txt to `folder`, each atomically.

    `manifest` is the result of `describe` for the bundle. Raises OutputUnwritable.
    """
    texts = tokenizer_texts(next(iter(open_tokenizers(bundle).values())))
    for name, text in {**texts, NAME: dump_manifest(manifest)}.items():
        with atomic_write(folder / name) as partial:
            partial.write_bytes(text.encode())


def dump_manifest(manifest: AppManifest) -> str:
    """Return the text of sd-manifest.json, ending in a newline."""
    return schema.dump(manifest)


def load_manifest(path: Path) -> AppManifest:
    """Return the manifest in a file; raises BadBundle for a file that is missing, newer or malformed."""
    return schema.require(BadBundle, AppManifest, path, FORMAT, "an app's manifest", FORMAT)


def _file(role: str, part: ConvertedFile) -> ModelFile:
    for port in (*part.inputs, *part.outputs):
        if port.dtype not in ("float32", "int32"):
            raise BadBundle(
                f"{part.file} has {port.name} of type {port.dtype}; apps support float32 and int32"
            )
    return ModelFile(
        name=part.file,
        role=role,
        title=title_of(role),
        bytes=part.bytes,
        sha256=part.sha256,
        signature=SIGNATURE,
        inputs=part.inputs,
        outputs=part.outputs,
    )


def _origin(source: Source, name: str, licence: str | None) -> WeightsOrigin:
    hashes = {file: facts.sha256 for file, facts in source.files.items()}
    return WeightsOrigin(kind=source.kind, name=name, sha256=hashes, licence=licence)


def _name(bundle: Bundle) -> str:
    """Return what people call the model: the checkpoint's name, or the bundle's where that says nothing."""
    source = bundle.manifest.source
    if is_demo(file.sha256 for file in source.files.values()):
        return DEMO_NAME
    return bundle.folder.resolve().name if source.name.lower() in UNTELLING else source.name


def _memory(bundle: Bundle, networks: Sequence[ModelFile]) -> int:
    """Return the least memory of a phone: the largest network, its weights as float16, and the system's part.

    Both halves of a network are open at once.
    """
    sizes = Counter[str]()
    for file in networks:
        sizes[bundle.family.component_of(file.role).name] += file.bytes
    return SYSTEM_MEMORY + 3 * max(sizes.values())


def _preview(bundle: Bundle, networks: Sequence[ModelFile]) -> str | None:
    """Return the network that decodes previews: the one for that alone, or else a small decoder."""
    wiring = bundle.wiring
    if wiring.preview is not None:
        return wiring.preview.component
    sizes = {file.role: file.bytes for file in networks}
    decoder = wiring.decoder.component
    return decoder if sizes[decoder] <= LARGEST_PREVIEW else None


def _roles(bundle: Bundle) -> list[str]:
    """Return the names of the files that calls run, in order."""
    return [*dict.fromkeys(call.component for call in _calls(bundle))]


def _calls(bundle: Bundle) -> list[Call]:
    """Return the calls that make an image: not that of an upscaler, which runs once for each tile."""
    return [call for call in bundle.wiring.calls if call is not bundle.wiring.upscaler]


def _with_frequencies(call: Call, bundle: Bundle) -> Call:
    """Return the call with the frequencies of its sinusoids, which apps do not compute."""
    shapes = {spec.name: spec.shape for spec in bundle.component(call.component).inputs}
    inputs = (
        replace(each, sources=tuple(_app_source(source, shapes[each.name]) for source in each.sources))
        for each in call.inputs
    )
    return replace(call, inputs=tuple(inputs))


def _app_source(source: InputSource, shape: tuple[int, ...]) -> InputSource:
    if source.kind != "sinusoids":
        return source
    width = shape[-1] // COUNTS.get(source.of, 1)
    return replace(source, frequencies=tuple(map(float, frequencies(width, source.frequency_shift))))


def _tokenizer_files(tokenizer: Tokenizer) -> list[ModelFile]:
    roles = {VOCABULARY: "vocabulary", MERGES: "merges"}
    contents = {name: text.encode() for name, text in tokenizer_texts(tokenizer).items()}
    return [
        ModelFile(
            name=name,
            role=roles[name],
            title=roles[name],
            bytes=len(content),
            sha256=hashlib.sha256(content).hexdigest(),
        )
        for name, content in contents.items()
    ]
