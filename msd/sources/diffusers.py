"""A checkpoint as diffusers saves it: a folder with model_index.json and a folder for each component."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msd.errors import BadCheckpoint
from msd.ir.weights import Weights
from msd.models.config import TextEncoderConfig, UNetConfig, VaeDecoderConfig
from msd.sources import safetensors
from msd.sources.checkpoint import Checkpoint

PIPELINES = (
    "StableDiffusionPipeline",
    "StableDiffusionImg2ImgPipeline",
    "StableDiffusionInpaintPipeline",
    "LatentConsistencyModelPipeline",
)
"""Pipelines of one CLIP text encoder, one U-Net and one AutoencoderKL."""

CONFIGS = (
    "model_index.json",
    "scheduler/scheduler_config.json",
    "text_encoder/config.json",
    "unet/config.json",
    "vae/config.json",
)

TOKENIZER_FILES = (
    "vocab.json",
    "merges.txt",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
)
OLD_ATTENTION = {"query": "to_q", "key": "to_k", "value": "to_v", "proj_attn": "to_out.0"}
"""Names in autoencoders saved before diffusers 0.15, and the names since."""


def open_folder(folder: Path) -> Checkpoint:
    """Return the checkpoint in `folder`, of whose weights only the headers are read.

    Raises BadCheckpoint, naming the file and what would be right, where something is missing, damaged or of a
    kind that we cannot build.
    """
    if not folder.is_dir():
        raise BadCheckpoint(f"{folder} is not a folder; a folder with a model_index.json was expected")
    _require_pipeline(folder)
    configs = {name: _config(folder, f"{name}/config.json") for name in ("text_encoder", "unet", "vae")}
    text_encoder = TextEncoderConfig.from_diffusers(configs["text_encoder"])
    unet = UNetConfig.from_diffusers(configs["unet"])
    vae_decoder = VaeDecoderConfig.from_diffusers(configs["vae"])
    require_fit(text_encoder, unet, vae_decoder)
    stored = {
        "text_encoder": _weights(folder / "text_encoder", "model"),
        "unet": _weights(folder / "unet", "diffusion_pytorch_model"),
        "vae_decoder": _weights(folder / "vae", "diffusion_pytorch_model"),
    }
    weights = {name: each.tensors for name, each in stored.items()}
    tokenizer = _tokenizer(folder / "tokenizer")
    scheduler = _config(folder, "scheduler/scheduler_config.json")
    return Checkpoint(
        kind="diffusers",
        name=folder.absolute().name,
        text_encoder=text_encoder,
        unet=unet,
        vae_decoder=vae_decoder,
        weights={
            "text_encoder": dict(_text_encoder_names(weights["text_encoder"])),
            "unet": weights["unet"],
            "vae_decoder": dict(_vae_decoder_names(weights["vae_decoder"])),
        },
        tokenizer={name: path.read_bytes for name, path in tokenizer.items()},
        scheduler=scheduler,
        files=_files(folder, tokenizer.values(), stored.values()),
        holders={name: tuple(_inside(folder, path) for path in each.files) for name, each in stored.items()},
    )


@dataclass(frozen=True)
class _Stored:
    """A component's tensors, and the files that they are in."""

    tensors: Mapping[str, Weights]
    files: tuple[Path, ...]


def _files(folder: Path, tokenizer: Iterable[Path], stored: Iterable[_Stored]) -> dict[str, Path]:
    """Return every file that matters by its name inside `folder`, in order."""
    said = [folder / name for name in CONFIGS]
    paths = [*said, *tokenizer, *(path for each in stored for path in each.files)]
    return {_inside(folder, path): path for path in sorted(paths)}


def _inside(folder: Path, path: Path) -> str:
    return path.relative_to(folder).as_posix()


def _require_pipeline(folder: Path) -> None:
    """Refuse a folder whose model_index.json names a pipeline that we cannot build."""
    kind = _config(folder, "model_index.json").get("_class_name")
    if kind not in PIPELINES:
        raise BadCheckpoint(
            f"{folder}/model_index.json says the pipeline is {kind!r}, "
            f"and only {', '.join(PIPELINES)} are supported"
        )


