"""The description of a kind of model: its components, the places of their weights, and their connections.

A family is data. Where code is needed, it is named as "module:name" and imported when it is used, so that
reading a manifest imports neither Keras nor a network.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from msd.models.families.calls import Call, InputSource, OutputKind, When, require_family_calls


@dataclass(frozen=True)
class Part:
    """The place of a component's weights and configuration in a folder of diffusers' layout.

    `folder` holds config.json and the weights in the file `stem`.safetensors, whole or in shards. `prefixes`
    are those of the component's tensors where the folder holds more than one component; () for all. The
    first is that of a tensor without which the folder lacks the component.
    """

    folder: str
    stem: str = "diffusion_pytorch_model"
    prefixes: tuple[str, ...] = ()

    def is_among(self, tensors: Iterable[str]) -> bool:
        """Whether the names of tensors include the component's own: any, or one with the first prefix."""
        return any(name.startswith(self.prefixes[:1] or "") for name in tensors)


@dataclass(frozen=True)
class Architecture:
    """One kind of network that a component can be; both values are "module:name".

    `config` reads its config.json, and `network` builds the Keras model (msd/models/networks.py).
    """

    config: str
    network: str


@dataclass(frozen=True, eq=False)
class Component:
    """One network of a family, and the .tflite file `name`.tflite that it becomes.

    `config` and `network` are its usual `Architecture`; `alternatives` has others by the `_class_name` that
    their config.json states.

    `lookup` names a second file, for the CPU, with the rows of its tokens, for delegates without a table
    lookup; `first_half` one with what runs before the rest, where a conversion splits the network. Pruning
    applies to it by default if `prunable`. A component with an `option`, of msd-convert, is converted where
    that is given or where `Family.needs` names it, and generating an image from a prompt does without it.
    """

    name: str
    title: str
    part: Part
    config: str
    network: str
    lookup: str | None = None
    first_half: str | None = None
    prunable: bool = False
    option: str = ""
    alternatives: Mapping[str, Architecture] = field(default_factory=dict)

    @property
    def optional(self) -> bool:
        """Whether generating an image from a prompt does without it."""
        return bool(self.option)

    def architecture(self, class_name: object) -> Architecture:
        """Return the architecture for a config.json with that `_class_name`: the usual one if none has it."""
        usual = Architecture(self.config, self.network)
        return next((each for name, each in self.alternatives.items() if name == class_name), usual)

    @property
    def files(self) -> tuple[str, ...]:
        """The names of the files it can become, without their ending, in the order in which they run."""
        return (*self.before, self.name)

    @property
    def before(self) -> tuple[str, ...]:
        """The names of the files that it may have beside its own, which run before it."""
        return tuple(file for file in (self.lookup, self.first_half) if file)


def _accept(configs: Mapping[str, Any]) -> None:
    """Accept all configurations."""


