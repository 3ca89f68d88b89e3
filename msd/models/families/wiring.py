"""The wiring of one model: a family's calls, chosen by the inputs and outputs that the model's files have."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol

from msd.errors import BadBundle
from msd.files.wording import counted
from msd.models.families.calls import (
    Call,
    Input,
    InputSource,
    Output,
    require_order,
    require_single,
    value,
)
from msd.models.families.family import Family
from msd.tensor_spec import TensorSpec

LATENTS = ("latents", "moments")
"""The kinds of output that become latents."""

MEANS = "means"
"""The kind of output whose half becomes latents that are not scaled."""


class Ported(Protocol):
    """A network's file, as a manifest describes it."""

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """Its inputs."""

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """Its outputs."""


@dataclass(frozen=True)
class Wiring:
    """A model's calls in order, and what they are asked about."""

    calls: tuple[Call, ...]

    @cached_property
    def denoiser(self) -> Call:
        """The call that predicts, in every step."""
        return next(call for call in self.calls if _computes(call, "step", "prediction"))

    @cached_property
    def decoder(self) -> Call:
        """The call that decodes the final latents."""
        return next(call for call in self.calls if _computes(call, "end", "image"))

    @property
    def preview(self) -> Call | None:
        """The call that decodes previews, if there is a network for that alone."""
        return next((call for call in self.calls if _computes(call, "preview", "image")), None)

    @property
    def upscaler(self) -> Call | None:
        """The call that enlarges a tile of the image, if there is one."""
        return next((call for call in self.calls if _computes(call, "end", "enlarged")), None)

    @cached_property
    def steps(self) -> tuple[Call, ...]:
        """The calls of every step, in order."""
        return tuple(call for call in self.calls if call.when == "step")

    @property
    def controls(self) -> tuple[str, ...]:
        """The names of the ControlNets, each once."""
        return tuple(dict.fromkeys(name for call in self.steps for name in call.hints))

    def steps_with(self, controls: Collection[str]) -> tuple[Call, ...]:
        """Return the calls of every step of an image that ControlNets of these names steer, in order."""
        return tuple(call for call in self.steps if not call.control or call.control in controls)

    @cached_property
    def of_prompts(self) -> tuple[Call, ...]:
        """The calls that run once for each row of prompts."""
        return tuple(call for call in self.calls if call.when == "once" and self._depends(call, "tokens"))

    @cached_property
    def of_images(self) -> tuple[Call, ...]:
        """The calls that run once for an image that is given."""
        return tuple(call for call in self.calls if call.when == "once" and call not in self.of_prompts)

    @property
    def initial(self) -> Call | None:
        """The call that computes the latents of an image to begin from, if there is one.

        A model that edits an image begins from noise.
        """
        return (
            None if self.edited else next((call for call in self.of_images if self._is_initial(call)), None)
        )

    @cached_property
    def edited(self) -> frozenset[str]:
        """The values of an image, read in every step, that guidance has a row without."""
        guiding = {output.value for call in self.calls for output in call.outputs if output.guides}
        return frozenset(s.of for call in self.steps for s in call.sources if s.kind == "value") & guiding

    @property
    def conditions(self) -> tuple[Call, ...]:
        """The calls of images whose values a step needs."""
        return tuple(call for call in self.of_images if call is not self.initial)

    @property
    def needed_pixels(self) -> set[str]:
        """The pixels without which no image can be generated."""
        calls = (*self.steps, self.decoder, *self.conditions)
        return {source.of for call in calls for source in call.sources if source.kind == "pixels"}

    @property
    def tokenizers(self) -> tuple[str, ...]:
        """The names of the tokenizers, each once."""
        found = (source.of for call in self.calls for source in call.sources if source.kind == "tokens")
        return tuple(dict.fromkeys(found))

    def tokenizer_of(self, call: Call) -> str:
        """Return the name of the tokenizer whose tokens a call of prompts depends on."""
        return next(self._reached(call, "tokens")).of

    def takes(self, of: str) -> bool:
        """Whether a call takes numbers of that name."""
        return any(
            s.of == of for call in self.calls for s in call.sources if s.kind in ("numbers", "sinusoids")
        )

    def _is_initial(self, call: Call) -> bool:
        from_image = [(source.kind, source.of) for source in call.sources] == [("pixels", "image")]
        return from_image and any(output.kind in LATENTS for output in call.outputs)

    def _depends(self, call: Call, kind: str) -> bool:
        return next(self._reached(call, kind), None) is not None

    def _reached(self, call: Call, kind: str) -> Iterator[InputSource]:
        """Yield the sources of that kind that a call depends on, through other calls too."""
        makers = {output.value: each for each in self.calls for output in each.outputs}
        for source in call.sources:
            if source.kind == kind:
                yield source
            elif source.kind == "value" and source.of in makers:
                yield from self._reached(makers[source.of], kind)


