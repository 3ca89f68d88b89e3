"""What is no LoRA, or none for the checkpoint, is refused in a sentence that names file and tensor."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from msd.conversion.sources.lora import merge, parse
from msd.errors import BadCheckpoint, BadConfig, MsdError
from tests import checkpoints, loras
from tests.loras import BLOCK, Tensors, Tiny


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    return Tiny(tmp_path_factory.mktemp("tiny"), checkpoints.TINY)


KEY = f"lora_unet_{BLOCK.replace('.', '_')}_attn2_to_k"
"""A layer of 16 by 48."""


def change(**parts: Any) -> Tensors:
    """Return a change of that layer with some parts replaced, or left out where they are None."""
    tensors = {
        "lora_down.weight": torch.ones(2, 48),
        "lora_up.weight": torch.ones(16, 2),
        "alpha": torch.ones(()),
    }
    tensors |= {name.replace("__", "."): tensor for name, tensor in parts.items()}
    return {f"{KEY}.{name}": tensor for name, tensor in tensors.items() if tensor is not None}


def other(*names: str) -> Tensors:
    """Return tensors of 2 by 48 of these names."""
    return {name: torch.ones(2, 48) for name in names}


DOWN = f"{KEY}.lora_down.weight"
UP = f"{KEY}.lora_up.weight"
PEFT = f"unet.{BLOCK}.attn2.to_k"
REFUSED: dict[str, tuple[Tensors, str]] = {
    "nothing": ({}, "has no tensors; a LoRA has a down and an up matrix for each layer"),
    "no up": (change(lora_up__weight=None), f"has {DOWN}, but no up matrix"),
    "no down": (change(lora_down__weight=None), "but no down matrix"),
    "alpha alone": (
        change(lora_down__weight=None, lora_up__weight=None),
        f"has {KEY}.alpha, but no down and no up matrix",
    ),
    "ranks": (
        change(lora_up__weight=torch.ones(16, 3)),
        f"{UP} has the shape [16, 3], but {DOWN} has the rank 2",
    ),
    "contexts": (
        change(lora_down__weight=torch.ones(2, 768)),
        f"{DOWN} has the shape [2, 768], made for contexts 768 wide, and this checkpoint's are 48 wide",
    ),
    "kernel for contexts": (
        change(lora_down__weight=torch.ones(2, 48, 3, 3)),
        "[2, 48, 3, 3], which does not fit unet's",
    ),
    "channels": (
        {
            "lora_unet_conv_in.lora_up.weight": torch.ones(16, 2),
            "lora_unet_conv_in.lora_down.weight": torch.ones(2, 9),
        },
        "conv_in.lora_down.weight has the shape [2, 9], which does not fit unet's conv_in.weight",
    ),
    "outputs": (
        change(lora_up__weight=torch.ones(20, 2)),
        f"{UP} has the shape [20, 2], which does not fit unet's {BLOCK}.attn2.to_k.weight, which is [16, 48]",
    ),
    "inputs": (
        {
            "lora_unet_conv_in.lora_down.weight": torch.ones(2, 4, 5, 5),
            "lora_unet_conv_in.lora_up.weight": torch.ones(16, 2, 1, 1),
        },
        "conv_in.lora_down.weight has the shape [2, 4, 5, 5], which does not fit unet's conv_in.weight, "
        "which is [16, 4, 3, 3]",
    ),
    "kernel in up": (
        change(lora_up__weight=torch.ones(16, 2, 3, 3)),
        "up.weight has the shape [16, 2, 3, 3]",
    ),
    "vector": (
        change(lora_down__weight=torch.ones(48)),
        "[48], and (rank, in) and (out, rank) were expected",
    ),
    "scalar": (change(lora_up__weight=torch.ones(())), "up.weight has the shape [], and (rank, in)"),
    "rank 0": (
        change(lora_down__weight=torch.ones(0, 48), lora_up__weight=torch.ones(16, 0)),
        "has the shape [0, 48], and (rank, in)",
    ),
    "alphas": (change(alpha=torch.ones(2)), "alpha has the shape [2], and one number was expected"),
    "integers": (change(lora_down__weight=torch.ones(2, 48).int()), "is int32, and only floating point"),
    "another model": (
        other("lora_unet_input_blocks_4_1_transformer_blocks_9_attn1_to_q.lora_down.weight"),
        "no layer lora_unet_input_blocks_4_1_transformer_blocks_9_attn1_to_q; nor any other of the file's",
    ),
    "one layer of another model": (
        {**change(), **other("lora_unet_input_blocks_4_1_proj_in.lora_down.weight")},
        "no layer lora_unet_input_blocks_4_1_proj_in; the LoRA is for another model",
    ),
    "another text encoder": (
        other("lora_te_text_model_encoder_layers_1_mlp_fc1.lora_up.weight"),
        "has no layer lora_te_text_model_encoder_layers_1_mlp_fc1;",
    ),
    "the VAE": (
        other("lora_unet_conv_in.lora_up.weight", "vae.decoder.conv_in.lora_A.weight"),
        "no layer vae.",
    ),
    "a norm": (other("unet.conv_norm_out.lora_A.weight"), "no layer unet.conv_norm_out;"),
    "an embedding": (
        other("text_encoder.embeddings.token_embedding.lora_A.weight"),
        "no layer text_encoder.embeddings.token_embedding;",
    ),
    "twice": ({**change(), f"{PEFT}.lora_A.weight": torch.ones(2, 48)}, f"has both {DOWN} and {PEFT}.lora_A"),
    "something else": (
        {**change(), f"{KEY}.weight": torch.ones(1)},
        f"has {KEY}.weight, which is no part of a",
    ),
    "embedding": (other(f"{PEFT}.lora_embedding_A"), "has embeddings of tokens (lora_embedding): it has"),
    "SDXL": (
        other(
            "lora_te1_text_model_encoder_layers_0_mlp_fc1.lora_up.weight",
            "lora_te2_text_projection.lora_up.weight",
        ),
        "is an adapter of Stable Diffusion XL: it has lora_te2_text_projection",
    ),
    "SDXL by diffusers": (
        other("text_encoder_2.text_projection.lora_A.weight"),
        "is an adapter of Stable Diffusion XL",
    ),
    "half a LoHa": (
        other(f"{KEY}.hada_w1_a", f"{KEY}.alpha") | {f"{KEY}.alpha": torch.ones(())},
        f"has {KEY}.hada_w1_a, but no hada_w1_b and no hada_w2_a and no hada_w2_b, as a LoHa has",
    ),
    "half a LoKr": (other(f"{KEY}.lokr_w1_a", f"{KEY}.lokr_w2"), "lokr_w1_a, but no lokr_w1, as a LoKr has"),
    "a LoKr of another shape": (
        other(f"{KEY}.lokr_w1", f"{KEY}.lokr_w2"),
        f"has {KEY}.lokr_w1 of a LoKr, which is [4, 2304], for unet's {BLOCK}.attn2.to_k.weight",
    ),
    "a LoHa whose halves differ": (
        {
            f"{KEY}.hada_w{n}_{end}": torch.ones(shape)
            for n, a in ((1, 16), (2, 8))
            for end, shape in (("a", (a, 2)), ("b", (2, 48)))
        },
        "of a LoHa, whose shapes do not fit each other, for unet's",
    ),
    "OFT": (other(f"{KEY}.oft_blocks"), "is an OFT or BOFT, which rotates weights: it has"),
    "BOFT": (other(f"unet.{BLOCK}.attn2.to_k.boft_R"), "is an OFT or BOFT"),
    "GLoRA": (other(f"{KEY}.a1.weight", f"{KEY}.b2.weight"), "is a GLoRA: it has"),
    "IA3 of another shape": (
        {f"{KEY}.on_input": torch.tensor(0), f"{KEY}.weight": torch.ones(17)},
        "has the shape [17], which are not scales of the rows or columns of unet's",
    ),
    "IA3 without numbers": ({f"{KEY}.on_input": torch.tensor(0)}, "on_input, but no scales for this layer"),
    "IA3 by peft": (other(f"{PEFT}.ia3_l"), "is an (IA)^3 of peft: it has"),
    "Tucker": (
        change(lora_mid__weight=torch.ones(2, 2, 3, 3)),
        "of a LoRA, which is [16, 48, 3, 3], for unet's",
    ),
    "DoRA": (
        change(dora_scale=torch.ones(17, 1)),
        f"{KEY}.dora_scale has the shape [17, 1], which are not the lengths of the rows or columns of unet's",
    ),
    "DoRA without a LoRA": (
        {f"{PEFT}.lora_magnitude_vector": torch.ones(16)},
        "but no down and no up matrix for this layer",
    ),
    "differences": (
        change(diff=torch.ones(16, 47)),
        f"has {KEY}.diff of a difference, which is [16, 47], for unet's",
    ),
    "a difference and lengths": (
        change(diff=torch.ones(16, 48), dora_scale=torch.ones(16, 1)),
        f"has {KEY}.dora_scale for a layer that it changes in several ways; one was expected",
    ),
    "differences of biases": (change(diff_b=torch.ones(16)), "attn2.to_k has no bias"),
    "a bias of another length": (
        {"lora_unet_conv_in.diff_b": torch.ones(17)},
        "[17], which does not fit the bias of unet's conv_in",
    ),
    "norms": (
        change(w_norm=torch.ones(16)),
        f"has {KEY}.w_norm of a difference of a norm, which is [16], for",
    ),
    "biases": (
        {
            **other(f"{PEFT}.lora_A.weight"),
            f"{PEFT}.lora_B.weight": torch.ones(16, 2),
            f"{PEFT}.lora_B.bias": torch.ones(16),
        },
        "attn2.to_k has no bias",
    ),
    "an IP-Adapter": (other("ip_adapter.1.to_k_ip.weight"), "is an IP-Adapter: it has ip_adapter.1"),
    "whole weights": (other(f"{KEY}.set_weight"), "has weights that replace a layer's: it has"),
    "a checkpoint": (other("unet.conv_in.weight"), "has unet.conv_in.weight, which is no part of a LoRA"),
    "ControlNet": (other("control_model.input_hint_block.0.weight"), "ControlNet, which --controlnet takes"),
    "diffusers' ControlNet": (other("controlnet_cond_embedding.conv_in.bias"), "which --controlnet takes"),
    "Control-LoRA": (other("input_hint_block.0.weight", "lora_controlnet"), "is a ControlNet LoRA"),
    "a textual inversion": (other("emb_params"), "is a textual inversion, which --embedding takes"),
    "ControlNet-LLLite": (other("lllite_unet_input_blocks_4_1.down.0.weight"), "is a ControlNet LoRA"),
    "embeddings alone": (other("bundle_emb.token.string_to_param.*"), "has no tensors; a LoRA has a down"),
}


def refuse(tiny: Tiny, path: Path, message: str) -> None:
    with pytest.raises(BadCheckpoint, match=re.escape(message)) as caught:
        merge(tiny.checkpoint, [(path, 1.0)])
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(("tensors", "message"), REFUSED.values(), ids=REFUSED)
def test_what_is_no_lora_for_the_checkpoint(
    tensors: Tensors, message: str, tiny: Tiny, tmp_path: Path
) -> None:
    refuse(tiny, loras.save(tmp_path / "x.safetensors", tensors), message)


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ([], "it is not a JSON object"),
        ({"unet.lora_alpha": "4"}, "lora_alpha is '4', not a float"),
        ({"unet.lora_alpha": float("nan")}, "it is not JSON: it has NaN, which is not a number"),
        ({"unet.lora_alpha": float("inf")}, "lora_alpha is inf, not a finite number"),
        ({"unet.lora_alpha": 10**400}, "it is not JSON: its unet.lora_alpha is an integer of 1329 bits"),
        ({"lora_alpha": True}, "lora_alpha is True, not a float"),
        ({"unet.alpha_pattern": [1]}, "alpha_pattern is [1], not a dict"),
        ({"unet.alpha_pattern": {"to_k": None}}, "alpha_pattern for to_k is None, not a finite number"),
        ({"unet.alpha_pattern": {"(a*)*to_k": 2}}, "alpha_pattern has the regular expression '(a*)*to_k'"),
        ({"unet.use_rslora": 1}, "use_rslora is 1, not a bool"),
    ],
)
def test_metadata_without_sense(metadata: Any, message: str, tiny: Tiny, tmp_path: Path) -> None:
    path = loras.save(tmp_path / "x.safetensors", change(alpha=None), metadata)
    refuse(tiny, path, f"has an invalid lora_adapter_metadata: {message}")


def test_metadata_that_is_not_json(tiny: Tiny, tmp_path: Path) -> None:
    for i, text in enumerate(("{", "[" * 100_000)):
        path = tmp_path / f"{i}.safetensors"
        loras.save_file(change(), path, {"lora_adapter_metadata": text})
        refuse(tiny, path, "has an invalid lora_adapter_metadata: it is not JSON")


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (b"{", "it is not JSON"),
        (b"\xff", "it cannot be read: 'utf-8' codec"),
        (b"[]", "it is not a JSON object"),
        (b'{"lora_alpha": "4"}', "lora_alpha is '4', not a float"),
    ],
)
def test_a_configuration_of_peft_without_sense(
    config: bytes, message: str, tiny: Tiny, tmp_path: Path
) -> None:
    path = loras.save(tmp_path / "adapter_model.safetensors", change(alpha=None))
    file = tmp_path / "adapter_config.json"
    file.write_bytes(config)
    with pytest.raises(BadCheckpoint, match=re.escape(f"{file} is no configuration of a LoRA: {message}")):
        merge(tiny.checkpoint, [(path, 1.0)])


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("part", ["lora_down.weight", "lora_up.weight", "alpha"])
def test_values_that_are_not_finite(part: str, value: float, tiny: Tiny, tmp_path: Path) -> None:
    tensors = change()
    tensors[f"{KEY}.{part}"].view(-1)[-1] = value
    path = loras.save(tmp_path / "x.safetensors", tensors)
    message = f"{path}'s {KEY}.{part} holds values that are not finite"
    refuse(tiny, path, message)
    if part == "alpha":
        return
    other = {
        key.replace("attn2_to_k", "attn1_to_q"): t
        for key, t in change(lora_down__weight=torch.ones(2, 16)).items()
    }
    path = loras.save(tmp_path / "x.safetensors", {**other, **tensors})
    merged = merge(tiny.checkpoint, [(path, 1.0)]).weights["unet"][f"{BLOCK}.attn2.to_k.weight"]
    with pytest.raises(BadCheckpoint, match=re.escape(message)):
        merged.load()


def test_results_beyond_float32(tiny: Tiny, tmp_path: Path) -> None:
    path = loras.save(tmp_path / "x.safetensors", change(lora_up__weight=torch.full((16, 2), 1e37)))
    for scale in (1000.0, -999.5):
        merged = merge(tiny.checkpoint, [(path, scale)]).weights["unet"][f"{BLOCK}.attn2.to_k.weight"]
        with pytest.raises(BadCheckpoint, match=r"x.safetensors at scale .* takes .* beyond float32"):
            merged.load()


def test_a_dora_without_lengths(tiny: Tiny, tmp_path: Path) -> None:
    path = loras.save(tmp_path / "x.safetensors", change(alpha=None), {"unet.use_dora": True})
    refuse(tiny, path, f"says use_dora, but has no magnitude for {BLOCK}.attn2.to_k")


def test_files_that_cannot_be_read(tiny: Tiny, tmp_path: Path) -> None:
    refuse(tiny, tmp_path / "none.safetensors", "it cannot be read (No such file")
    refuse(tiny, tmp_path, "holds no adapter; adapter_model.safetensors was expected")
    for suffix in (".ckpt", ".pt", ".bin", ".PTH"):
        path = tmp_path / f"x{suffix}"
        path.touch()
        refuse(tiny, path, "cannot be read as weights: it is empty")
        path.write_bytes(b"not this")
        refuse(tiny, path, "is not a readable torch checkpoint")
    torch.save([torch.ones(16, 2), torch.ones(2, 48)], path)
    refuse(tiny, path, "its top level is a list, not a dictionary of tensors")
    path = loras.save(tmp_path / "x.safetensors", change())
    path.write_bytes(path.read_bytes()[:-1])
    refuse(tiny, path, "is not a readable safetensors file")


@pytest.mark.parametrize("scale", [float("nan"), float("inf"), -float("inf"), -1000.5])
def test_a_scale_out_of_bounds(scale: float, tiny: Tiny, tmp_path: Path) -> None:
    path = loras.save(tmp_path / "x.safetensors", change())
    with pytest.raises(
        BadConfig, match=r"the scale of .*x.safetensors is .*, but it must be from -1000.0 to 1000.0"
    ):
        merge(tiny.checkpoint, [(path, scale)])


@pytest.mark.parametrize(
    ("text", "path", "scale"),
    [
        ("x.safetensors", "x.safetensors", 1),
        ("x.safetensors:0.7", "x.safetensors", 0.7),
        ("a/x.safetensors:-1e-1", "a/x.safetensors", -0.1),
        ("a:b/x.safetensors", "a:b/x.safetensors", 1),
        ("a:b.safetensors:2", "a:b.safetensors", 2),
        (r"C:\x.safetensors", r"C:\x.safetensors", 1),
        (r"C:\x.safetensors:0", r"C:\x.safetensors", 0),
        ("style:v2", "style:v2", 1),
        ("0.5", "0.5", 1),
        ("style:v2:0.5", "style:v2", 0.5),
    ],
)
def test_a_file_and_a_scale(text: str, path: str, scale: float) -> None:
    assert parse(text) == (Path(path), scale)


def test_a_file_whose_name_ends_like_a_scale(tmp_path: Path) -> None:
    path = tmp_path / "style:2"
    path.touch()
    assert parse(str(path)) == (path, 1)
    assert parse(f"{path}:3") == (path, 3)


@pytest.mark.parametrize("scale", ["", "strong", "0,7", "--1", "1 000"])
def test_a_scale_that_is_no_number(scale: str) -> None:
    with pytest.raises(BadConfig, match=re.escape(f"x.safetensors:{scale} ends in the scale")):
        parse(f"x.safetensors:{scale}")


@pytest.mark.parametrize("scale", ["nan", "inf", "-inf", "1e999", "1e308"])
def test_a_scale_that_cannot_be_multiplied_by(scale: str) -> None:
    with pytest.raises(
        BadConfig, match=r"the scale of x.safetensors is -?(nan|inf|1e\+308), but it must be from"
    ):
        parse(f"x.safetensors:{scale}")


layers = st.sampled_from((KEY, PEFT, "lora_unet_conv_in", "lora_te_encoder_layers_0_mlp_fc1", "unet", ""))
ends = st.sampled_from(
    (".lora_down.weight", ".lora_up.weight", ".alpha", ".lora_A.weight", "_lora.up.weight", "")
)
shapes = st.sampled_from(
    ((2, 48), (16, 2), (), (1,), (48,), (2, 4, 3, 3), (16, 2, 1, 1), (0, 48), (2, 48, 1, 1))
)
dtypes = st.sampled_from((torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.bool))


@given(
    parts=st.dictionaries(st.tuples(layers, ends), st.tuples(shapes, dtypes), max_size=6), scale=st.floats()
)
@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_file_is_merged_or_refused(parts: Any, scale: float, tiny: Tiny, tmp_path: Path) -> None:
    tensors = {layer + end: torch.ones(shape).to(dtype) for (layer, end), (shape, dtype) in parts.items()}
    path = loras.save(tmp_path / "x.safetensors", tensors)
    before = tiny.checkpoint.weights["unet"]
    said = str(path)
    try:
        merged = merge(tiny.checkpoint, [(path, scale)]).weights["unet"]
        changed = [weights for name, weights in merged.items() if weights is not before[name]]
        assert all(np.isfinite(weights.load()).all() for weights in changed)
    except MsdError as error:
        said = str(error)
    assert str(path) in said
