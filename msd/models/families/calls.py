"""Calls: what a model's networks are given, when they run, and what they compute, as data.

An ordered tuple of calls is a model's wiring. A family has one for all of its models, with alternatives;
`msd.models.families.wiring.wire` chooses among them by the inputs of a model's files, and conversion writes
the result into the manifest. The pipelines in Python, Kotlin and JavaScript interpret it, as they do the
steps of a scheduler.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Literal

from msd.files.schema import UNLESS_EMPTY

When = Literal["once", "step", "preview", "end"]
"""The time of a call: before the first step, in every step, between two steps, or after the last one."""

SourceKind = Literal["tokens", "latent", "numbers", "sinusoids", "pixels", "hint", "scales", "value"]
OutputKind = Literal[
    "hidden states",
    "vector",
    "tensor",
    "moments",
    "means",
    "latents",
    "prediction",
    "image",
    "enlarged",
]

NUMBERS = ("timestep", "guidance", "sizes")
"""The quantities that `numbers` and `sinusoids` are of (msd/run/runtime/numbers.py)."""

PIXELS = ("image", "masked image", "mask", "decoded image")
"""The images that `pixels` are of: the given one, the same without what is repainted, and the mask; and at
the end the decoded one, in tiles of the input's size."""


@dataclass(frozen=True)
class InputSource:
    """What an input is made of.

    - "tokens" of a prompt, by the tokenizer `of`, int32 (N, length);
    - "latent": the latents of the time of the call, NHWC; `scaled`: times the scheduler's scale of the step.
      A preview takes the estimate of the final ones;
    - "numbers" or "sinusoids" of "timestep", "guidance" or "sizes": the numbers themselves, or the cosines
      and sines of each (Ho et al., 2020, arXiv 2006.11239), with `frequencies` in an app's manifest;
    - "pixels" of an image, in [-1, 1], or of the mask, 1 where the image is repainted: NHWC, of an input with
      fewer rows and columns the pixel at the top left of each cell;
    - "hint": the pixels of the picture by which the ControlNet `of` steers, in [-1, 1];
    - "scales": by how much each output of the ControlNet `of` is multiplied in a step, of each row. Where all
      are 0, and without a hint, the network does not run, unless it predicts: then both are zeros;
    - "value": an output of an earlier call.
    """

    kind: SourceKind
    of: str = field(default="", metadata=UNLESS_EMPTY)
    scaled: bool = field(default=False, metadata=UNLESS_EMPTY)
    cosine_first: bool = field(default=False, metadata=UNLESS_EMPTY)
    frequency_shift: float = field(default=0.0, metadata=UNLESS_EMPTY)
    frequencies: tuple[float, ...] = field(default=(), metadata=UNLESS_EMPTY)


@dataclass(frozen=True)
class Input:
    """An input of a network by its `name`: its sources, joined along `axis` where there are several.

    If `summed`, they are added instead: those that have been computed, and of none the sum is zeros.
    """

    name: str
    sources: tuple[InputSource, ...]
    axis: int = -1
    summed: bool = field(default=False, metadata=UNLESS_EMPTY)


@dataclass(frozen=True)
class Output:
    """An output of a network: the `value` that later calls know it by, and its `tensor` in the network.

    - "hidden states" (N, length, width) are multiplied by the weights of the prompt's tokens, and those of a
      prompt's chunks follow each other along the tokens;
    - "vector" (N, width) is that of a prompt's first chunk;
    - "tensor" is passed on as it is;
    - "moments" are mean and log variance of latents, which are sampled and multiplied by `factor`;
    - "means" are the means of such moments;
    - "latents" are multiplied by `factor`;
    - "prediction" is what the scheduler takes a step with; the network that computes it is the denoiser;
    - "image" is NHWC in [-1, 1];
    - "enlarged" is the same of a tile, at a multiple of its rows and columns.

    With `zero_if_absent`, the value of a negative prompt that is empty is zeros. With `guides`, guidance has
    a row without the image that the value is of, in which it is zeros.
    """

    value: str
    tensor: str
    kind: OutputKind
    factor: float = 1.0
    zero_if_absent: bool = field(default=False, metadata=UNLESS_EMPTY)
    guides: bool = field(default=False, metadata=UNLESS_EMPTY)


