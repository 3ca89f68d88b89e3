"""Every reader and every form that its file may have: the right numbers, or a sentence that names it."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from msd.conversion.sources.binding import bind
from msd.conversion.sources.diffusers import open_folder
from msd.conversion.sources.embedding import TABLE, add
from msd.conversion.sources.formats import open_checkpoint
from msd.conversion.sources.lora import merge
from msd.conversion.sources.vae import add_preview, replace_vae
from msd.errors import MsdError
from msd.graph.ir.weights import Weights
from msd.models.structure import VariableSpec
from msd.models.structure_cache import structure_of
from tests import checkpoints, single_files, tiny_autoencoders
from tests.stable_diffusion import networks_of
from tests.tiny_autoencoders import SHALLOW

Tensors = dict[str, torch.Tensor]
Numbers = dict[str, np.ndarray]
FORMATS = ("safetensors", "torch", "torch before 1.6")
SUFFIXES = ("safetensors", "bin", "ckpt", "pt", "pth")
FLOATS = (torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2)
DAMAGE = ("cut", "without a tensor", "of another shape", "of integers", "not finite", "empty", "a web page")
LAYER = "up_blocks.1.attentions.0.transformer_blocks.0.attn1.to_out.0"
KOHYA = f"lora_unet_{LAYER.replace('.', '_')}"
TOKEN = "<cat>"


@dataclass(frozen=True)
class Form:
    """The form of a file: its format, what its name ends in, its dtype, what its tensors are inside of."""

    format: str
    suffix: str
    dtype: torch.dtype
    inside: str
    prefix: str
    damage: str

    def narrow(self, tensors: Mapping[str, torch.Tensor]) -> Tensors:
        """Return the tensors in the dtype of the file."""
        return {name: tensor.detach().to(self.dtype) for name, tensor in tensors.items()}

    def write(self, stem: Path, tensors: Tensors) -> Path:
        """Write tensors, which are narrow, in this form; returns the path."""
        path = stem.with_name(f"{stem.name}.{self.suffix}")
        stored = {f"{self.prefix}{name}": tensor.clone() for name, tensor in tensors.items()}
        self._spoil(stored, max(stored, key=lambda name: (stored[name].ndim > 1, name)))
        if self.format == "safetensors":
            save_file(stored, path)
        else:
            value: Any = {self.inside: stored, "epoch": 3} if self.inside else stored
            torch.save(value, path, _use_new_zipfile_serialization=self.format == "torch")
        if self.damage in ("cut", "empty"):
            os.truncate(path, path.stat().st_size * 2 // 3 if self.damage == "cut" else 0)
        elif self.damage == "a web page":
            path.write_bytes(b"<html><body>Log in</body></html>")
        return path

    def _spoil(self, tensors: Tensors, name: str) -> None:
        if self.damage == "without a tensor":
            del tensors[name]
        elif self.damage == "of another shape":
            tensors[name] = tensors[name][..., :-1].clone()
        elif self.damage == "of integers":
            tensors[name] = tensors[name].float().to(torch.int32)
        elif self.damage == "not finite":
            tensors[name] = torch.full_like(tensors[name].float(), torch.nan).to(self.dtype)


forms = st.builds(
    Form,
    format=st.sampled_from(FORMATS),
    suffix=st.sampled_from(SUFFIXES),
    dtype=st.sampled_from(FLOATS),
    inside=st.sampled_from(("", "", "state_dict", "model")),
    prefix=st.sampled_from(("", "", "module.", "_orig_mod.")),
    damage=st.sampled_from(("",) * len(DAMAGE) + DAMAGE),
)


class Sources:
    """Checkpoints in each layout, and the tensors of files that change one."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "tiny"
        self.modules = checkpoints.write(self.folder, checkpoints.TINY)
        self.checkpoint = open_folder(self.folder)
        single = single_files.write(folder / "one.safetensors", single_files.FIRST)
        self.single, self.opened = load_file(single), open_checkpoint(single)
        vae = tiny_autoencoders.make(**SHALLOW)
        self.taesd = tiny_autoencoders.original(vae, "decoder")
        self.states = {name: dict(module.state_dict()) for name, module in self.modules.items()}
        self.variables = cache(self._variables)

    def _variables(self, component: str) -> Mapping[str, VariableSpec]:
        return structure_of(networks_of(self.checkpoint)[component]).variables

    def bound(self, component: str, weights: Mapping[str, Weights]) -> Numbers:
        """Return weights as a conversion takes them: it refuses those that the network does not have."""
        for each in bind(f"{component} of x", self.variables(component), weights).weights.values():
            each.load()
        return loaded(weights)


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Sources:
    return Sources(tmp_path_factory.mktemp("sources"))


def loaded(weights: Mapping[str, Weights]) -> Numbers:
    return {name: each.load() for name, each in weights.items()}


def floats(tensors: Mapping[str, torch.Tensor]) -> Numbers:
    return {name: tensor.detach().float().numpy() for name, tensor in tensors.items()}


def component(name: str, stem: str) -> Callable[[Sources, Form, Path], tuple[Numbers, Numbers]]:
    """Return the reader of the weights in a component's folder."""

    def read(sources: Sources, form: Form, place: Path) -> tuple[Numbers, Numbers]:
        narrow = form.narrow(sources.states[name])
        folder = place / "x"
        (folder / name).mkdir(parents=True)
        for each in (*sources.folder.iterdir(), sources.folder / name / "config.json"):
            if each.name != name:
                (folder / each.relative_to(sources.folder)).symlink_to(each)
        form.write(folder / name / stem, narrow)
        found: Numbers = {}
        for each, weights in open_folder(folder).weights.items():
            if each.startswith(name):
                found |= sources.bound(each, weights)
        return found, {key.removeprefix("text_model."): array for key, array in floats(narrow).items()}

    return read


