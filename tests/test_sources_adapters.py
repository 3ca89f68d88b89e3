"""LoHa, LoKr, DoRA, Tucker's form, differences and (IA)^3 merged: the weights are those of their formulas."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from msd.conversion.sources.checkpoint import Checkpoint
from msd.conversion.sources.lora import merge, parse
from msd.errors import BadCheckpoint
from tests import checkpoints, loras
from tests.loras import BLOCK, Tensors, Tiny

CONVOLVED = checkpoints.vary(checkpoints.TINY, unet={"use_linear_projection": False})
TARGETS = ["to_q", "to_k", "to_out.0", "ff.net.2", "conv1", "conv_shortcut", "proj_in", "time_emb_proj"]
LINEAR, CONV, NORM = f"{BLOCK}.attn2.to_k", "down_blocks.0.resnets.0.conv1", "down_blocks.0.resnets.0.norm1"
OUT = f"{BLOCK}.attn1.to_out.0"
"""A linear layer of 16 by 48, a convolution of 16 by 16 by 3 by 3, a norm of 16, and a layer with a bias."""


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    return Tiny(tmp_path_factory.mktemp("tiny"), CONVOLVED)


def require_close(found: Checkpoint, wanted: dict[str, Any], tiny: Tiny) -> int:
    """Require the U-Net's weights to 1e-5 of the largest; return how many have changed."""
    changed = 0
    for name, tensor in wanted.items():
        before, after = tiny.checkpoint.weights["unet"][name], found.weights["unet"][name]
        np.testing.assert_allclose(after.load(), tensor, rtol=0, atol=1e-5 * abs(tensor).max(), err_msg=name)
        changed += after is not before
    return changed


PEFT: dict[str, tuple[str, dict[str, Any]]] = {
    "LoHa": ("LoHaConfig", dict(r=3, alpha=5, target_modules=TARGETS, alpha_pattern={"conv1": 2})),
    "LoHa by Tucker": ("LoHaConfig", dict(r=3, alpha=5, target_modules=TARGETS, use_effective_conv2d=True)),
    "LoKr": ("LoKrConfig", dict(r=2, alpha=5, target_modules=TARGETS, rank_pattern={"to_k": 3})),
    "LoKr of four": (
        "LoKrConfig",
        dict(r=1, alpha=3, target_modules=TARGETS, decompose_both=True, decompose_factor=4),
    ),
    "LoKr by Tucker": ("LoKrConfig", dict(r=1, alpha=3, target_modules=TARGETS, use_effective_conv2d=True)),
    "LoKr of whole matrices": ("LoKrConfig", dict(r=64, alpha=48, target_modules=TARGETS)),
    "DoRA": ("LoraConfig", dict(r=3, lora_alpha=5, target_modules=TARGETS, use_dora=True)),
    "biases": ("LoraConfig", dict(r=3, lora_alpha=5, target_modules=["to_out.0", "conv1"], lora_bias=True)),
}
"""The class of peft and its settings."""


@pytest.mark.parametrize("pickled", [False, True])
@pytest.mark.parametrize("name", PEFT)
def test_the_weights_are_those_of_peft(name: str, pickled: bool, tiny: Tiny, tmp_path: Path) -> None:
    import peft

    random = torch.Generator().manual_seed(1)
    kind, settings = PEFT[name]
    config = getattr(peft, kind)(**settings)
    wrapped = peft.get_peft_model(copy.deepcopy(tiny.modules["unet"]), config)
    with torch.no_grad():
        for parameter in (p for p in wrapped.parameters() if p.requires_grad):
            parameter.add_(0.3 * torch.randn(parameter.shape, generator=random))
    wrapped.save_pretrained(tmp_path, safe_serialization=not pickled)
    fused = {key: tensor.numpy() for key, tensor in wrapped.merge_and_unload().state_dict().items()}
    assert require_close(merge(tiny.checkpoint, [(tmp_path, 1.0)]), fused, tiny) > 5


@pytest.mark.parametrize("scale", [1.0, 0.6])
def test_dora_by_diffusers(scale: float, tiny: Tiny, tmp_path: Path) -> None:
    path = loras.train(
        tiny.modules, tiny.folder / "tokenizer", tmp_path, lora_alpha=5, use_dora=True, target_modules=TARGETS
    )
    fused = tiny.fuse((path, scale))["unet"]
    assert require_close(merge(tiny.checkpoint, [(path, scale)]), fused, tiny) > 10


def draw(*shape: int) -> torch.Tensor:
    return torch.randn(shape) * 0.5