def wire(
    family: Family, files: Mapping[str, Ported], settings: Mapping[str, Mapping[str, Any]]
) -> tuple[Call, ...]:
    """Return the calls of a model with these `files`, by name; `settings` are those of each component.

    Calls of components without a file are left out, and so are those whose values nothing uses. Raises
    BadBundle for an input that the family has nothing for.
    """
    found = [
        chosen
        for call in family.calls
        if call.component in files
        for chosen in _chosen(family, call, files, settings.get(call.component, {}))
    ]
    _require_latents(family, found)
    wiring, used = Wiring(tuple(found)), set[str]()
    for call in reversed(found):
        if call.when != "once" or any(output.value in used for output in call.outputs):
            used |= {source.of for source in call.sources if source.kind == "value"}
    return tuple(
        call
        for call in found
        if call.when != "once" or call == wiring.initial or any(o.value in used for o in call.outputs)
    )


def require_calls(family: Family, calls: tuple[Call, ...], files: Mapping[str, Ported]) -> None:
    """Raise ValueError, with a clause, for calls that no pipeline can run, as an edited manifest has.

    `files` are those that there are; what calls of others compute may come from elsewhere.
    """
    absent = (call for call in family.calls if call.component not in files)
    for call in calls:
        require_single(call)
        _require_ports(call, files)
    require_order(calls, {output.value for call in absent for output in call.outputs})


def require_settings(
    family: Family, calls: tuple[Call, ...], settings: Mapping[str, Mapping[str, Any]]
) -> None:
    """Raise ValueError, with a clause, where a number of a call is not that of its component's `settings`."""
    for call in calls:
        own = settings.get(family.component_of(call.component).name, {})
        for place, has, wanted in _numbers(call, own):
            if has != wanted:
                raise ValueError(
                    f"its call of {call.component} has {has:g} as {place}, and its configuration {wanted:g}"
                )


def _numbers(call: Call, settings: Mapping[str, Any]) -> Iterator[tuple[str, float, float]]:
    """Yield the name of each number that settings decide, what a call has, and what the settings say."""
    for output in call.outputs:
        yield f"the factor of {output.value}", output.factor, _factor(output, settings)
    for given in call.inputs:
        for source in given.sources:
            right = _configured(source, settings)
            yield f"cosine_first of {given.name}", source.cosine_first, right.cosine_first
            yield f"frequency_shift of {given.name}", source.frequency_shift, right.frequency_shift


def _require_ports(call: Call, files: Mapping[str, Ported]) -> None:
    """Raise ValueError, with a clause, for a call of a file that lacks what the call names."""
    if call.component not in files:
        raise ValueError(f"it calls {call.component}, which is none of its components")
    file = files[call.component]
    for named, ports in (
        ({each.name for each in call.inputs}, file.inputs),
        ({each.tensor for each in call.outputs}, file.outputs),
    ):
        if strange := sorted(named - {spec.name for spec in ports}):
            raise ValueError(f"it calls {call.component} with {strange[0]!r}, which its file does not have")


def is_guided(family: Family, inputs: Collection[str]) -> bool:
    """Return whether a denoiser with inputs of these names takes the guidance scale."""
    calls = (call for call in family.calls if call.component == family.denoiser.name)
    given = (each for call in calls for each in call.inputs if each.name in inputs)
    return any(source.of == "guidance" for each in given for source in each.sources)


