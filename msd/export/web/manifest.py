"""web-manifest.json: what the page fetches before it generates, and what that needs of a device.

sd-manifest.json beside it, which apps of every platform read, says how to generate.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from msd.files import schema
from msd.gpu.gpu import MatrixUnit

FORMAT = 1
NAME = "web-manifest.json"
TITLE = "Pictures from your own GPU"
"""Of the page as it lies in site/."""

Runtime = Literal["msd", "litert"]
RUNTIMES: tuple[Runtime, ...] = ("msd", "litert")


@dataclass(frozen=True)
class WebFile:
    """A file that the page keeps; `file` is its path from the manifest's folder, with slashes."""

    file: str
    bytes: int
    sha256: str


@dataclass(frozen=True)
class WebProgram:
    """A network compiled by msd.gpu for one kind of GPU.

    `program` is JSON (msd.gpu.store), whose shards are `shards`. `limits`: the least values of WebGPU's
    limits that it needs, by WebGPU's names, where they exceed the standard's defaults. `memory`: the bytes of
    all its buffers on the GPU. `matrix`: the matrix unit that its shaders need, None without.
    """

    program: WebFile
    shards: tuple[WebFile, ...]
    limits: dict[str, int]
    memory: int
    matrix: MatrixUnit | None = field(default=None, metadata=schema.UNLESS_EMPTY)


@dataclass(frozen=True)
class ExpectedOutputs:
    """The outputs of LiteRT on the CPU by name, float32 in little-endian order, for inputs made from `seed`.

    An input of floats is normal noise from the stream of its number (msd/export/web/site/msd/noise.js); an
    input of token ids counts up from 0, again and again, to `tokens`; the last is `end`, if there is one: the
    id that the network compares them with.
    """

    seed: int
    tokens: int
    outputs: dict[str, WebFile]
    end: int | None = None


@dataclass(frozen=True)
class WebNetwork:
    """A network by its role in sd-manifest.json, and the operations of its .tflite file.

    `programs` are for the runtime "msd", by kind: a precision, alone or with "-discrete" for GPUs with many
    processors, or with a matrix unit's size. `model`, the .tflite file in shards, is for "litert". An
    `optional` one is fetched when a picture needs it: a ControlNet, or the upscaler.
    """

    role: str
    operations: int
    programs: dict[str, WebProgram] = field(default_factory=dict)
    model: tuple[WebFile, ...] = ()
    expected: ExpectedOutputs | None = None
    optional: bool = field(default=False, metadata=schema.UNLESS_EMPTY)

    def files(self, precision: str) -> tuple[WebFile, ...]:
        """Return the files that running it with a precision needs."""
        program = self.programs.get(precision)
        return (program.program, *program.shards) if program else self.model


@dataclass(frozen=True)
class LiteRtJs:
    """LiteRT.js beside the page: its version, its module's path, and that of its folder of WebAssembly."""

    version: str
    module: str
    wasm: str


@dataclass(frozen=True)
class WebManifest:
    """The content of web-manifest.json; `model` identifies the bundle, as in sd-manifest.json.

    `name` is what the page calls the model, and `example` a prompt to begin with, "" where none is known.
    """

    runtime: Runtime
    model: str
    name: str
    example: str
    app: WebFile
    vocabulary: WebFile
    merges: WebFile
    networks: tuple[WebNetwork, ...]
    litert: LiteRtJs | None = None
    format: int = FORMAT

    @property
    def largest_model(self) -> int:
        """The bytes of the largest .tflite file for LiteRT.js."""
        return max((sum(file.bytes for file in network.model) for network in self.networks), default=0)

    @property
    def fetched(self) -> dict[str, int]:
        """The bytes of the networks that a visitor fetches at first, by precision; equal files count once."""
        needed = [network for network in self.networks if not network.optional]
        return {precision: _bytes(needed, precision) for precision in ("fp16", "fp32")}

    @property
    def fetched_later(self) -> dict[str, int]:
        """The bytes of each optional network, by role."""
        return {network.role: _bytes([network], "fp16") for network in self.networks if network.optional}


def _bytes(networks: Iterable[WebNetwork], precision: str) -> int:
    files = (file for network in networks for file in network.files(precision))
    return sum({file.sha256: file.bytes for file in files}.values())


def dump_manifest(manifest: WebManifest) -> str:
    """Return the text of web-manifest.json, ending in a newline."""
    return schema.dump(manifest)
