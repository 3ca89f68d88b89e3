"""LoRA files merged: the weights are those that diffusers fuses, and what is no LoRA for them is refused."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from msd.conversion.sources.checkpoint import Checkpoint
from msd.conversion.sources.diffusers import open_folder
from msd.conversion.sources.lora import merge
from msd.conversion.sources.lora_names import compvis_blocks, compvis_name, layer_names
from tests import checkpoints, loras
from tests.loras import BLOCK, Factors, Tensors, Tiny

CONVOLVED = checkpoints.vary(checkpoints.TINY, unet={"use_linear_projection": False})
"""With the 1x1 convolutions of Stable Diffusion 1, where Stable Diffusion 2 has linear layers."""


@pytest.fixture(scope="module", params=[checkpoints.TINY, CONVOLVED], ids=["linear", "convolved"])
def tiny(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    return Tiny(tmp_path_factory.mktemp("tiny"), request.param)


linear = pytest.mark.parametrize("tiny", [checkpoints.TINY], indirect=True, ids=["linear"])


def require_equal(tiny: Tiny, found: Checkpoint, wanted: dict[str, dict[str, Any]]) -> set[tuple[str, str]]:
    """Require diffusers' weights, and the same objects where nothing changed; return what has changed."""
    changed = set()
    for component, tensors in wanted.items():
        for name, tensor in tensors.items():
            before, after = tiny.checkpoint.weights[component][name], found.weights[component][name]
            if np.array_equal(before.load(), tensor):
                assert after is before, name
            else:
                changed.add((component, name))
                close = 1e-6 * np.abs(tensor).max()
                np.testing.assert_allclose(after.load(), tensor, rtol=0, atol=close, err_msg=name)
    assert found.weights["vae_decoder"] is tiny.checkpoint.weights["vae_decoder"]
    return changed


def with_numbers(factors: Factors) -> Tensors:
    """Return kohya's names with the number of Stable Diffusion XL's first text encoder."""
    return {name.replace("lora_te_", "lora_te1_"): t for name, t in loras.kohya(factors).items()}


NAMINGS = [loras.kohya, with_numbers, loras.compvis, loras.older, loras.peft, loras.oldest]


def attention(factors: Factors) -> Factors:
    return {layer: factors[layer] for layer in loras.ATTENTION}


@pytest.mark.parametrize("scale", [1.0, 0.7, -1.25])
@pytest.mark.parametrize("naming", NAMINGS)
def test_the_weights_are_those_of_diffusers(
    naming: Callable[[Factors], Tensors], scale: float, tiny: Tiny, tmp_path: Path
) -> None:
    factors = attention(tiny.factors) if naming is loras.oldest else tiny.factors
    path = loras.save(tmp_path / "x.safetensors", naming(factors))
    found = merge(tiny.checkpoint, [(path, scale)])
    changed = require_equal(tiny, found, tiny.fuse((path, scale)))
    assert changed == {(component, f"{layer}.weight") for component, layer in factors}


@pytest.mark.parametrize("rslora", [False, True])
def test_files_that_say_alpha_in_their_metadata(rslora: bool, tiny: Tiny, tmp_path: Path) -> None:
    path = loras.train(
        tiny.modules,
        tiny.folder / "tokenizer",
        tmp_path,
        lora_alpha=5,
        use_rslora=rslora,
        target_modules=["to_q", "to_out.0", "conv1", "conv_shortcut"],
        rank_pattern={"attn1.to_q": 2, "mid_block.resnets.0.conv1": 4},
        alpha_pattern={"attn1.to_q": 3, "^mid_block.resnets.1.conv1": 0.5},
    )
    found = merge(tiny.checkpoint, [(path, 0.8)])
    changed = require_equal(tiny, found, tiny.fuse((path, 0.8)))
    assert {component for component, _ in changed} == {"unet", "text_encoder"}
    assert len(changed) > 20


