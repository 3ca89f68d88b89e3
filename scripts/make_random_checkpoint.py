"""Write a checkpoint of a public configuration at full size, with random weights, a tensor at a time.

    python -m scripts.make_random_checkpoint single-file build/sd21-base.safetensors --model sd21-base

Names and shapes are those of diffusers' and transformers' own classes; a seed and a name decide a tensor, so
that all formats have the same. Weights are normal with variance 1/fan-in; norms are about 1, biases about 0.
"""

from __future__ import annotations

import json
import math
import os
import pickle
import tomllib
import zipfile
import zlib
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import click
import numpy as np
import numpy.typing as npt

from msd.conversion.sources.clip_tokenizer import PAD_1, PAD_2, clip_tokenizer
from scripts import compvis_names
from scripts.compvis_names import CompVisTensor, Shape

Array = npt.NDArray[Any]
Config = Mapping[str, Mapping[str, Any]]
MODELS = Path(__file__).parent.parent / "configs" / "models"
SAFETENSORS_DTYPES = {"float32": "F32", "float16": "F16"}
UNUSED_LAYERS = 1
"""OpenCLIP's last layers, which Stable Diffusion 2.x does not use but single files have."""

FOLDERS = {
    "text_encoder": ("model", "transformers", "CLIPTextModel"),
    "text_encoder_2": ("model", "transformers", "CLIPTextModelWithProjection"),
    "unet": ("diffusion_pytorch_model", "diffusers", "UNet2DConditionModel"),
    "vae": ("diffusion_pytorch_model", "diffusers", "AutoencoderKL"),
}
"""The stem of a component's files, and its class; one that a configuration lacks is not written."""

SHARD = 5_000_000_000
"""The bytes from which diffusers writes weights in several files."""

AHEAD = 16
"""Tensors that are made side by side."""


@dataclass(frozen=True)
class Random:
    """Random numbers that depend on a seed and a tensor's name alone, as `dtype`."""

    seed: int
    dtype: str

    def values(self, tensor: CompVisTensor) -> Array:
        """Return a tensor's values: its parts joined on the first axis."""
        rows = tensor.shape[0] // len(tensor.parts) if tensor.shape else 1
        shape = (rows, *tensor.shape[1:]) if tensor.shape else ()
        return np.concatenate(
            [np.atleast_1d(self._part(tensor.component, part, shape)) for part in tensor.parts]
        )

    def _part(self, component: str, name: str, shape: Shape) -> Array:
        rng = np.random.default_rng([self.seed, zlib.crc32(f"{component}.{name}".encode())])
        values = rng.standard_normal(shape, np.float32)
        if len(shape) > 1:
            values *= np.float32(1 / math.sqrt(math.prod(shape[1:])))
        else:
            values *= np.float32(0.02)
            values += np.float32(name.endswith("weight"))
        return np.asarray(values, self.dtype)


def models() -> list[str]:
    """Return the names of those in configs/models/."""
    return sorted(str(path.relative_to(MODELS).with_suffix("")) for path in MODELS.rglob("*.toml"))


def read_config(model: str) -> Config:
    """Return one of configs/models/."""
    return tomllib.loads((MODELS / f"{model}.toml").read_text("utf-8"))


def shapes(config: Config, text_layers: int = 0) -> dict[str, dict[str, Shape]]:
    """Return the shape of each tensor of "text_encoder", with `text_layers` more, "unet" and "vae".

    That of Stable Diffusion XL's "text_encoder_2" too.
    """
    import torch
    from diffusers import AutoencoderKL, UNet2DConditionModel
    from transformers import CLIPTextConfig, CLIPTextModel, CLIPTextModelWithProjection

    text = {**config["text_encoder"]}
    text["num_hidden_layers"] += text_layers
    with torch.device("meta"):
        made = {
            "text_encoder": CLIPTextModel(CLIPTextConfig(**text)),
            "unet": UNet2DConditionModel(**config["unet"]),
            "vae": AutoencoderKL(**config["vae"]),
        }
        if "text_encoder_2" in config:
            second = CLIPTextConfig(**config["text_encoder_2"])
            made["text_encoder_2"] = CLIPTextModelWithProjection(second)
    found = {c: {n: tuple(p.shape) for n, p in module.named_parameters()} for c, module in made.items()}
    found["text_encoder"] = {n.removeprefix("text_model."): s for n, s in found["text_encoder"].items()}
    return found