def single_file(sources: Sources, form: Form, place: Path) -> tuple[Numbers, Numbers]:
    """Read a checkpoint in one file; its tensors are those of the plain file, narrower."""
    narrow = form.narrow(sources.single)
    found = open_checkpoint(form.write(place / "x", narrow))
    plain = {name: narrow[weights.history.partition(":")[2].partition(" ")[0]] for _, name, weights in (
        (c, n, w) for c, each in sources.opened.weights.items() for n, w in each.items()
    )}  # fmt: skip
    for name, weights in sources.opened.weights.items():
        for key, each in weights.items():  # what binding to the network's variables refuses
            if key not in found.weights[name] or found.weights[name][key].shape != each.shape:
                raise MsdError(f"x is refused by the conversion, for {key}")
    numbers = {n: a for each in found.weights.values() for n, a in loaded(each).items()}
    if not all(np.isfinite(array).all() and array.dtype == np.float32 for array in numbers.values()):
        raise MsdError("x is refused by the conversion, for its values are not finite")
    return numbers, floats(plain)


def autoencoder(sources: Sources, form: Form, place: Path) -> tuple[Numbers, Numbers]:
    """Read an autoencoder in a file."""
    narrow = form.narrow(sources.states["vae"])
    found = replace_vae(sources.checkpoint, [form.write(place / "x", narrow)])
    halves = (sources.bound(name, found.weights[name]) for name in ("vae_encoder", "vae_decoder"))
    return {name: array for half in halves for name, array in half.items()}, floats(narrow)


def preview(sources: Sources, form: Form, place: Path) -> tuple[Numbers, Numbers]:
    """Read a tiny decoder in a file of its author's."""
    narrow = form.narrow(sources.taesd)
    found = add_preview(sources.checkpoint, form.write(place / "x", narrow))
    network = networks_of(found)["preview_decoder"]
    weights = found.weights["preview_decoder"]
    for each in bind("preview_decoder of x", structure_of(network).variables, weights).weights.values():
        each.load()
    wanted = {}
    for name, array in floats(narrow).items():
        number, _, rest = name.partition(".")
        wanted[f"decoder.layers.{int(number) - 1}.{rest}"] = array
    return loaded(weights), wanted


def lora(sources: Sources, form: Form, place: Path) -> tuple[Numbers, Numbers]:
    """Merge a LoRA."""
    random = torch.Generator().manual_seed(2)
    draw = {"lora_down.weight": (2, 16), "lora_up.weight": (16, 2)}
    narrow = form.narrow({f"{KOHYA}.{n}": torch.randn(s, generator=random) for n, s in draw.items()})
    found = merge(sources.checkpoint, [(form.write(place / "x", narrow), 0.5)])
    weight = sources.states["unet"][f"{LAYER}.weight"].double()
    down, up = (narrow[f"{KOHYA}.{name}"].double() for name in draw)
    return {"w": found.weights["unet"][f"{LAYER}.weight"].load()}, {"w": (weight + 0.5 * up @ down).numpy()}


def embedding(sources: Sources, form: Form, place: Path) -> tuple[Numbers, Numbers]:
    """Add a textual inversion."""
    narrow = form.narrow({TOKEN: torch.randn(3, 48, generator=torch.Generator().manual_seed(2))})
    found = add(sources.checkpoint, [(form.write(place / "x", narrow), "<mine>")])
    assert [*found.embeddings.values()] == [("<mine>", "<mine>_1", "<mine>_2")]
    table = found.weights["text_encoder"][TABLE].load()
    return {"w": table[516:]}, {"w": narrow[TOKEN].float().numpy()}


READERS: dict[str, Callable[[Sources, Form, Path], tuple[Numbers, Numbers]]] = {
    "text encoder": component("text_encoder", "model"),
    "U-Net": component("unet", "diffusion_pytorch_model"),
    "VAE": component("vae", "diffusion_pytorch_model"),
    "single file": single_file,
    "autoencoder": autoencoder,
    "preview": preview,
    "LoRA": lora,
    "embedding": embedding,
}


def read(name: str, sources: Sources, form: Form, place: Path) -> tuple[Numbers, Numbers] | str:
    """Return the numbers that are read and those that are wanted, or the sentence of a refusal."""
    try:
        return READERS[name](sources, form, place)
    except MsdError as error:
        return str(error)


def require_right(name: str, sources: Sources, form: Form, place: Path) -> None:
    """Require the right numbers, or of a damaged file a sentence."""
    answer = read(name, sources, form, place)
    if isinstance(answer, str):
        assert form.damage, answer
        assert re.search(r"\bx\b", answer)
        assert len(answer.splitlines()) == 1
        return
    found, wanted = answer
    assert not form.damage, form
    assert found
    for key, array in found.items():
        assert array.dtype == np.float32
        np.testing.assert_allclose(array, wanted[key].reshape(array.shape), rtol=1e-6, atol=1e-6, err_msg=key)


@pytest.mark.parametrize("name", READERS)
@given(data=st.data())
@settings(
    max_examples=25,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_the_right_numbers_or_a_sentence(
    name: str, data: st.DataObject, sources: Sources, tmp_path_factory: pytest.TempPathFactory
) -> None:
    require_right(name, sources, data.draw(forms), tmp_path_factory.mktemp("reader"))


@pytest.mark.parametrize("damage", ["", *DAMAGE])
@pytest.mark.parametrize("name", READERS)
def test_each_damage_once(name: str, damage: str, sources: Sources, tmp_path: Path) -> None:
    form = Form("torch", "safetensors", torch.float16, "state_dict", "", damage)
    require_right(name, sources, form, tmp_path)