def kron(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Return the product of each element of a matrix with all of the other tensor."""
    product = torch.einsum("ab,cd...->acbd...", one, other)
    return product.flatten(0, 1).flatten(1, 2)


def core(one: torch.Tensor, t: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    return torch.einsum("oi,ijhw,jc->ochw", one, t, other)


Formula = Callable[[Tensors, torch.Tensor], torch.Tensor]
ADDED: dict[str, tuple[str, Callable[[], Tensors], Formula]] = {
    "LoHa": (
        LINEAR,
        lambda: {"hada_w1_a": draw(16, 2), "hada_w1_b": draw(2, 48), "hada_w2_a": draw(16, 2),
                 "hada_w2_b": draw(2, 48), "alpha": torch.tensor(3.0)},
        lambda t, w: (t["hada_w1_a"] @ t["hada_w1_b"]) * (t["hada_w2_a"] @ t["hada_w2_b"]) * 3 / 2,
    ),
    "LoHa of a convolution": (
        CONV,
        lambda: {"hada_w1_a": draw(16, 3), "hada_w1_b": draw(3, 144), "hada_w2_a": draw(16, 3),
                 "hada_w2_b": draw(3, 144)},
        lambda t, w: ((t["hada_w1_a"] @ t["hada_w1_b"]) * (t["hada_w2_a"] @ t["hada_w2_b"])).view(w.shape),
    ),
    "LoHa by Tucker": (
        CONV,
        lambda: {**{f"hada_w{n}_{x}": draw(2, 16) for n in (1, 2) for x in "ab"},
                 **{f"hada_t{n}": draw(2, 2, 3, 3) for n in (1, 2)}, "alpha": torch.tensor(1.0)},
        lambda t, w: core(t["hada_w1_a"].T, t["hada_t1"], t["hada_w1_b"])
        * core(t["hada_w2_a"].T, t["hada_t2"], t["hada_w2_b"]) / 2,
    ),
    "LoKr": (
        LINEAR,
        lambda: {"lokr_w1": draw(4, 6), "lokr_w2_a": draw(4, 2), "lokr_w2_b": draw(2, 8),
                 "alpha": torch.tensor(5)},
        lambda t, w: kron(t["lokr_w1"], t["lokr_w2_a"] @ t["lokr_w2_b"]) * 5 / 2,
    ),
    "LoKr of whole matrices, whose alpha is nothing": (
        LINEAR,
        lambda: {"lokr_w1": draw(2, 4), "lokr_w2": draw(8, 12), "alpha": torch.tensor(1e9)},
        lambda t, w: kron(t["lokr_w1"], t["lokr_w2"]),
    ),
    "LoKr of a convolution": (
        CONV,
        lambda: {"lokr_w1_a": draw(2, 1), "lokr_w1_b": draw(1, 4), "lokr_w2": draw(8, 4, 3, 3),
                 "alpha": torch.tensor(2.0)},
        lambda t, w: kron(t["lokr_w1_a"] @ t["lokr_w1_b"], t["lokr_w2"]) * 2,
    ),
    "LoKr by Tucker": (
        CONV,
        lambda: {"lokr_w1": draw(4, 2), "lokr_w2_a": draw(3, 4), "lokr_w2_b": draw(3, 8),
                 "lokr_t2": draw(3, 3, 3, 3), "alpha": torch.tensor(6.0)},
        lambda t, w: kron(t["lokr_w1"], core(t["lokr_w2_a"].T, t["lokr_t2"], t["lokr_w2_b"])) * 2,
    ),
    "LoRA by Tucker": (
        CONV,
        lambda: {"lora_up.weight": draw(16, 3, 1, 1), "lora_down.weight": draw(2, 16, 1, 1),
                 "lora_mid.weight": draw(3, 2, 3, 3)},
        lambda t, w: core(
            t["lora_up.weight"][..., 0, 0], t["lora_mid.weight"], t["lora_down.weight"][..., 0, 0]
        ),
    ),
    "a difference": (
        LINEAR, lambda: {"diff": draw(16, 48), "alpha": torch.tensor(9.0)}, lambda t, w: t["diff"]
    ),
    "a difference and a LoRA": (
        LINEAR,
        lambda: {"diff": draw(16, 48), "lora_up.weight": draw(16, 2), "lora_down.weight": draw(2, 48)},
        lambda t, w: t["diff"] + t["lora_up.weight"] @ t["lora_down.weight"],
    ),
    "a difference of a norm": (
        NORM, lambda: {"w_norm": draw(16), "b_norm": draw(16)}, lambda t, w: t["w_norm"]
    ),
    "(IA)^3 of rows": (
        LINEAR,
        lambda: {"weight": draw(16), "on_input": torch.tensor(0)},
        lambda t, w: w * t["weight"][:, None],
    ),
    "(IA)^3 of columns": (
        CONV, lambda: {"weight": draw(1, 16, 1, 1), "on_input": torch.tensor(1)}, lambda t, w: w * t["weight"]
    ),
}  # fmt: skip
"""Each kind: the layer that it changes, its tensors as LyCORIS names them, and what it adds by its paper."""


@pytest.mark.parametrize("scale", [1.0, -0.7])
@pytest.mark.parametrize("named", ["lora_unet_{}", "lycoris_{}", "unet.{}", "diffusion_model.{}"])
@pytest.mark.parametrize("kind", ADDED)
def test_what_lycoris_adds(kind: str, named: str, scale: float, tiny: Tiny, tmp_path: Path) -> None:
    torch.manual_seed(3)
    layer, make, formula = ADDED[kind]
    tensors, weight = make(), tiny.modules["unet"].get_submodule(layer).weight.detach()
    name = named.format(layer if "." in named else layer.replace(".", "_"))
    path = loras.save(tmp_path / "x.safetensors", {f"{name}.{part}": t for part, t in tensors.items()})
    found = merge(tiny.checkpoint, [(path, scale)])
    wanted = {f"{layer}.weight": (weight + scale * formula(tensors, weight)).numpy()}
    assert require_close(found, wanted, tiny) == 1
    if "b_norm" in tensors:
        bias = tiny.modules["unet"].get_submodule(layer).bias.detach()
        assert require_close(found, {f"{layer}.bias": (bias + scale * tensors["b_norm"]).numpy()}, tiny) == 1


@pytest.mark.parametrize("scale", [1.0, 0.4])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("layer", [LINEAR, CONV])
@pytest.mark.parametrize("kind", ["LoRA", "LoKr"])
def test_lengths_of_rows_or_columns(
    kind: str, layer: str, axis: int, scale: float, tiny: Tiny, tmp_path: Path
) -> None:
    """LyCORIS's weights with lengths: those of AUTOMATIC1111 and ComfyUI at any scale."""
    torch.manual_seed(5)
    weight = tiny.modules["unet"].get_submodule(layer).weight.detach()
    rest = weight[0].numel()
    if kind == "LoRA":
        tensors = {"lora_up.weight": draw(16, 2), "lora_down.weight": draw(2, *weight.shape[1:])}
        delta = (tensors["lora_up.weight"] @ tensors["lora_down.weight"].view(2, rest)).view(weight.shape)
    else:
        tensors = {"lokr_w1": draw(4, 2), "lokr_w2": draw(4, weight.shape[1] // 2, *weight.shape[2:])}
        delta = kron(tensors["lokr_w1"], tensors["lokr_w2"])
    shape = [weight.shape[axis] if n == axis else 1 for n in range(weight.ndim)]
    tensors["dora_scale"] = torch.rand(shape) + 0.5
    path = loras.save(tmp_path / "x.safetensors", {f"unet.{layer}.{part}": t for part, t in tensors.items()})
    moved = weight + delta
    lengths = moved.transpose(0, axis).flatten(1).norm(dim=1).view(shape)
    wanted = weight + scale * (moved / lengths * tensors["dora_scale"] - weight)
    found = merge(tiny.checkpoint, [(path, scale)])
    assert require_close(found, {f"{layer}.weight": wanted.numpy()}, tiny) == 1


def test_a_bias_of_a_layer(tiny: Tiny, tmp_path: Path) -> None:
    tensors = {
        "diff_b": draw(16),
        "lora_A.weight": draw(2, 16),
        "lora_B.weight": draw(16, 2),
        "lora_B.bias": draw(16),
    }
    path = loras.save(tmp_path / "x.safetensors", {f"unet.{OUT}.{part}": t for part, t in tensors.items()})
    bias = tiny.modules["unet"].get_submodule(OUT).bias.detach()
    wanted = {f"{OUT}.bias": (bias + 0.5 * (tensors["diff_b"] + tensors["lora_B.bias"])).numpy()}
    assert require_close(merge(tiny.checkpoint, [(path, 0.5)]), wanted, tiny) == 1


def by_onetrainer(name: str) -> str:
    """Return OneTrainer's name of a tensor of kohya's, with CompVis's names and dots."""
    layers = {f"lora_unet_{theirs}": layer for layer, theirs in loras.COMPVIS.items()}
    layer, _, part = name.partition(".")
    if layer.startswith("lora_te_"):
        words = layer.removeprefix("lora_te_text_model_encoder_layers_0_")
        words = words.replace("self_attn_", "self_attn.").replace("mlp_", "mlp.")
        return f"clip_l.text_model.encoder.layers.0.{words}.{part}"
    dotted = re.sub(
        r"(input_blocks|output_blocks|middle_block|time_embed)_(\d)", r"\1.\2", layers and layer[10:]
    )
    dotted = re.sub(r"_(\d)(?=_|$)", r".\1", dotted)
    dotted = re.sub(r"(\d)_(?=[a-z])", r"\1.", dotted).replace("attn1_", "attn1.").replace("attn2_", "attn2.")
    return f"unet.{dotted.replace('ff_net', 'ff.net').replace('0_proj', '0.proj')}.{part}"


def test_onetrainer_s_names(tiny: Tiny, tmp_path: Path) -> None:
    tensors = loras.compvis(tiny.factors)
    dotted = {by_onetrainer(name): tensor for name, tensor in tensors.items()}
    assert "unet.input_blocks.1.1.transformer_blocks.0.attn1.to_q.lora_up.weight" in dotted
    paths = [loras.save(tmp_path / f"{n}.safetensors", each) for n, each in enumerate((tensors, dotted))]
    first, second = (merge(tiny.checkpoint, [(path, 0.5)]).weights for path in paths)
    for component in ("unet", "text_encoder"):
        for name, weights in first[component].items():
            np.testing.assert_array_equal(weights.load(), second[component][name].load())


def test_a_lora_that_torch_saved(tiny: Tiny, tmp_path: Path) -> None:
    tensors = {name: tensor.half() for name, tensor in loras.kohya(tiny.factors).items()}
    safe = loras.save(tmp_path / "x.pt", tensors)
    wanted = merge(tiny.checkpoint, [(safe, 1.0)]).weights["unet"]
    for options in ({}, {"_use_new_zipfile_serialization": False}):
        torch.save(tensors, tmp_path / "x.safetensors", **options)
        found = merge(tiny.checkpoint, [(tmp_path / "x.safetensors", 1.0)]).weights["unet"]
        for name, weights in wanted.items():
            np.testing.assert_array_equal(found[name].load(), weights.load())


def test_several_adapters_in_one_file_are_chosen_by_name(tiny: Tiny, tmp_path: Path) -> None:
    torch.manual_seed(6)
    both = {
        f"unet.{LINEAR}.lora_{half}.{name}.weight": draw(2, 48) if half == "A" else draw(16, 2)
        for name in ("first", "second")
        for half in "AB"
    }
    path = loras.save(tmp_path / "x.safetensors", both)
    with pytest.raises(
        BadCheckpoint, match=r"has 2 adapters: first, second; choose one, as in x.safetensors:first"
    ):
        merge(tiny.checkpoint, [(path, 1.0)])
    with pytest.raises(BadCheckpoint, match=r"no adapter called 'third': it has first, second; a scale is a"):
        merge(tiny.checkpoint, [parse(f"{path}:third")])
    weight = tiny.modules["unet"].get_submodule(LINEAR).weight.detach()
    for name in ("first", "second"):
        assert parse(f"{path}:{name}:0.5") == (Path(f"{path}:{name}"), 0.5)
        found = merge(tiny.checkpoint, [parse(f"{path}:{name}:0.5")])
        up, down = (both[f"unet.{LINEAR}.lora_{half}.{name}.weight"] for half in "BA")
        assert require_close(found, {f"{LINEAR}.weight": (weight + 0.5 * (up @ down)).numpy()}, tiny) == 1
        assert found.adapters == {f"lora/x.safetensors:{name}": 0.5}
        assert found.files[f"lora/x.safetensors:{name}"] == path


def test_a_folder_has_one_adapter_or_several(tiny: Tiny, tmp_path: Path) -> None:
    tensors = loras.peft({layer: tiny.factors[layer] for layer in loras.ATTENTION})
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        loras.save(tmp_path / name / "adapter_model.safetensors", tensors)
    with pytest.raises(BadCheckpoint, match=r"has the adapters first, second; choose one, as in .*:first"):
        merge(tiny.checkpoint, [(tmp_path, 1.0)])
    assert merge(tiny.checkpoint, [parse(f"{tmp_path}:second")]).adapters == {
        "lora/adapter_model.safetensors": 1.0
    }
    loras.save(tmp_path / "first" / "b.bin", tensors)
    (tmp_path / "first" / "adapter_model.safetensors").rename(tmp_path / "first" / "a.bin")
    with pytest.raises(
        BadCheckpoint, match=r"first holds 2 files of weights: a.bin, b.bin; give one of them"
    ):
        merge(tiny.checkpoint, [(tmp_path / "first", 1.0)])


def test_a_lora_with_an_embedding_says_so(tiny: Tiny, tmp_path: Path) -> None:
    tensors = loras.kohya(tiny.factors) | {"bundle_emb.cat.string_to_param.*": torch.ones(2, 48)}
    found = merge(tiny.checkpoint, [(loras.save(tmp_path / "x.safetensors", tensors), 1.0)])
    assert found.remarks == (
        f"{tmp_path / 'x.safetensors'} carries the embedding of cat beside its LoRA, which --lora does not"
        " add; --embedding x.safetensors adds it",
    )