def is_xl(config: Config) -> bool:
    """Return whether it is a Stable Diffusion XL, which has a second text encoder."""
    return "text_encoder_2" in config


def is_second(config: Config) -> bool:
    """Return whether it is a Stable Diffusion 2.x, whose text encoder is OpenCLIP's."""
    return config["text_encoder"].get("hidden_act") == "gelu"


def single_file_tensors(config: Config) -> list[CompVisTensor]:
    """Return the tensors of a single file in CompVis's layout."""
    second = is_second(config)
    every = shapes(config, UNUSED_LAYERS if second else 0)
    levels = config["unet"]["block_out_channels"]
    resnets = config["unet"].get("layers_per_block", 2)
    text = (compvis_names.open_clip if second else compvis_names.clip)(every["text_encoder"])
    return [
        *compvis_names.unet(every["unet"], [resnets] * len(levels) if isinstance(resnets, int) else resnets),
        *compvis_names.vae(every["vae"], len(config["vae"]["block_out_channels"])),
        *text,
    ]


def write_safetensors(
    path: Path, tensors: Iterable[CompVisTensor], random: Random, metadata: Mapping[str, str] | None = None
) -> None:
    """Write a .safetensors file: the length of the header, the header, and the tensors one after another."""
    tensors, at = list(tensors), 0
    header: dict[str, Any] = {"__metadata__": dict(metadata or {})}
    for tensor in tensors:
        end = at + math.prod(tensor.shape) * np.dtype(random.dtype).itemsize
        entry = {"dtype": SAFETENSORS_DTYPES[random.dtype], "shape": tensor.shape, "data_offsets": [at, end]}
        header[tensor.name], at = entry, end
    text = json.dumps(header).encode()
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            for first in range(0, len(tensors), AHEAD):
                for values in pool.map(random.values, tensors[first : first + AHEAD]):
                    values.tofile(file)


def write_shards(folder: Path, stem: str, tensors: Iterable[CompVisTensor], random: Random) -> None:
    """Write one .safetensors file, or from SHARD bytes on several and their index, as diffusers does."""
    size = np.dtype(random.dtype).itemsize
    shards: list[list[CompVisTensor]] = [[]]
    room = SHARD
    for tensor in tensors:
        count = math.prod(tensor.shape) * size
        if count > room and shards[-1]:
            shards, room = [*shards, []], SHARD
        shards[-1].append(tensor)
        room -= count
    if len(shards) == 1:
        write_safetensors(folder / f"{stem}.safetensors", shards[0], random, {"format": "pt"})
        return
    places = dict[str, str]()
    for number, shard in enumerate(shards, 1):
        name = f"{stem}-{number:05}-of-{len(shards):05}.safetensors"
        write_safetensors(folder / name, shard, random, {"format": "pt"})
        places |= {tensor.name: name for tensor in shard}
    index = {"metadata": {}, "weight_map": places}
    (folder / f"{stem}.safetensors.index.json").write_text(json.dumps(index), "utf-8")


def write_ckpt(path: Path, tensors: Iterable[CompVisTensor], random: Random, **beside: Any) -> None:
    """Write the file of torch.save({"state_dict": …, **beside}): a zip file of a pickle and of storages."""
    tensors = list(tensors)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("archive/data.pkl", _pickle(tensors, random.dtype, beside))
        archive.writestr("archive/byteorder", "little")
        for number, tensor in enumerate(tensors):
            with archive.open(f"archive/data/{number}", "w", force_zip64=True) as entry:
                entry.write(random.values(tensor).data.cast("B"))
        archive.writestr("archive/version", "3\n")


@dataclass(frozen=True)
class _Reference:
    """A tensor in a pickle, whose storage is elsewhere under `key`."""

    key: str
    shape: Shape

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        from torch._utils import _rebuild_tensor_v2

        strides = tuple(math.prod(self.shape[i + 1 :]) for i in range(len(self.shape)))
        return _rebuild_tensor_v2, (
            _Storage(self.key, self.shape),
            0,
            self.shape,
            strides,
            False,
            OrderedDict(),
        )