@pytest.mark.parametrize("rslora", [False, True])
def test_a_folder_of_peft_says_alpha_in_a_file_of_its_own(rslora: bool, tiny: Tiny, tmp_path: Path) -> None:
    """As diffusers' LCM-LoRA script saves its U-Net; peft merges its own folder."""
    from peft import LoraConfig, get_peft_model

    random = torch.Generator().manual_seed(1)
    targets = ["to_q", "to_out.0", "ff.net.2", "conv1", "proj_in", "time_emb_proj"]
    config = LoraConfig(r=3, lora_alpha=5, use_rslora=rslora, target_modules=targets)
    wrapped = get_peft_model(copy.deepcopy(tiny.modules["unet"]), config)
    with torch.no_grad():
        for name, parameter in wrapped.named_parameters():
            if "lora_B" in name:
                parameter.normal_(generator=random)
    wrapped.save_pretrained(tmp_path)
    path = tmp_path / "adapter_model.safetensors"
    found = merge(tiny.checkpoint, [(path, 1.0)])
    fused = {name: tensor.numpy() for name, tensor in wrapped.merge_and_unload().state_dict().items()}
    assert len(require_equal(tiny, found, {"unet": fused})) > 10
    assert {"lora/adapter_model.safetensors", "lora/adapter_config.json"} <= set(found.weight_files["unet"])
    assert found.files["lora/adapter_config.json"] == tmp_path / "adapter_config.json"
    assert found.adapters == {"lora/adapter_model.safetensors": 1.0}


@linear
def test_several_files_add_up(tiny: Tiny, tmp_path: Path) -> None:
    first = loras.save(tmp_path / "first.safetensors", loras.kohya(tiny.factors))
    others = loras.draw(tiny.modules, loras.LAYERS[2:12], seed=1)
    second = loras.save(tmp_path / "second.safetensors", loras.peft(others))
    files = [(first, 0.7), (second, -0.4)]
    require_equal(tiny, merge(tiny.checkpoint, files), tiny.fuse(*files))


@linear
def test_a_scale_of_0_changes_nothing(tiny: Tiny, tmp_path: Path) -> None:
    path = loras.save(tmp_path / "x.safetensors", loras.kohya(tiny.factors))
    found = merge(tiny.checkpoint, [(path, 0.0)])
    assert found.weights == tiny.checkpoint.weights
    assert found.weight_files == tiny.checkpoint.weight_files
    assert found.adapters == {"lora/x.safetensors": 0.0}
    assert found.remarks == (f"{path} changes nothing: its scale is 0",)


@linear
def test_an_alpha_of_0_changes_nothing_and_is_said(tiny: Tiny, tmp_path: Path) -> None:
    factors = {layer: (*pair[:2], 0.0) for layer, pair in tiny.factors.items()}
    path = loras.save(tmp_path / "x.safetensors", loras.kohya(factors))
    found = merge(tiny.checkpoint, [(path, 1.0)])
    for component, tensors in tiny.fuse((path, 1.0)).items():
        for name, tensor in tensors.items():
            np.testing.assert_array_equal(found.weights[component][name].load(), tensor)
    assert found.remarks == (f"{path} adds nothing in all its layers, as in diffusers: there its alpha is 0",)
    some = {**tiny.factors, **dict([*factors.items()][:2])}
    path = loras.save(tmp_path / "some.safetensors", loras.kohya(some))
    (remark,) = merge(tiny.checkpoint, [(path, 1.0)]).remarks
    assert remark.startswith(f"{path} adds nothing in 2 of its {len(factors)} layers, as in diffusers")
    path = loras.save(tmp_path / "whole.safetensors", loras.kohya(tiny.factors))
    assert not merge(tiny.checkpoint, [(path, 1.0)]).remarks


def by_kohya(weight: torch.Tensor, down: torch.Tensor, up: torch.Tensor, factor: float) -> torch.Tensor:
    """Return the merged weight as sd-scripts' networks/merge_lora.py computes it."""
    if weight.ndim == 2:
        return weight + factor * (up @ down)
    if down.shape[2:] == (1, 1):
        return weight + factor * (up[:, :, 0, 0] @ down[:, :, 0, 0])[:, :, None, None]
    change = torch.nn.functional.conv2d(down.permute(1, 0, 2, 3), up).permute(1, 0, 2, 3)
    return weight + factor * change


@pytest.mark.parametrize("zero", ["lora_up", "lora_down"])
def test_matrices_of_zeros_change_nothing_and_that_is_said(zero: str, tiny: Tiny, tmp_path: Path) -> None:
    """As a LoRA is before it is trained; one layer that was trained is enough to say nothing."""
    whole = loras.kohya(tiny.factors)
    empty = {name: torch.zeros_like(t) if zero in name else t for name, t in whole.items()}
    path = loras.save(tmp_path / "empty.safetensors", empty)
    found = merge(tiny.checkpoint, [(path, 0.5)])
    said = f"{path} changes nothing: all that it adds is 0, as before a LoRA's training"
    assert found.remarks == (said,)
    for component, tensors in tiny.checkpoint.weights.items():
        for name, weights in tensors.items():
            np.testing.assert_array_equal(found.weights[component][name].load(), weights.load())
    last = [name for name in whole if zero in name][-1]
    trained = loras.save(tmp_path / "trained.safetensors", {**empty, last: whole[last]})
    assert not merge(tiny.checkpoint, [(trained, 0.5)]).remarks


