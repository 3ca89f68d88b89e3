"""A ControlNet in the layout of its authors: CompVis's names for half a U-Net, and some more.

https://github.com/lllyasviel/ControlNet, cldm/cldm.py (Apache 2.0).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from msd.conversion.sources.compvis.part import NetworkTensors
from msd.conversion.sources.compvis.unet import BlockLayout, places, renamed
from msd.files.wording import counted
from msd.graph.ir.weights import Weights

WRAPPER = "control_model."
HINT, ZERO, MIDDLE = "input_hint_block", "zero_convs", "middle_block_out"
HINT_LAYER = re.compile(rf"{HINT}\.(\d{{1,4}})\.")


def control_tensors(part: NetworkTensors) -> dict[str, Weights]:
    """Return the tensors by diffusers' names; raises BadCheckpoint for an unknown tensor."""
    own, layout = dict(_own_places(part)), places(BlockLayout.on_the_way_down(part))
    found = {}
    for name, tensor in part.tensors.items():
        place, _, last = name.rpartition(".")
        found[f"{own[place]}.{last}" if place in own else renamed(part, layout, name)] = tensor
    return found


def _own_places(part: NetworkTensors) -> Iterator[tuple[str, str]]:
    """Yield the name of each layer that a U-Net does not have, and its name in diffusers."""
    embedding = "controlnet_cond_embedding"
    numbers = {int(match[1]) for name in part.tensors if (match := HINT_LAYER.match(name))}
    if len(numbers) < 2:
        raise part.wrong(
            f"has {counted(len(numbers), 'layer')} in {part.prefix}{HINT},"
            " and a ControlNet has at least two there"
        )
    first, *between, last = sorted(numbers)
    yield f"{HINT}.{first}", f"{embedding}.conv_in"
    yield from ((f"{HINT}.{number}", f"{embedding}.blocks.{i}") for i, number in enumerate(between))
    yield f"{HINT}.{last}", f"{embedding}.conv_out"
    for i in range(part.count(ZERO)):
        yield f"{ZERO}.{i}.0", f"controlnet_down_blocks.{i}"
    yield f"{MIDDLE}.0", "controlnet_mid_block"
