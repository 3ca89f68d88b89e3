"""LoRA files in every naming, and the weights that diffusers and peft make of them."""

from __future__ import annotations

import copy
import json
import logging
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from msd.conversion.sources.diffusers import open_folder
from tests import checkpoints
from tests.late import diffusers, transformers

Modules = Mapping[str, torch.nn.Module]
Tensors = dict[str, torch.Tensor]
Factors = dict[tuple[str, str], tuple[torch.Tensor, torch.Tensor, float]]
"""down, up and alpha of layers, by component and name."""

BLOCK = "down_blocks.0.attentions.0.transformer_blocks.0"
ATTENTION = (
    ("unet", f"{BLOCK}.attn1.to_q"),
    ("unet", f"{BLOCK}.attn2.to_k"),
    ("unet", "mid_block.attentions.0.transformer_blocks.0.attn2.to_v"),
    ("unet", "up_blocks.1.attentions.1.transformer_blocks.0.attn1.to_out.0"),
    ("text_encoder", "encoder.layers.0.self_attn.q_proj"),
    ("text_encoder", "encoder.layers.0.self_attn.out_proj"),
)
"""Layers of the tiny checkpoint that the oldest LoRA files could change."""
LAYERS = (
    *ATTENTION,
    ("unet", f"{BLOCK}.ff.net.0.proj"),
    ("unet", "conv_in"),
    ("unet", "time_embedding.linear_1"),
    ("unet", "down_blocks.0.attentions.0.proj_in"),
    ("unet", "down_blocks.0.resnets.0.conv1"),
    ("unet", "down_blocks.0.resnets.0.time_emb_proj"),
    ("unet", "down_blocks.0.downsamplers.0.conv"),
    ("unet", "down_blocks.1.resnets.0.conv_shortcut"),
    ("unet", "mid_block.resnets.1.conv2"),
    ("text_encoder", "encoder.layers.0.mlp.fc1"),
)
COMPVIS = {
    f"{BLOCK}.attn1.to_q": "input_blocks_1_1_transformer_blocks_0_attn1_to_q",
    f"{BLOCK}.attn2.to_k": "input_blocks_1_1_transformer_blocks_0_attn2_to_k",
    "mid_block.attentions.0.transformer_blocks.0.attn2.to_v": (
        "middle_block_1_transformer_blocks_0_attn2_to_v"
    ),
    "up_blocks.1.attentions.1.transformer_blocks.0.attn1.to_out.0": (
        "output_blocks_3_1_transformer_blocks_0_attn1_to_out_0"
    ),
    f"{BLOCK}.ff.net.0.proj": "input_blocks_1_1_transformer_blocks_0_ff_net_0_proj",
    "conv_in": "input_blocks_0_0",
    "time_embedding.linear_1": "time_embed_0",
    "down_blocks.0.attentions.0.proj_in": "input_blocks_1_1_proj_in",
    "down_blocks.0.resnets.0.conv1": "input_blocks_1_0_in_layers_2",
    "down_blocks.0.resnets.0.time_emb_proj": "input_blocks_1_0_emb_layers_1",
    "down_blocks.0.downsamplers.0.conv": "input_blocks_2_0_op",
    "down_blocks.1.resnets.0.conv_shortcut": "input_blocks_3_0_skip_connection",
    "mid_block.resnets.1.conv2": "middle_block_2_out_layers_3",
}
"""CompVis's names, underscored, of the tiny checkpoint's layers."""


def draw(modules: Modules, layers: Iterable[tuple[str, str]] = LAYERS, seed: int = 0) -> Factors:
    """Return random factors for `layers`, of rank 2 to 4, one alpha for linear layers and one for others.

    diffusers mixes alphas up where the linear layers of one file have several.
    """
    random = torch.Generator().manual_seed(seed)
    drawn = {}
    for i, (component, layer) in enumerate(layers):
        shape, rank = modules[component].get_submodule(layer).weight.shape, 2 + i % 3
        down = torch.randn(rank, *shape[1:], generator=random)
        up = torch.randn(shape[0], rank, *[1] * len(shape[2:]), generator=random)
        drawn[component, layer] = (down, up, 2.0 if shape[2:] else 5.0)
    return drawn


def kohya(factors: Factors) -> Tensors:
    """Return what kohya's scripts write."""
    return _underscored(factors, {})


def compvis(factors: Factors) -> Tensors:
    """Return what kohya's scripts write for a U-Net of CompVis's."""
    return _underscored(factors, COMPVIS)


def _underscored(factors: Factors, renamed: Mapping[str, str]) -> Tensors:
    tensors = {}
    for (component, layer), (down, up, alpha) in factors.items():
        prefix = {"unet": "lora_unet_", "text_encoder": "lora_te_text_model_"}[component]
        name = prefix + renamed.get(layer, layer.replace(".", "_"))
        tensors |= {f"{name}.lora_down.weight": down, f"{name}.lora_up.weight": up}
        tensors[f"{name}.alpha"] = torch.tensor(alpha)
    return tensors


