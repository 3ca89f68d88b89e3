"""What a checkpoint's networks take and give in PyTorch, as files would state it, and the calls of them.

Diffusers' U-Nets make the sinusoids of timesteps and sizes themselves: they take the numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace

from msd.conversion.sources.checkpoint import Checkpoint
from msd.files.schema import to_json
from msd.models.families import Family
from msd.models.families.calls import Call, Input, numbers
from msd.models.families.wiring import Wiring, wire
from msd.models.networks import Size
from msd.run.runtime.numbers import COUNTS
from msd.tensor_spec import TensorSpec

NUMBERED = {"time_ids_embedding": "time_ids"}
"""The inputs of sinusoids in place of which diffusers' U-Nets take numbers, and their names there."""


@dataclass(frozen=True)
class Ports:
    """A network's inputs and outputs."""

    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]


def ports_of(checkpoint: Checkpoint, rows: Mapping[str, int], size: Size) -> dict[str, Ports]:
    """Return the ports of the components that `rows` names, each for so many rows in one run."""
    return {name: _ports(checkpoint, name, replace(size, batch=count)) for name, count in rows.items()}


def wiring_of(checkpoint: Checkpoint, ports: Mapping[str, Ports]) -> Wiring:
    """Return the calls of networks with these ports; raises BadBundle for what the family cannot feed."""
    settings = {name: to_json(asdict(config)) for name, config in checkpoint.configs.items()}
    family = checkpoint.family
    calls = tuple(replace(call, inputs=(*call.inputs, *_of_numbers(call))) for call in family.calls)
    return Wiring(wire(replace(family, calls=calls), ports, settings))


def _of_numbers(call: Call) -> Iterator[Input]:
    """Yield the inputs of a call that take numbers in place of their sinusoids."""
    for each in call.inputs:
        if each.name in NUMBERED:
            yield Input(NUMBERED[each.name], tuple(numbers(source.of) for source in each.sources))


def _ports(checkpoint: Checkpoint, name: str, size: Size) -> Ports:
    inputs = checkpoint.configs[name].inputs(size).items()
    given = [TensorSpec(each, shape, dtype) for each, (shape, dtype) in inputs if each not in NUMBERED]
    given += [
        TensorSpec(each.name, (size.batch, COUNTS[each.sources[0].of]), "float32")
        for call in _calls(checkpoint.family, name)
        for each in _of_numbers(call)
    ]
    return Ports(tuple(given), tuple(_outputs(checkpoint, name, size)))


def _outputs(checkpoint: Checkpoint, name: str, size: Size) -> Iterator[TensorSpec]:
    """Yield the outputs of a text encoder, the denoiser or the decoder; a prediction is like the latents."""
    config = checkpoint.configs[name]
    for output in (output for call in _calls(checkpoint.family, name) for output in call.outputs):
        shape: tuple[int, ...]
        if output.kind == "image":
            shape = (size.batch, *size.pixels, config.out_channels)
        elif output.kind == "prediction":
            shape = config.inputs(size)[checkpoint.family.latent_inputs[0]][0]
        elif output.kind == "vector":
            shape = (size.batch, config.pooled)
        else:
            shape = (size.batch, config.length, config.width)
        yield TensorSpec(output.tensor, shape, "float32")


def _calls(family: Family, component: str) -> list[Call]:
    return [call for call in family.calls if call.component == component]