@dataclass(frozen=True)
class _Storage:
    key: str
    shape: Shape


def _pickle(tensors: Iterable[CompVisTensor], dtype: str, beside: Mapping[str, Any]) -> bytes:
    import torch

    kind = {"float32": torch.FloatStorage, "float16": torch.HalfStorage}[dtype]

    class Pickler(pickle.Pickler):
        def persistent_id(self, value: Any) -> Any:
            if isinstance(value, _Storage):
                return "storage", kind, value.key, "cpu", math.prod(value.shape)
            return None

    state = OrderedDict((t.name, _Reference(str(i), t.shape)) for i, t in enumerate(tensors))
    text = BytesIO()
    Pickler(text, 2).dump({"state_dict": state, **beside})
    return text.getvalue()


def write_diffusers(folder: Path, config: Config, random: Random) -> None:
    """Write a folder in diffusers layout."""
    every = shapes(config)
    for component, (stem, _, name) in FOLDERS.items():
        if component not in config:
            continue
        (folder / component).mkdir(parents=True)
        tensors = [CompVisTensor(n, shape, component, (n,)) for n, shape in every[component].items()]
        write_shards(folder / component, stem, tensors, random)
        is_text = component.startswith("text_encoder")
        said = config[component] if is_text else {"_class_name": name, **config[component]}
        (folder / component / "config.json").write_text(json.dumps(said), "utf-8")
    (folder / "scheduler").mkdir()
    (folder / "scheduler" / "scheduler_config.json").write_text(json.dumps(config["scheduler"]), "utf-8")
    (folder / "model_index.json").write_text(json.dumps(model_index(config)), "utf-8")
    first = PAD_2 if is_second(config) else PAD_1
    for name, pad in {"tokenizer": first, **({"tokenizer_2": PAD_2} if is_xl(config) else {})}.items():
        (folder / name).mkdir()
        for file, read in clip_tokenizer(pad).items():
            (folder / name / file).write_bytes(read())


def model_index(config: Config) -> dict[str, Any]:
    """Return the content of model_index.json."""
    index: dict[str, Any] = {c: [library, name] for c, (_, library, name) in FOLDERS.items() if c in config}
    index |= {"tokenizer": ["transformers", "CLIPTokenizer"]}
    index["scheduler"] = ["diffusers", config["scheduler"]["_class_name"]]
    if not is_xl(config):
        return {"_class_name": "StableDiffusionPipeline", **index, "safety_checker": [None, None]}
    index |= {"tokenizer_2": ["transformers", "CLIPTokenizer"], "force_zeros_for_empty_prompt": True}
    return {"_class_name": "StableDiffusionXLPipeline", **index}


def write_single_file(path: Path, config: Config, random: Random) -> None:
    """Write one .safetensors file, with the prediction type in its metadata."""
    said = {"modelspec.prediction_type": config["scheduler"]["prediction_type"]}
    write_safetensors(path, single_file_tensors(config), random, said)


def write_one_ckpt(path: Path, config: Config, random: Random) -> None:
    """Write one .ckpt file, with the global_step that distinguishes Stable Diffusion 2 base from 2.x."""
    step = 875000 if config["scheduler"]["prediction_type"] == "epsilon" else 140000
    write_ckpt(path, single_file_tensors(config), random, global_step=step)


FORMATS = {"diffusers": write_diffusers, "single-file": write_single_file, "ckpt": write_one_ckpt}


@click.command()
@click.argument("format", type=click.Choice(list(FORMATS)))
@click.argument("out", type=click.Path(path_type=Path, exists=False))
@click.option("--model", type=click.Choice(models()), required=True)
@click.option("--dtype", type=click.Choice(list(SAFETENSORS_DTYPES)), default="float16", show_default=True)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True)
def main(format: str, out: Path, model: str, dtype: str, seed: int) -> None:
    """Write to OUT, a file or a folder, a random checkpoint of one of configs/models/."""
    config = read_config(model)
    if is_xl(config) and format != "diffusers":
        raise click.UsageError(
            f"{model} is written as diffusers alone: single files of it have no random weights here"
        )
    out.parent.mkdir(parents=True, exist_ok=True)
    FORMATS[format](out, config, Random(seed, dtype))


if __name__ == "__main__":
    main()
