"""A folder of converted files, and the manifest that describes it.

text_encoder.tflite  unet.tflite  vae_decoder.tflite  preview_decoder.tflite  upscaler.tflite
vae_encoder.tflite       on request, and for models that read an image, such as those for inpainting
unet_first.tflite        the first half of a U-Net in two files
controlnet_NAME.tflite   of each ControlNet, whose residuals the U-Net then takes
token_embedding.tflite   before the text encoder, for TensorFlow Lite's GPU delegate alone
tokenizer/  scheduler/   vocab.json, merges.txt, and both's configurations
manifest.json            this module's `Manifest`; `open_bundle` reads such a folder
"""

from __future__ import annotations

import hashlib
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from msd.bounds import MOST_GUIDANCE, MOST_STEPS, is_whole
from msd.errors import BadBundle, BadConfig, OutputExists
from msd.files import schema
from msd.files.names import require_text
from msd.files.publication import complete
from msd.files.stated import require_stated
from msd.graph.ledger import ComponentLedger
from msd.models.families import FIRST, Family, families, find_family, title_of
from msd.models.families.calls import Call
from msd.models.families.control import with_controls
from msd.models.families.wiring import Wiring, require_calls, require_settings, wire
from msd.tensor_spec import TensorSpec

FORMAT, OLDEST = 3, 2
"""Format 2 had no calls, which follow from the family and the files; 1 only the type of the weights."""
MANIFEST = "manifest.json"
FOREIGN = "{} has the interface {}, another program's; convert without --interface for msd's own use"
LARGEST = 1e6
HASHED = 1 << 23
"""Bytes that are hashed at a time: between them a thread waits for others that run Python."""
COMPUTED_WITH: dict[str, tuple[type, ...]] = {
    "cosine_first": (bool,),
    "frequency_shift": (int, float),
    "scaling_factor": (int, float),
}
"""The settings of a component that generating images computes with, and their types."""

RunsOn = Literal["gpu", "cpu"]


@dataclass(frozen=True)
class File:
    """The expected SHA-256 of a file, in hexadecimal, and its size in bytes."""

    sha256: str
    bytes: int


@dataclass(frozen=True)
class Adapter:
    """A LoRA that was merged into the weights: its name among the source's files, and its scale."""

    file: str
    scale: float


@dataclass(frozen=True)
class Embedding:
    """A textual inversion: its name among the source's files, and the tokens that it added, one a vector."""

    file: str
    tokens: tuple[str, ...]