def _config(folder: Path, name: str) -> dict[str, Any]:
    """Return the JSON object in the file `name` of `folder`."""
    try:
        config = json.loads((folder / name).read_text(encoding="utf-8"))
    except OSError as error:
        raise BadCheckpoint(f"{folder} has no readable {name} ({error.strerror})") from error
    except (ValueError, RecursionError) as error:
        raise BadCheckpoint(f"{folder / name} is not JSON ({error})") from error
    if not isinstance(config, dict):
        raise BadCheckpoint(f"{folder / name} is not a JSON object")
    return config


def require_fit(text_encoder: TextEncoderConfig, unet: UNetConfig, vae_decoder: VaeDecoderConfig) -> None:
    """Refuse components that cannot work together."""
    if text_encoder.width != unet.context_width:
        raise BadCheckpoint(
            f"unet/config.json says cross_attention_dim = {unet.context_width}, but text_encoder/config.json "
            f"says hidden_size = {text_encoder.width}; they must be equal"
        )
    if vae_decoder.latent_channels != unet.out_channels:
        raise BadCheckpoint(
            f"unet/config.json says out_channels = {unet.out_channels}, but vae/config.json says "
            f"latent_channels = {vae_decoder.latent_channels}; they must be equal"
        )


def _weights(folder: Path, stem: str) -> _Stored:
    """Return a component's tensors, full precision where there is a choice."""
    for variant in ("", ".fp16"):
        single = folder / f"{stem}{variant}.safetensors"
        if single.is_file():
            return _Stored(safetensors.open_file(single), (single,))
        index = folder / f"{stem}.safetensors.index{variant}.json"
        if index.is_file():
            return _shards(index)
    for pickle in sorted((*folder.glob("*.bin"), *folder.glob("*.ckpt"))):
        raise BadCheckpoint(
            f"{pickle} is a pickle, which can run any code when it is read; save the checkpoint again with "
            "save_pretrained(…, safe_serialization=True), or give all of it as one .safetensors or .ckpt file"
        )
    raise BadCheckpoint(f"{folder} has no weights; {stem}.safetensors was expected")


def _shards(index: Path) -> _Stored:
    """Return the tensors of several files that `index` lists."""
    placed = _config(index.parent, index.name).get("weight_map")
    if not isinstance(placed, dict) or not all(_is_shard(name) for name in placed.values()):
        raise BadCheckpoint(f"{index} has no weight_map from tensors to .safetensors files beside it")
    shards = {name: safetensors.open_file(index.parent / name) for name in sorted(set(placed.values()))}
    for tensor, name in placed.items():
        if tensor not in shards[name]:
            raise BadCheckpoint(f"{index} says that {tensor} is in {name}, but it is not")
    tensors = {tensor: shards[name][tensor] for tensor, name in placed.items()}
    return _Stored(tensors, (index, *(index.parent / name for name in shards)))


def _is_shard(name: Any) -> bool:
    return isinstance(name, str) and name.endswith(".safetensors") and Path(name).name == name


def _text_encoder_names(weights: Mapping[str, Weights]) -> Iterator[tuple[str, Weights]]:
    """Yield the tensors without the prefix that depends on transformers' version, and without its buffers."""
    for name, tensor in weights.items():
        name = name.removeprefix("text_model.")
        if name != "embeddings.position_ids":
            yield name, tensor


def _vae_decoder_names(weights: Mapping[str, Weights]) -> Iterator[tuple[str, Weights]]:
    """Yield the decoder's tensors, those of its attention as linear layers under their names of today."""
    for name, tensor in weights.items():
        if name.startswith(("encoder.", "quant_conv.")):
            continue
        prefix, attention, rest = name.partition(".attentions.0.")
        layer, _, last = rest.rpartition(".")
        if attention and layer != "group_norm":
            name = f"{prefix}{attention}{OLD_ATTENTION.get(layer, layer)}.{last}"
            if tensor.shape[2:] == (1, 1):
                tensor = tensor.reshape(tensor.shape[:2])
        yield name, tensor


def _tokenizer(folder: Path) -> dict[str, Path]:
    """Return the tokenizer's files by name."""
    found = {name: folder / name for name in TOKENIZER_FILES if (folder / name).is_file()}
    if "tokenizer.json" not in found and not {"vocab.json", "merges.txt"} <= found.keys():
        raise BadCheckpoint(f"{folder} has neither vocab.json and merges.txt nor tokenizer.json")
    return found