def _chosen(
    family: Family, call: Call, files: Mapping[str, Ported], settings: Mapping[str, Any]
) -> Iterator[Call]:
    """Yield the call with one alternative of each input and output, after that of a file before its own.

    Such a file has the lookup, or the first half of the network.
    """
    before = next((name for name in family.component(call.component).before if name in files), "")
    file, earlier = files[call.component], files.get(before)
    if earlier:
        yield Call(
            before,
            call.when,
            tuple(_input(family, call, spec, files, settings) for spec in earlier.inputs),
            tuple(Output(f"{before}.{spec.name}", spec.name, "tensor") for spec in earlier.outputs),
        )
    handed_over = {spec.name for spec in earlier.outputs} if earlier else set()
    yield replace(
        call,
        inputs=tuple(
            Input(spec.name, (value(f"{before}.{spec.name}"),))
            if spec.name in handed_over
            else _input(family, call, spec, files, settings)
            for spec in file.inputs
        ),
        outputs=tuple(_outputs(call, file, settings)),
    )


def _input(
    family: Family, call: Call, spec: TensorSpec, files: Mapping[str, Ported], settings: Mapping[str, Any]
) -> Input:
    """Return the first of the call's alternatives for an input whose width is that of the file's."""
    named = [each for each in call.inputs if each.name == spec.name]
    widths = [_width(family, each, files) for each in named]
    wanted = spec.shape[-1] if spec.shape else 1
    for each, width in zip(named, widths, strict=True):
        if width in (None, wanted):
            sources = tuple(_configured(source, settings) for source in each.sources)
            return replace(each, sources=sources)
    title = family.component(call.component).title
    if not named:
        known = ", ".join(dict.fromkeys(each.name for each in call.inputs))
        raise BadBundle(f"the {title} takes {spec.name!r}, and msd can give it {known} alone")
    ways = " or ".join(map(str, widths))
    raise BadBundle(
        f"the {title} takes {counted(wanted, 'channel')} as {spec.name!r}, and msd can give it {ways}"
    )


def _outputs(call: Call, file: Ported, settings: Mapping[str, Any]) -> Iterator[Output]:
    """Yield an output of each value, the first whose tensor the file has."""
    tensors = {spec.name for spec in file.outputs}
    done = set[str]()
    for output in call.outputs:
        if output.tensor in tensors and output.value not in done:
            done.add(output.value)
            yield replace(output, factor=_factor(output, settings))


def _factor(output: Output, settings: Mapping[str, Any]) -> float:
    """Return what an output is multiplied by, of latents what a network's settings say."""
    return float(settings.get("scaling_factor", 1.0) if output.kind in LATENTS else output.factor)


def _configured(source: InputSource, settings: Mapping[str, Any]) -> InputSource:
    """Return the sinusoids of a timestep as a network's settings have them."""
    if (source.kind, source.of) != ("sinusoids", "timestep"):
        return source
    return replace(
        source,
        cosine_first=settings.get("cosine_first", source.cosine_first),
        frequency_shift=float(settings.get("frequency_shift", source.frequency_shift)),
    )


def _width(family: Family, given: Input, files: Mapping[str, Ported]) -> int | None:
    """Return the size of an input's last axis; None where it is unknown, summed, or joined along another."""
    if given.axis != -1 or given.summed:
        return None
    widths = [_source_width(family, source, files) for source in given.sources]
    return None if None in widths else sum(width for width in widths if width is not None)


def _source_width(family: Family, source: InputSource, files: Mapping[str, Ported]) -> int | None:
    if source.kind == "pixels":
        return 1 if source.of == "mask" else 3
    if source.kind == "latent":
        return _latent_channels(family, files)
    if source.kind != "value":
        return None
    for call in family.calls:
        for output in call.outputs:
            if output.value == source.of:
                if output.kind in (*LATENTS, MEANS):
                    return _latent_channels(family, files)
                specs = files[call.component].outputs if call.component in files else ()
                return next((spec.shape[-1] for spec in specs if spec.name == output.tensor), None)
    return None


def _latent_channels(family: Family, files: Mapping[str, Ported]) -> int | None:
    """Return the channels of latents: of what the denoiser computes, or what the decoder takes."""
    specs = [*files[family.denoiser.name].outputs] if family.denoiser.name in files else []
    specs += files[family.decoder.name].inputs if family.decoder.name in files else ()
    return next((spec.shape[-1] for spec in specs if len(spec.shape) == 4), None)


def _require_latents(family: Family, calls: list[Call]) -> None:
    own = [call for call in calls if call.component in family.denoiser.files]
    if own and not any(source.kind == "latent" for call in own for source in call.sources):
        raise BadBundle(f"the {family.denoiser.title} takes no latents, so that nothing can denoise")


def _computes(call: Call, when: str, kind: str) -> bool:
    return call.when == when and any(output.kind == kind for output in call.outputs)