def oldest(factors: Factors) -> Tensors:
    """Return what diffusers wrote at first, for attention only."""

    def name(component: str, layer: str) -> str:
        block, _, last = layer.removesuffix(".0").rpartition(".")
        last = {"q_proj": "to_q", "out_proj": "to_out"}.get(last, last)
        return f"{block}.processor.{last}_lora" if component == "unet" else f"{block}.{last}_lora"

    return _dotted(factors, name, ("down", "up"))


def older(factors: Factors) -> Tensors:
    """Return what diffusers wrote between."""
    ends = {"unet": "lora", "text_encoder": "lora_linear_layer"}
    return _dotted(factors, lambda component, layer: f"{layer}.{ends[component]}", ("down", "up"))


def peft(factors: Factors) -> Tensors:
    """Return what diffusers writes today."""
    return _dotted(factors, lambda _, layer: layer, ("lora_A", "lora_B"))


def _dotted(factors: Factors, name: Callable[[str, str], str], ends: tuple[str, str]) -> Tensors:
    tensors = {}
    for (component, layer), pair in factors.items():
        root = f"{component}.text_model" if component == "text_encoder" else component
        for end, tensor in zip(ends, pair[:2], strict=True):
            tensors[f"{root}.{name(component, layer)}.{end}.weight"] = tensor
    return tensors


def save(path: Path, tensors: Tensors, metadata: Any = None) -> Path:
    """Write a LoRA file, with `metadata` as diffusers writes it, and return where."""
    texts = None if metadata is None else {"lora_adapter_metadata": json.dumps(metadata)}
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, path, texts)
    return path


def pipeline(modules: Modules, tokenizer: Path) -> Any:
    """Return diffusers' pipeline of copies of `modules`."""
    scheduler = diffusers.DDIMScheduler(steps_offset=1, clip_sample=False)
    parts = {name: copy.deepcopy(module) for name, module in modules.items()}
    return diffusers.StableDiffusionPipeline(
        **parts,
        tokenizer=transformers.CLIPTokenizer.from_pretrained(tokenizer),
        scheduler=scheduler,
        safety_checker=None,
        feature_extractor=None,
        requires_safety_checker=False,
    )


def fuse(modules: Modules, tokenizer: Path, files: list[tuple[Path, float]]) -> dict[str, torch.nn.Module]:
    """Return "unet" and "text_encoder" with `files`, each with its scale, fused into them by diffusers."""
    logging.getLogger("diffusers.loaders").setLevel(logging.ERROR)
    pipe = pipeline(modules, tokenizer)
    names = [f"file{i}" for i in range(len(files))]
    for name, (path, _) in zip(names, files, strict=True):
        pipe.load_lora_weights(
            path.parent, weight_name=path.name, adapter_name=name, unet_config=pipe.unet.config
        )
    pipe.set_adapters(names, [scale for _, scale in files])
    pipe.fuse_lora(adapter_names=names)
    pipe.unload_lora_weights()
    return {"unet": pipe.unet, "text_encoder": pipe.text_encoder, "vae": pipe.vae}


def train(modules: Modules, tokenizer: Path, folder: Path, **unet: Any) -> Path:
    """Return a file that diffusers saved of adapters that peft made, `unet` in the U-Net's LoraConfig."""
    from diffusers.training_utils import _collate_lora_metadata
    from peft import LoraConfig
    from peft.utils import get_peft_model_state_dict

    pipe = pipeline(modules, tokenizer)
    pipe.unet.add_adapter(LoraConfig(r=3, **unet))
    text = {"lora_alpha": 7, "target_modules": ["q_proj", "fc2"]}
    pipe.text_encoder.add_adapter(LoraConfig(r=2, **text))
    parts = {"unet": pipe.unet, "text_encoder": pipe.text_encoder}
    with torch.no_grad():
        for module in parts.values():
            for name, parameter in module.named_parameters():
                if "lora_B" in name:
                    parameter.normal_()
    pipe.save_lora_weights(
        folder,
        **{f"{name}_lora_layers": get_peft_model_state_dict(module) for name, module in parts.items()},
        **_collate_lora_metadata(parts),
    )
    return folder / "pytorch_lora_weights.safetensors"


class Tiny:
    """A checkpoint's folder, what it opens to, its modules and some LoRA for all kinds of layers."""

    def __init__(self, folder: Path, config: checkpoints.Config) -> None:
        self.folder = folder
        self.modules: Modules = checkpoints.write(folder, config)
        self.checkpoint = open_folder(folder)
        self.factors = draw(self.modules)

    def fuse(self, *files: tuple[Path, float]) -> dict[str, dict[str, Any]]:
        """Return the weights that diffusers makes, named as a checkpoint's are."""
        fused = fuse(self.modules, self.folder / "tokenizer", list(files))
        return {
            component: {
                name.removeprefix("text_model."): tensor.numpy()
                for name, tensor in fused[component].state_dict().items()
            }
            for component in ("unet", "text_encoder")
        }
