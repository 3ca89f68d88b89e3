"""The networks of a family for one image size: a builder of each, and the inputs to trace it with.

An architecture's `config` is a class with `from_diffusers(config.json, folder)`, which returns an instance
and names the folder in messages, and `inputs(size)`, which returns the shape and dtype of each input by name.
Its `network` is a function of such an instance, a `Size` and the component's name that returns the Keras
model.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, runtime_checkable

from msd.errors import BadCheckpoint, BadConfig
from msd.models.families import Component, Family
from msd.models.families.family import resolve
from msd.models.trace import InputSpecs

DEFAULT_LENGTH = 77
"""The number of tokens in a prompt where no text encoder specifies it."""


@dataclass(frozen=True)
class Size:
    """The sizes that a network is built for: latent `rows` and `columns`, `length` in tokens, and the batch.

    `scale` is the number of pixels along the side of a latent cell.
    """

    rows: int
    columns: int
    length: int = DEFAULT_LENGTH
    batch: int = 1
    scale: int = 8

    @property
    def pixels(self) -> tuple[int, int]:
        """The height and width of images."""
        return self.rows * self.scale, self.columns * self.scale


class NetworkConfig(Protocol):
    """The configuration of one component, a frozen dataclass."""

    def inputs(self, size: Size) -> InputSpecs:
        """Return the shape and dtype of each input, by its name."""


@runtime_checkable
class NumberedConfig(Protocol):
    """The configuration of a component that says which modules its weights must have."""

    def last_modules(self) -> tuple[str, ...]:
        """Return the modules with the highest numbers, which the weights of such a network have."""


class DenoiserConfig(NetworkConfig, Protocol):
    """The configuration of the component that denoises."""

    @property
    def size(self) -> tuple[int, int]:
        """Rows and columns of the latents that it was trained on."""

    @property
    def multiple(self) -> int:
        """The number that rows and columns must be multiples of."""


class DecoderConfig(NetworkConfig, Protocol):
    """The configuration of the component that decodes."""

    @property
    def scale(self) -> int:
        """The number of pixels along the side of a latent cell."""


Configs = Mapping[str, Any]
"""The `NetworkConfig` of each component, by its name."""


@dataclass(frozen=True)
class Network:
    """A Keras model before it is built: `build()` returns it; `inputs` are each input's shape and dtype.

    `description` contains everything that decides the model; equal descriptions mean equal networks.
    """

    build: Callable[[], Any]
    inputs: InputSpecs
    description: str


def read_configs(
    family: Family, parsed: Mapping[str, Mapping[str, Any]], absent: Collection[str] = ()
) -> dict[str, Any]:
    """Return the configuration of each component from parsed config.json files, by the name of their folder.

    The optional components `absent`, of which there are no weights, and those without a folder are left out.
    Raises BadCheckpoint for a network that we cannot build and for networks that cannot work together.
    """
    possible = [c for c in family.components if not c.optional or c.part.folder in parsed]
    present = [c for c in possible if c.name not in absent]
    configs = {c.name: read_config(c, parsed[c.part.folder]) for c in present}
    family.require_fit(configs)
    return configs


def require_depth(component: str, config: NetworkConfig, names: Collection[str], where: str) -> None:
    """Raise BadCheckpoint where tensors with these `names` are of a shallower network than `config`.

    Tracing a network takes long, in proportion to its depth, so that this comes first. Of a `config` that is
    no `NumberedConfig`, nothing is known.
    """
    for module in config.last_modules() if isinstance(config, NumberedConfig) else ():
        if not any(name.startswith(f"{module}.") for name in names):
            raise BadCheckpoint(
                f"{component} of {where} has no {module}, which its config.json counts: its weights are those"
                " of another network"
            )


def read_config(component: Component, parsed: Mapping[str, Any]) -> Any:
    """Return a component's configuration from its parsed config.json, whose `_class_name` may decide.

    Raises BadCheckpoint for a network that we cannot build.
    """
    return resolve(component.architecture(parsed.get("_class_name")).config).from_diffusers(
        parsed, component.part.folder
    )


def networks(family: Family, configs: Configs, size: Size) -> dict[str, Network]:
    """Return the network of each component that `configs` has, by its name."""
    present = [component for component in family.components if component.name in configs]
    return {component.name: _network(component, configs[component.name], size) for component in present}


def _network(component: Component, config: Any, size: Size) -> Network:
    others = component.alternatives.values()
    alternatives = (other.network for other in others if isinstance(config, resolve(other.config)))
    place = next(alternatives, component.network)
    return Network(
        partial(_build, place, config, size, component.name), config.inputs(size), f"{place} of {config}"
    )


def _build(place: str, config: Any, size: Size, name: str) -> Any:
    return resolve(place)(config, size, name)


def size_of(
    family: Family,
    configs: Configs,
    height: int | None = None,
    width: int | None = None,
    batch: int = 1,
    chunks: int = 1,
) -> Size:
    """Return the size for images of `height` by `width` pixels, by default the denoiser's own.

    The denoiser takes the context of `chunks` times the tokens that the text encoders read at once.
    Raises BadConfig for pixels that the levels of the denoiser and the decoder do not divide, and for less
    than one chunk.
    """
    if chunks < 1:
        raise BadConfig(f"a prompt cannot have {chunks} chunks; 1 or more were expected")
    denoiser: DenoiserConfig = configs[family.denoiser.name]
    decoder: DecoderConfig = configs[family.decoder.name]
    cells = []
    for name, pixels, trained in (("height", height, denoiser.size[0]), ("width", width, denoiser.size[1])):
        own, step = trained * decoder.scale, decoder.scale * denoiser.multiple
        if pixels is None and (own < step or own % step):
            raise BadConfig(
                f"the checkpoint's own {name}, {own} pixels, is no multiple of {step}, as it must be here;"
                " msd-convert --size WIDTHxHEIGHT takes another"
            )
        pixels = own if pixels is None else pixels
        if pixels < step or pixels % step:
            raise BadConfig(f"the {name} of {pixels} pixels must be a multiple of {step}")
        cells.append(pixels // decoder.scale)
    rows, columns = cells
    length = chunks * _length(family, configs)
    return Size(rows=rows, columns=columns, length=length, batch=batch, scale=decoder.scale)


def _length(family: Family, configs: Configs) -> int:
    """Return the number of tokens that the text encoders read."""
    lengths = (getattr(configs[encoder.name], "length", None) for encoder in family.text_encoders)
    return next((length for length in lengths if length is not None), DEFAULT_LENGTH)