@dataclass(frozen=True)
class Source:
    """The converted checkpoint: `kind` such as "diffusers", its name, and each file read, by relative path.

    `published` identifies public files; `replaced` has those of components that are not the checkpoint's own.
    """

    kind: str
    name: str
    files: dict[str, File]
    adapters: tuple[Adapter, ...] = ()
    embeddings: tuple[Embedding, ...] = ()
    published: dict[str, str] = field(default_factory=dict)
    replaced: dict[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class RecipeFacts:
    """The recipe by which weights are stored: its name, and the SHA-256 of all its settings."""

    name: str
    sha256: str


@dataclass(frozen=True)
class ImageSize:
    """A size of images in pixels; as text WIDTHxHEIGHT, which is also the key of its signatures."""

    width: int
    height: int

    def __post_init__(self) -> None:
        given = self.width, self.height
        if any(not is_whole(each) or each < 1 for each in given):
            raise BadConfig(f"a size is {given[0]!r}x{given[1]!r}; whole numbers of pixels were expected")
        vars(self).update(width=int(self.width), height=int(self.height))

    def __str__(self) -> str:
        return f"{self.width}x{self.height}"


@dataclass(frozen=True)
class Configuration:
    """The settings of a conversion: image size in pixels, batch, recipe, and each component's own, by name.

    `networks`: "msd" for our own, "keras-cv" for keras-cv's. `prompt_chunks`: how many outputs of the text
    encoder the denoiser takes. `sizes` lists all image sizes of several, `height` and `width` the first's.
    `spelling`, `attention` and `interface` are named if not msd's own, whose program may read a file of
    `time_embeddings`. `controls` are ControlNets, inside the denoiser if `fused_controls`, `vae_tile` pixels
    a side of the autoencoder's tiles; `split`: two files of the U-Net. A component's settings have its name.
    """

    height: int
    width: int
    batch: int
    recipe: RecipeFacts
    networks: str = "msd"
    prompt_chunks: int = 1
    components: dict[str, dict[str, Any]] = field(default_factory=dict, metadata=schema.INLINE)
    sizes: tuple[ImageSize, ...] = field(default=(), metadata=schema.UNLESS_EMPTY)
    spelling: str = field(default="", metadata=schema.UNLESS_EMPTY)
    attention: str = field(default="", metadata=schema.UNLESS_EMPTY)
    interface: str = field(default="", metadata=schema.UNLESS_EMPTY)
    time_embeddings: str = field(default="", metadata=schema.UNLESS_EMPTY)
    controls: tuple[str, ...] = field(default=(), metadata=schema.UNLESS_EMPTY)
    fused_controls: bool = field(default=False, metadata=schema.UNLESS_EMPTY)
    vae_tile: int | None = field(default=None, metadata=schema.UNLESS_EMPTY)
    split: bool = field(default=False, metadata=schema.UNLESS_EMPTY)

    @property
    def all_sizes(self) -> tuple[ImageSize, ...]:
        """The image sizes, the default first."""
        return self.sizes or (ImageSize(self.width, self.height),)


@dataclass(frozen=True)
class ConvertedFile:
    """One .tflite file: its name in the folder, hash, size, number of operations, inputs and outputs.

    `made_from` is the fingerprint of everything that decides the file's bytes. `runs_on` is its processor.
    `signatures` are the keys of its signatures, one for each image size, where it has several; operations,
    inputs and outputs are then those of the first.
    """

    file: str
    sha256: str
    bytes: int
    operations: int
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    made_from: str = ""
    runs_on: RunsOn = "gpu"
    signatures: tuple[str, ...] = field(default=(), metadata=schema.UNLESS_EMPTY)


@dataclass(frozen=True)
class Conversion:
    """The cost of a conversion: wall seconds and the peak resident memory of the process in bytes.

    `stages` has the seconds of each stage of the components that this run converted. `left_out` are
    components that the model needs, and of which the checkpoint has no weights. `remarks` are sentences on
    settings that did nothing.
    """

    seconds: float
    peak_rss_bytes: int
    stages: dict[str, dict[str, float]] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()
    remarks: tuple[str, ...] = field(default=(), metadata=schema.UNLESS_EMPTY)


@dataclass(frozen=True)
class ImageDefaults:
    """The denoising steps and the guidance of an image for which nothing else is said."""

    steps: int = 20
    guidance: float = 7.5

    def unless(self, steps: int | None, guidance: float | None) -> ImageDefaults:
        """Return these, or in the place of each what is given."""
        return ImageDefaults(
            self.steps if steps is None else steps, self.guidance if guidance is None else guidance
        )


@dataclass(frozen=True)
class Manifest:
    """The contents of manifest.json.

    `family` names the kind of model (msd/models/families). `calls` say how its files run one after the other;
    those of components without a file are missing. `ledger`: the effect of each rewrite, by component.
    `scheduler`: its configuration. `images`: how many steps, and how much guidance, images take by default.
    `versions`: of libraries.
    """

    msd: str
    source: Source
    configuration: Configuration
    components: dict[str, ConvertedFile]
    conversion: Conversion
    calls: tuple[Call, ...] = ()
    ledger: dict[str, ComponentLedger] = field(default_factory=dict)
    scheduler: dict[str, Any] = field(default_factory=dict)
    images: ImageDefaults = ImageDefaults()
    versions: dict[str, str] = field(default_factory=dict)
    family: str = FIRST
    format: int = FORMAT


@dataclass(frozen=True)
class Bundle:
    """A folder of converted files, with its manifest."""

    folder: Path
    manifest: Manifest

    @property
    def family(self) -> Family:
        """The family of its model, with its ControlNets."""
        return family_of(self.manifest)

    @cached_property
    def wiring(self) -> Wiring:
        """The calls of its files, from the manifest; raises BadBundle for files that nothing can feed."""
        manifest = self.manifest
        if foreign := manifest.configuration.interface:
            raise BadBundle(FOREIGN.format(self.folder, foreign))
        calls = manifest.calls or wire(self.family, manifest.components, manifest.configuration.components)
        return Wiring(calls)

    def path(self, component: str) -> Path:
        """Return the path of a component's .tflite file; raises BadBundle if there is no such component."""
        return self.folder / self.component(component).file

    def _need(self, missing: str) -> str:
        """Return, as a clause, which network takes what a missing component computes, or what is due."""
        values = {o.value for call in self.manifest.calls if call.component == missing for o in call.outputs}
        for call in self.manifest.calls:
            for each in call.inputs:
                if any(source.kind == "value" and source.of in values for source in each.sources):
                    return f"its {title_of(call.component)} takes {each.name!r}"
        return f"it should have {', '.join(self.family.required)}"

    def component(self, name: str) -> ConvertedFile:
        """Return the manifest's entry for a component; raises BadBundle if there is no such component."""
        if not isinstance(name, str):
            raise BadBundle(f"{self.folder} has no component {name!r}; its name was expected")
        if name not in self.manifest.components:
            if name in self.family.names and (option := self.family.component(name).option):
                need = f"msd-convert CHECKPOINT {option} -o OUT writes one"
            else:
                need = self._need(name)
            raise BadBundle(f"{self.folder} has no {name}; {need}")
        return self.manifest.components[name]

    @property
    def model_hash(self) -> str:
        """The SHA-256 of the components' own SHA-256, in name order: it identifies the converted weights."""
        parts = sorted(self.manifest.components.items())
        return hashlib.sha256("".join(f"{name} {part.sha256}\n" for name, part in parts).encode()).hexdigest()


def open_bundle(folder: str | Path, verify: bool = False) -> Bundle:
    """Return the bundle in `folder`, its files checked by size and, if `verify`, by SHA-256.

    First completes a conversion that was cut off. Raises BadBundle for missing and changed files, an invalid
    manifest or scheduler, OutputUnwritable where nothing can be completed, BadConfig for a name beyond UTF-8.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise BadBundle(f"{folder} is not a folder; it should be one that msd-convert wrote")
    require_text(folder)
    complete(folder)
    bundle = Bundle(folder, load_manifest(folder / MANIFEST))
    for component in bundle.manifest.components.values():
        _check_file(folder / component.file, component, verify)
    require_stated(folder / "scheduler" / "scheduler_config.json", bundle.manifest.scheduler)
    return bundle


def require_no_bundle(out: Path) -> None:
    """Raise OutputExists where `out` is a folder of converted files: nothing else is written into one."""
    with suppress(BadBundle):
        load_manifest(out / MANIFEST)
        raise OutputExists(f"{out} is a folder that msd-convert wrote; give another one")


def load_manifest(path: Path) -> Manifest:
    """Return the manifest in a file; raises BadBundle for one that is missing, newer, or invalid."""
    try:
        manifest = schema.load(Manifest, path, FORMAT, "a manifest", OLDEST)
    except OSError as error:
        raise BadBundle(f"cannot read {path} ({error.strerror}); msd-convert writes one") from error
    except ValueError as error:
        raise BadBundle(str(error)) from error
    _check_names(path, manifest)
    try:
        _check_family(path, manifest)
        require_calls(family_of(manifest), manifest.calls, manifest.components)
        _check_numbers(manifest)
        require_settings(family_of(manifest), manifest.calls, manifest.configuration.components)
    except (BadConfig, ValueError) as error:
        raise BadBundle(f"{path} is not a manifest: {error}") from error
    return manifest


def dump_manifest(manifest: Manifest) -> str:
    """Return the text of a manifest.json, keys in the order of `Manifest`, ending in a newline."""
    return schema.dump(manifest)


def file_facts(path: Path) -> File:
    """Return a file's SHA-256 and size, reading one piece at a time; raises OSError."""
    digest, size = hashlib.sha256(), 0
    with path.open("rb", buffering=0) as stream:
        piece = memoryview(bytearray(min(HASHED, path.stat().st_size + 1)))
        while count := stream.readinto(piece):
            digest.update(piece[:count])
            size += count
    return File(digest.hexdigest(), size)


def _check_names(path: Path, manifest: Manifest) -> None:
    """Refuse file names that lead out of the folder: a manifest may come from an untrusted source."""
    named = {name: component.file for name, component in manifest.components.items()}
    if table := manifest.configuration.time_embeddings:
        named["the time embeddings"] = table
    for name, file in named.items():
        if file in ("", ".", "..") or Path(file).name != file:
            raise BadBundle(f"{path} puts {name} in {file!r}, which is not a plain file name")


def family_of(manifest: Manifest) -> Family:
    """Return the family of a manifest's model, with its ControlNets; raises BadConfig for wrong ones."""
    own, family = manifest.configuration, find_family(manifest.family)
    return with_controls(family, own.controls, own.fused_controls)


def _check_family(path: Path, manifest: Manifest) -> None:
    """Refuse a family that this msd does not know, and components that the family does not have."""
    known = families()
    if manifest.family not in known:
        raise BadBundle(
            f"{path} is of the family {manifest.family!r}, and this msd knows {', '.join(known)};"
            " a newer msd is needed"
        )
    family = family_of(manifest)
    for name in manifest.components:
        if name not in family.files:
            files = ", ".join(family.files)
            raise BadBundle(f"{path} lists {name!r}; a bundle of {family.title} has {files}")
    for name in family.required:
        if name not in manifest.configuration.components:
            raise BadBundle(f"{path} is not a manifest: manifest.json.configuration lacks {name!r}")


def _check_numbers(manifest: Manifest) -> None:
    """Raise ValueError, with a clause, for numbers and tensors that no conversion writes."""
    for name, file in manifest.components.items():
        try:
            for spec in (*file.inputs, *file.outputs):
                spec.require_sensible()
        except ValueError as error:
            raise ValueError(f"of {name}, {error}") from error
    images = manifest.images
    if not 1 <= images.steps <= MOST_STEPS or not abs(images.guidance) <= MOST_GUIDANCE:
        raise ValueError(
            f"images take {images.steps} steps and guidance {images.guidance:g}, beyond the bounds"
        )
    for name, settings in manifest.configuration.components.items():
        for key, kinds in COMPUTED_WITH.items():
            value = settings.get(key, kinds[0]())
            if type(value) not in kinds or not abs(value) <= LARGEST:
                raise ValueError(f"{key} of {name} is {value!r}, of which no network has been built")


def _check_file(path: Path, expected: ConvertedFile, verify: bool) -> None:
    if not path.is_file():
        raise BadBundle(f"{path} is missing, though {MANIFEST} lists it; convert the checkpoint again")
    if (size := path.stat().st_size) != expected.bytes:
        raise BadBundle(
            f"{path} has {size} bytes and {MANIFEST} says {expected.bytes}; convert the checkpoint again"
        )
    if verify and file_facts(path).sha256 != expected.sha256:
        raise BadBundle(f"{path} has another SHA-256 than {MANIFEST} says; convert the checkpoint again")