def _nothing(configs: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the components that a model needs beside the required ones: none."""
    return ()


@dataclass(frozen=True, eq=False)
class Family:
    """A kind of model: its `components` in the order in which they run, and its wiring, the `calls`.

    `pipelines` are the classes that a model_index.json of diffusers names. `require_fit` raises BadCheckpoint
    for configurations, by component, that cannot work together; `needs` returns the names of the optional
    components that a model with such configurations cannot do without. `index` has what a model_index.json
    must say where it says anything, and `scaling_factor` is that of latents where only weights are known.
    `overflowing` are components whose activations float16 does not hold in some public checkpoints.
    A model that `takes_controls` can have ControlNets too (msd/models/families/control.py).
    Raises ValueError for calls that no pipeline can run.
    """

    name: str
    title: str
    components: tuple[Component, ...]
    calls: tuple[Call, ...]
    pipelines: tuple[str, ...]
    require_fit: Callable[[Mapping[str, Any]], None] = _accept
    needs: Callable[[Mapping[str, Any]], tuple[str, ...]] = _nothing
    index: Mapping[str, Any] = field(default_factory=dict)
    scaling_factor: float = 1.0
    overflowing: tuple[str, ...] = ()
    takes_controls: bool = False

    def __post_init__(self) -> None:
        try:
            require_family_calls(self.calls, self.names)
        except ValueError as problem:
            raise ValueError(f"the family {self.name}: {problem}") from problem

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all components."""
        return tuple(component.name for component in self.components)

    @property
    def required(self) -> tuple[str, ...]:
        """The names of the components that every bundle needs to generate images."""
        return tuple(component.name for component in self.components if not component.optional)

    @property
    def folders(self) -> dict[str, bool]:
        """The folders of a checkpoint in diffusers' layout, and whether each has to be there."""
        needed = {component.part.folder for component in self.components if not component.optional}
        return {each.part.folder: each.part.folder in needed for each in self.components}

    @property
    def files(self) -> tuple[str, ...]:
        """The names of all files that a bundle can have, without their ending, in the order they run."""
        return tuple(file for component in self.components for file in component.files)

    @property
    def lookups(self) -> tuple[str, ...]:
        """The names of the files that hold token rows, for the CPU."""
        return tuple(component.lookup for component in self.components if component.lookup)

    @property
    def prunable(self) -> tuple[str, ...]:
        """The names of the components that pruning applies to where a recipe names none."""
        return tuple(component.name for component in self.components if component.prunable)

    @property
    def text_encoders(self) -> tuple[Component, ...]:
        """The components that read tokens."""
        return tuple(c for c in self.components if any(s.kind == "tokens" for s in self.sources(c.name)))

    @property
    def tokenizers(self) -> tuple[str, ...]:
        """The names of the tokenizers, each once: of the folders that hold them, too."""
        return tuple(dict.fromkeys(of for name in self.names for of in self.tokenizers_of(name)))

    def tokenizers_of(self, name: str) -> tuple[str, ...]:
        """Return the names of the tokenizers whose tokens a component takes."""
        return tuple(source.of for source in self.sources(name) if source.kind == "tokens")

    @property
    def denoiser(self) -> Component:
        """The component whose output a scheduler takes a step with."""
        return self._computing("step", "prediction")[0]

    @property
    def controls(self) -> tuple[str, ...]:
        """The names of the components that are ControlNets."""
        return tuple(dict.fromkeys(call.component for call in self.calls if call.control))

    @property
    def preview(self) -> Component | None:
        """The component that decodes latents to previews, if there is one for that alone."""
        return next(iter(self._computing("preview", "image")), None)

    @property
    def upscaler(self) -> Component | None:
        """The component that enlarges decoded images, if there is one."""
        return next(iter(self._computing("end", "enlarged")), None)

    def added(self, preview: bool, upscaler: bool) -> tuple[str, ...]:
        """Return the names of the components for previews and for enlarging, of those that are given."""
        given = ((preview, self.preview), (upscaler, self.upscaler))
        return tuple(component.name for is_given, component in given if is_given and component)

    @property
    def decoder(self) -> Component:
        """The component that decodes latents to images."""
        return self._computing("end", "image")[0]

    @property
    def image_encoder(self) -> Component | None:
        """The component that encodes an image to begin from, if there is one."""
        return next(iter(self._computing("once", "moments", "latents")), None)

    @property
    def tiled(self) -> tuple[str, ...]:
        """The names of the components that can run tile by tile: both halves of the autoencoder."""
        folder = self.decoder.part.folder
        return tuple(component.name for component in self.components if component.part.folder == folder)

    def _computing(self, when: When, *kinds: OutputKind) -> list[Component]:
        calls = (c for c in self.calls if c.when == when and any(o.kind in kinds for o in c.outputs))
        return [self.component(call.component) for call in calls]

    def sources(self, name: str) -> tuple[InputSource, ...]:
        """Return all sources of the inputs of a component, alternatives among them."""
        return tuple(source for call in self.calls if call.component == name for source in call.sources)

    @property
    def latent_inputs(self) -> tuple[str, ...]:
        """The names of the denoiser's inputs that latents are part of."""
        calls = (call for call in self.calls if call.component == self.denoiser.name)
        given = (each for call in calls for each in call.inputs)
        return tuple(
            {each.name: None for each in given if any(source.kind == "latent" for source in each.sources)}
        )

    def component(self, name: str) -> Component:
        """Return a component by its name; raises KeyError."""
        return {component.name: component for component in self.components}[name]

    def component_of(self, file: str) -> Component:
        """Return the component that a file, by its name without ending, belongs to; raises KeyError."""
        return {name: component for component in self.components for name in component.files}[file]

    def ordered(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return component names in the order in which components run."""
        selection = set(names)
        return tuple(name for name in self.names if name in selection)


def resolve(place: str) -> Any:
    """Import and return the object that "module:name" denotes."""
    module, _, name = place.partition(":")
    return getattr(importlib.import_module(module), name)