@dataclass(frozen=True)
class Call:
    """One run of a component's network (or of a prompt's rows, or of the images that are denoised together).

    In a family, several inputs of one name, and several outputs of one value, are alternatives, of which a
    model's files decide.
    """

    component: str
    when: When
    inputs: tuple[Input, ...]
    outputs: tuple[Output, ...]

    @property
    def sources(self) -> tuple[InputSource, ...]:
        """All sources of all inputs."""
        return tuple(source for each in self.inputs for source in each.sources)

    @property
    def hints(self) -> tuple[str, ...]:
        """The names of the ControlNets whose pictures it takes."""
        return tuple(source.of for source in self.sources if source.kind == "hint")

    @property
    def control(self) -> str:
        """The name of the ControlNet that it is the call of, and nothing more; "" for other calls."""
        predicts = any(output.kind == "prediction" for output in self.outputs)
        return self.hints[0] if self.hints and not predicts else ""


TOKENIZER = "tokenizer"
"""The name of a model's first tokenizer."""


def tokens(of: str = TOKENIZER) -> InputSource:
    """Return the tokens of a prompt."""
    return InputSource("tokens", of)


def latent(scaled: bool = False) -> InputSource:
    """Return the latents."""
    return InputSource("latent", scaled=scaled)


def numbers(of: str) -> InputSource:
    """Return numbers as they are."""
    return InputSource("numbers", of)


def sinusoids(of: str, cosine_first: bool = True, frequency_shift: float = 0.0) -> InputSource:
    """Return sinusoids of numbers; those of the timestep are as the network's configuration says."""
    return InputSource("sinusoids", of, cosine_first=cosine_first, frequency_shift=frequency_shift)


def pixels(of: str) -> InputSource:
    """Return the pixels of an image or of the mask."""
    return InputSource("pixels", of)


def hint(of: str) -> InputSource:
    """Return the picture by which a ControlNet steers."""
    return InputSource("hint", of)


def scales(of: str) -> InputSource:
    """Return by how much each output of a ControlNet is multiplied."""
    return InputSource("scales", of)


def value(of: str) -> InputSource:
    """Return an output of an earlier call."""
    return InputSource("value", of)


def require_family_calls(calls: tuple[Call, ...], components: tuple[str, ...]) -> None:
    """Raise ValueError, with a sentence, for calls of `components` that no pipeline can run."""
    for call in calls:
        if call.component not in components:
            raise ValueError(f"there is a call of {call.component}, which is no component")
    require_order(calls)
    _require_one(calls, "step", "prediction", "denoises")
    _require_one(calls, "end", "image", "decodes")
    if idle := [name for name in components if all(call.component != name for call in calls)]:
        raise ValueError(f"nothing calls {', '.join(idle)}")


def require_order(calls: tuple[Call, ...], elsewhere: Collection[str] = ()) -> None:
    """Raise ValueError, with a sentence, for a value that no earlier call computes, or two calls.

    Values `elsewhere` need no call.
    """
    known: dict[str, Call] = {}
    for call in calls:
        _require_sources(call, known, elsewhere)
        for output in call.outputs:
            if known.setdefault(output.value, call) is not call:
                raise ValueError(f"the value {output.value!r} is computed by two calls")


def require_single(call: Call) -> None:
    """Raise ValueError, with a sentence, for a call with alternatives."""
    for named in ([each.name for each in call.inputs], [each.value for each in call.outputs]):
        if twice := [name for name in named if named.count(name) > 1]:
            raise ValueError(f"the call of {call.component} has {twice[0]!r} twice")


def _require_sources(call: Call, known: dict[str, Call], elsewhere: Collection[str]) -> None:
    lists = {"numbers": NUMBERS, "sinusoids": NUMBERS, "pixels": PIXELS}
    for source in call.sources:
        maker = known.get(source.of)
        there = source.of in elsewhere or (maker is not None and maker.when in ("once", call.when))
        if source.kind == "value" and not there:
            raise ValueError(
                f"{call.component} takes {source.of!r}, which no earlier call has computed by then"
            )
        if source.of not in lists.get(source.kind, (source.of,)):
            raise ValueError(
                f"{call.component} takes {source.kind} of {source.of!r}, and there are"
                f" {', '.join(lists[source.kind])}"
            )
        if source.kind in ("hint", "scales") and (call.when != "step" or not source.of):
            raise ValueError(
                f"{call.component} takes {source.kind}, as a ControlNet in every step does alone"
            )
        if source.kind == "latent" and call.when == "once":
            raise ValueError(f"{call.component} takes latents before there are any")
        if source.kind == "tokens" and call.when != "once":
            raise ValueError(f"{call.component} takes tokens in each {call.when}; prompts are encoded once")


def _require_one(calls: tuple[Call, ...], when: When, kind: OutputKind, does: str) -> None:
    found = [c.component for c in calls if c.when == when and any(o.kind == kind for o in c.outputs)]
    if len(found) != 1:
        several = f": {', '.join(found)}" if found else ""
        raise ValueError(f"one component {does}, and here there are {len(found)}{several}")
