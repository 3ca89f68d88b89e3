"""What peft's configuration says of a LoRA beside its alphas: some are not to be added to the weights."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from msd.conversion.sources.lora import merge
from msd.errors import BadCheckpoint
from tests import checkpoints, loras
from tests.loras import BLOCK, Tiny

LAYER = f"{BLOCK}.attn2.to_k"
LORA = {
    f"unet.{LAYER}.lora_{end}.weight": torch.randn(*shape, generator=torch.Generator().manual_seed(3))
    for end, shape in (("A", (2, 48)), ("B", (16, 2)))
}


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    return Tiny(tmp_path_factory.mktemp("tiny"), checkpoints.TINY)


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        ("init_lora_weights", "pissa", "with that peft changes the checkpoint's weights too; only"),
        ("init_lora_weights", "pissa_niter_16", "with that peft changes the checkpoint's weights too"),
        ("init_lora_weights", "OLoRA", "with that peft changes the checkpoint's weights too"),
        ("peft_type", "VERA", "only LORA, LOHA, LOKR are merged"),
        ("alora_invocation_tokens", [1, 2], "only a LoRA of all tokens is merged"),
    ],
)
def test_what_is_not_to_be_added_to_the_weights(
    key: str, value: Any, why: str, tiny: Tiny, tmp_path: Path
) -> None:
    """Neither with diffusers' metadata nor with peft's own file."""
    path = loras.save(tmp_path / "x.safetensors", LORA, {f"unet.{key}": value})
    with pytest.raises(BadCheckpoint, match=re.escape(f"{path} says {key} = {value!r}, but {why}")):
        merge(tiny.checkpoint, [(path, 1.0)])
    path = loras.save(tmp_path / "adapter_model.safetensors", LORA)
    (tmp_path / "adapter_config.json").write_text(json.dumps({key: value}))
    with pytest.raises(BadCheckpoint, match=re.escape(f"adapter_config.json says {key} = {value!r}, but")):
        merge(tiny.checkpoint, [(path, 1.0)])


@pytest.mark.parametrize("value", [True, False, None, "gaussian", "eva", "orthogonal"])
def test_what_began_in_another_way_is_merged(value: Any, tiny: Tiny, tmp_path: Path) -> None:
    path = loras.save(tmp_path / "x.safetensors", LORA, {"unet.init_lora_weights": value})
    plain = loras.save(tmp_path / "plain.safetensors", LORA)
    found, wanted = (merge(tiny.checkpoint, [(each, 1.0)]).weights["unet"] for each in (path, plain))
    name = f"{LAYER}.weight"
    np.testing.assert_array_equal(found[name].load(), wanted[name].load())