def test_a_bias_alone_is_a_change(tiny: Tiny, tmp_path: Path) -> None:
    layer = "lora_unet_conv_in"
    tensors = {name: torch.zeros_like(t) for name, t in loras.kohya(tiny.factors).items() if layer in name}
    tensors[f"{layer}.alpha"] = torch.tensor(2.0)
    of_bias = {f"{layer}.diff_b": torch.full((16,), 0.25)}
    said = [
        merge(tiny.checkpoint, [(loras.save(tmp_path / f"{n}.safetensors", each), 1.0)]).remarks
        for n, each in enumerate((tensors, {**tensors, **of_bias}))
    ]
    assert [len(each) for each in said] == [1, 0]


@pytest.mark.parametrize("said", [True, False])
def test_each_layer_has_its_own_alpha(said: bool, tiny: Tiny, tmp_path: Path) -> None:
    factors = {layer: (*pair[:2], 0.5 + i) for i, (layer, pair) in enumerate(tiny.factors.items())}
    tensors = loras.kohya(factors)
    if not said:
        tensors = {name: tensor for name, tensor in tensors.items() if not name.endswith(".alpha")}
    found = merge(tiny.checkpoint, [(loras.save(tmp_path / "x.safetensors", tensors), 0.3)])
    for (component, layer), (down, up, alpha) in factors.items():
        factor = 0.3 * alpha / len(down) if said else 0.3
        wanted = by_kohya(
            tiny.modules[component].get_submodule(layer).weight.detach(), down, up, factor
        ).numpy()
        merged = found.weights[component][f"{layer}.weight"].load()
        np.testing.assert_allclose(merged, wanted, rtol=0, atol=1e-6 * np.abs(wanted).max())


def squeezed(tensors: Tensors) -> Tensors:
    return {name: t.flatten(1) if t.shape[2:] == (1, 1) else t for name, t in tensors.items()}


def unsqueezed(tensors: Tensors) -> Tensors:
    return {name: t[:, :, None, None] if t.ndim == 2 else t for name, t in tensors.items()}


def named(tensors: Tensors) -> Tensors:
    return {name.replace(".weight", ".default.weight"): tensor for name, tensor in tensors.items()}


def bare(tensors: Tensors) -> Tensors:
    return {
        name.removeprefix("unet.").replace("r.text_model.", "r."): tensor for name, tensor in tensors.items()
    }


def of_peft(tensors: Tensors) -> Tensors:
    return {f"base_model.model.{name.partition('.')[2]}": tensor for name, tensor in tensors.items()}


def of_peft_by_diffusers(tensors: Tensors) -> Tensors:
    return {name.replace(".", ".base_model.model.", 1): tensor for name, tensor in tensors.items()}


@pytest.mark.parametrize("change", [squeezed, unsqueezed, named, bare, of_peft, of_peft_by_diffusers])
def test_the_same_in_other_forms(change: Callable[[Tensors], Tensors], tiny: Tiny, tmp_path: Path) -> None:
    tensors = loras.peft(tiny.factors)
    plain = loras.save(tmp_path / "plain.safetensors", tensors)
    assert change(tensors).keys() != tensors.keys() or any(
        t.shape != tensors[name].shape for name, t in change(tensors).items()
    )
    other = loras.save(tmp_path / "other.safetensors", change(tensors))
    found, wanted = (merge(tiny.checkpoint, [(path, 0.6)]) for path in (other, plain))
    for component, tensors in wanted.weights.items():
        for name, tensor in tensors.items():
            np.testing.assert_array_equal(found.weights[component][name].load(), tensor.load())


def test_half_precision_and_whole_alphas_are_merged_in_float32(tiny: Tiny, tmp_path: Path) -> None:
    tensors = loras.kohya(tiny.factors)
    half = {n: tensor.long() if n.endswith(".alpha") else tensor.half() for n, tensor in tensors.items()}
    full = {name: tensor.float() for name, tensor in half.items()}
    paths = [loras.save(tmp_path / f"{t}.safetensors", x) for t, x in (("half", half), ("full", full))]
    first, second = (merge(tiny.checkpoint, [(path, 1.0)]).weights["unet"] for path in paths)
    for name, tensor in first.items():
        np.testing.assert_array_equal(tensor.load(), second[name].load())


