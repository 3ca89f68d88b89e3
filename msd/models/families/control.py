"""ControlNets: components that a model of a family may have any number of, each under a name of its own.

Zhang et al. (2023, arXiv 2302.05543). Each takes what the denoiser does, a picture to steer by (its hint) and
how much each of its outputs counts, and the denoiser takes the sum of the outputs of all of them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import cache

from msd.errors import BadConfig
from msd.models.families.calls import Call, Input, Output, hint, scales, value
from msd.models.families.family import Component, Family, Part

CONTROLNET = Component(
    name="controlnet",
    title="ControlNet",
    part=Part("controlnet"),
    config="msd.models.control_config:ControlNetConfig",
    network="msd.models.controlnet:controlnet",
    option="--controlnet",
)
"""What every ControlNet is, but for its name."""

FUSED = "msd.models.controlnet:fused_unet"
"""The network of a denoiser with ControlNets inside."""

HINT, SCALE = "hint", "scale"
"""The inputs that a ControlNet has beside the denoiser's."""

PREFIX = f"{CONTROLNET.name}_"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
MOST_RESIDUALS = 64
"""How many outputs a ControlNet may have: Stable Diffusion's have 13, and Stable Diffusion XL's 10."""


def component_of_control(name: str) -> str:
    """Return the name of a ControlNet's component; raises BadConfig for a name that it cannot have."""
    if not NAME.fullmatch(name):
        raise BadConfig(f"a ControlNet cannot be called {name!r}; up to 64 letters, digits, _ and - can")
    return PREFIX + name


def fused_name(key: str, name: str) -> str:
    """Return what the input `key` of the ControlNet `name` is called where it is inside a denoiser."""
    return f"{key}_{name}"


@cache
def with_controls(family: Family, names: tuple[str, ...], fused: bool = False) -> Family:
    """Return a family with ControlNets of these names: the family itself where there are none.

    If `fused`, they are inside the denoiser's network, and no components of their own.

    Raises BadConfig for a family without ControlNets, and for names that are impossible or given twice.
    """
    if not names:
        return family
    if not family.takes_controls:
        raise BadConfig(f"{family.title} has no ControlNets")
    if twice := [name for name in names if names.count(name) > 1]:
        raise BadConfig(f"two ControlNets are called {twice[0]}; give PATH:NAME to call them otherwise")
    for name in names:
        component_of_control(name)
    components, calls = list(family.components), list(family.calls)
    index = components.index(family.denoiser)
    if fused:
        return _with_fused(family, names, index)
    components[index:index] = [_component(name) for name in names]
    place = next(i for i, call in enumerate(calls) if call.component == family.denoiser.name)
    calls[place : place + 1] = [
        *(_call(name, calls[place]) for name in names),
        replace(calls[place], inputs=(*calls[place].inputs, *_sums(names))),
    ]
    return replace(family, components=tuple(components), calls=tuple(calls))


def _with_fused(family: Family, names: Sequence[str], index: int) -> Family:
    components = list(family.components)
    components[index] = replace(components[index], network=FUSED)
    own = tuple(
        Input(fused_name(key, name), (source(name),))
        for name in names
        for key, source in ((HINT, hint), (SCALE, scales))
    )
    calls = (
        replace(call, inputs=(*call.inputs, *own)) if call.component == family.denoiser.name else call
        for call in family.calls
    )
    return replace(family, components=tuple(components), calls=tuple(calls))


def _component(name: str) -> Component:
    component = component_of_control(name)
    return replace(
        CONTROLNET,
        name=component,
        title=f"{CONTROLNET.title} {name}",
        part=replace(CONTROLNET.part, folder=component),
        option=f"{CONTROLNET.option} PATH:{name}",
    )


def _call(name: str, denoiser: Call) -> Call:
    """Return the call of a ControlNet, in every step before the denoiser's."""
    own = (Input(HINT, (hint(name),)), Input(SCALE, (scales(name),)))
    outputs = (Output(_value(name, i), f"control_{i}", "tensor") for i in range(MOST_RESIDUALS))
    return Call(component_of_control(name), "step", (*denoiser.inputs, *own), tuple(outputs))


def _sums(names: Sequence[str]) -> list[Input]:
    """Return the denoiser's inputs, the sums of what the ControlNets compute."""
    return [
        Input(f"control_{i}", tuple(value(_value(name, i)) for name in names), summed=True)
        for i in range(MOST_RESIDUALS)
    ]


def _value(name: str, index: int) -> str:
    return f"{component_of_control(name)}.control_{index}"