@pytest.mark.parametrize("config", [checkpoints.SD15, checkpoints.TINY], ids=["sd15", "tiny"])
def test_compvis_names_are_those_that_diffusers_reads(config: checkpoints.Config, tmp_path: Path) -> None:
    from diffusers.loaders.single_file_utils import convert_ldm_unet_checkpoint

    unet = checkpoints.write(tmp_path, config)["unet"]
    blocks = compvis_blocks(open_folder(tmp_path).configs["unet"])
    layers = (name for name, m in unet.named_modules() if isinstance(m, (torch.nn.Linear, torch.nn.Conv2d)))
    wanted = {(layer, end) for layer in layers for end in ("weight", "bias")}
    theirs = {
        f"model.diffusion_model.{compvis_name(layer, blocks)}.{end}": (layer, end) for layer, end in wanted
    }
    found = convert_ldm_unet_checkpoint(theirs, dict(unet.config))
    assert found == {f"{layer}.{end}": (layer, end) for layer, end in wanted}


def test_the_names_of_the_checkpoint_are_told_apart(tiny: Tiny) -> None:
    names = layer_names(tiny.checkpoint)
    layers = set(names.values())
    for layer in layers:
        kohya = {"unet": "lora_unet_", "text_encoder": "lora_te_text_model_"}[layer.component]
        assert names[kohya + layer.name.replace(".", "_")] == layer
    assert len(layers) == sum(
        name.endswith(".weight") and not name.startswith("embeddings.")
        for component in ("unet", "text_encoder")
        for name, weights in tiny.checkpoint.weights[component].items()
    )


ONE = [("unet", f"{BLOCK}.attn2.to_k")]
scales = st.floats(-4, 4, width=32)


@linear
@given(first=scales, second=scales, seed=st.integers(0, 9))
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_merging_is_linear_and_in_any_order(
    first: float, second: float, seed: int, tiny: Tiny, tmp_path: Path
) -> None:
    name = f"{BLOCK}.attn2.to_k.weight"
    paths = [tmp_path / "a.safetensors", tmp_path / "b.safetensors"]
    for i, path in enumerate(paths):
        loras.save(path, loras.kohya(loras.draw(tiny.modules, ONE, 2 * seed + i)))

    def change(*files: tuple[Path, float]) -> Any:
        merged = merge(tiny.checkpoint, files).weights["unet"][name].load()
        return merged.astype(float) - tiny.checkpoint.weights["unet"][name].load()

    a, b = change((paths[0], 1.0)), change((paths[1], 1.0))
    together = change((paths[0], first), (paths[1], second))
    reversed_ = change((paths[1], second), (paths[0], first))
    twice = change((paths[0], first), (paths[0], second))
    close = 1e-5 * (1 + np.abs(a).max() * 8 + np.abs(b).max() * 8)
    np.testing.assert_allclose(together, first * a + second * b, rtol=0, atol=close)
    np.testing.assert_allclose(reversed_, together, rtol=0, atol=close)
    np.testing.assert_allclose(twice, (first + second) * a, rtol=0, atol=close)


@linear
def test_the_checkpoint_says_what_was_merged(tiny: Tiny, tmp_path: Path) -> None:
    text = {layer: pair for layer, pair in tiny.factors.items() if layer[0] == "text_encoder"}
    unet = {layer: pair for layer, pair in tiny.factors.items() if layer[0] == "unet"}
    paths = [tmp_path / x / "x.safetensors" for x in "ab"]
    for path, factors in zip(paths, (text, unet), strict=True):
        path.parent.mkdir()
        loras.save(path, loras.kohya(factors))
    found, before = merge(tiny.checkpoint, [(paths[0], 0.5), (paths[1], -2)]), tiny.checkpoint
    assert found.adapters == {"lora/x.safetensors": 0.5, "lora/2/x.safetensors": -2.0}
    assert found.files == {**before.files, "lora/x.safetensors": paths[0], "lora/2/x.safetensors": paths[1]}
    assert found.weight_files == {
        **before.weight_files,
        "text_encoder": (*before.weight_files["text_encoder"], "lora/x.safetensors"),
        "unet": (*before.weight_files["unet"], "lora/2/x.safetensors"),
    }
