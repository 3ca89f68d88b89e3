"""A checkpoint as diffusers saves it: a folder with model_index.json and a folder for each component."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from msd.bundle import ImageDefaults
from msd.conversion.sources.checkpoint import Checkpoint
from msd.conversion.sources.component_weights import StoredTensors, has_weights, stored_tensors
from msd.conversion.sources.lora_alpha import PEFT_CONFIG
from msd.conversion.sources.named_classes import is_null, require_named, with_named_class
from msd.conversion.sources.old_size import with_usual_size
from msd.conversion.sources.other_formats import INSTEAD, format_of_pipeline
from msd.conversion.sources.repainting import PIPELINE, repainted
from msd.conversion.sources.two_names import by_new_names
from msd.errors import BadCheckpoint
from msd.files import bounded, schema
from msd.files.wording import listed
from msd.graph.ir.weights import Weights
from msd.graph.ledger import ComponentPruning
from msd.models.families import Family, Part, by_pipeline
from msd.models.networks import read_configs

INDEX = "model_index.json"
CONFIG = "config.json"
SCHEDULER = "scheduler/scheduler_config.json"
CONTROL = "ControlNet"
"""What the names of pipelines have more whose checkpoints have ControlNets beside the other networks."""

DISTILLATION = "distillation.json"
"""What `msd distill` writes beside a student: `images`, their steps and guidance, and what is `pruned`."""

TOKENIZER_FILES = (
    "vocab.json",
    "merges.txt",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
)
OLD_ATTENTION = {"query": "to_q", "key": "to_k", "value": "to_v", "proj_attn": "to_out.0"}
"""The names in autoencoders saved before diffusers 0.15, and their successors."""

ATTENTION = frozenset({*OLD_ATTENTION, *OLD_ATTENTION.values()})

ADAPTED = ".base_layer."
"""What peft puts into the names of a layer's own weights while an adapter is on it.

Transformers saves the adapter alone, without a config.json.
"""

UNMERGED = (
    "it was saved with a LoRA on its layers, not merged; call unload_lora_weights() of diffusers before"
    " saving, and give the LoRA with --lora"
)


def open_folder(folder: Path, vae_is_given: bool = False) -> Checkpoint:
    """Return the checkpoint in `folder`, of whose weights only the headers are read.

    Where `vae_is_given`, for the caller has another one, the folder may lack its autoencoder.
    Raises BadCheckpoint, which names the file and the remedy, for a checkpoint that is incomplete or damaged,
    or that we cannot build.
    """
    if not folder.is_dir():
        raise BadCheckpoint(f"{folder} is not a folder; a folder with a model_index.json was expected")
    family = family_of(folder)
    parsed = _parsed(folder, family, vae_is_given)
    _refuse_masks(family, parsed)
    denoiser = family.denoiser.part.folder
    parsed[denoiser], sized = with_usual_size(f"{denoiser}/{CONFIG}", parsed[denoiser])
    stored = dict(_stored(folder, family, parsed))
    configs = read_configs(family, parsed, absent={*family.names} - {*stored})
    tokenizers = {name: _tokenizer(folder / name) for name in family.tokenizers}
    distilled = _distillation(folder)
    scheduler, chosen = _scheduler(folder)
    said = (*sized, *chosen, *_controls_beside(folder))
    return Checkpoint(
        kind="diffusers",
        name=folder.absolute().name,
        family=family,
        configs=configs,
        weights={
            c.name: tensors_of(str(folder / c.part.folder), c.part, stored[c.name].tensors)
            for c in family.components
            if c.name in stored
        },
        tokenizers={
            name: {file: partial(_read_file, path) for file, path in paths.items()}
            for name, paths in tokenizers.items()
        },
        scheduler=scheduler,
        images=distilled.images if distilled else None,
        pruned=distilled.pruned if distilled else {},
        files=_files(folder, family, tokenizers.values(), stored),
        weight_files={
            name: tuple(_inside(folder, path) for path in each.files) for name, each in stored.items()
        },
        remarks=(*dict.fromkeys(each.remark for each in stored.values() if each.remark), *said),
    )


def _parsed(folder: Path, family: Family, vae_is_given: bool) -> dict[str, dict[str, Any]]:
    """Return the config.json of each component that is there, by its folder, of the class that is named."""
    decoder, folders = family.decoder.part.folder, family.folders
    index, named_in = read_json(folder, INDEX), f"{folder}/{INDEX}"
    if vae_is_given and (is_null(index, decoder) or not has_weights(folder / decoder)):
        del folders[decoder]
    require_named(named_in, index, (part for part, needed in folders.items() if needed))
    present = [part for part, needed in folders.items() if needed or (folder / part).is_dir()]
    for place in (folder / part for part in present):
        if (place / PEFT_CONFIG).is_file() and not (place / CONFIG).is_file():
            raise BadCheckpoint(f"{place} has {PEFT_CONFIG} and no {CONFIG}: {UNMERGED}")
    return {
        part: with_named_class(named_in, index, part, read_json(folder, f"{part}/{CONFIG}"))
        for part in present
    }


def _controls_beside(folder: Path) -> Iterator[str]:
    """Yield a sentence on the ControlNets in a checkpoint's folder, which an option adds."""
    if own := folders_of(folder, "controlnet"):
        names = listed(each.name for each in own)
        yield f"of {folder}'s {names}, those are converted that are given, as by --controlnet {own[0]}"


def folders_of(checkpoint: Path, component: str) -> list[Path]:
    """Return the folders of a checkpoint's component: diffusers numbers all but the first of several."""
    numbered = re.compile(rf"{component}(_\d+)?")
    return sorted(each for each in checkpoint.iterdir() if each.is_dir() and numbered.fullmatch(each.name))


def _refuse_masks(family: Family, folders: Mapping[str, Mapping[str, Any]]) -> None:
    """Refuse a text encoder that diffusers gives a mask of the padding, which ours does not take.

    Diffusers' pipelines of two encoders, as XL's, give none.
    """
    folder, *others = [encoder.part.folder for encoder in family.text_encoders]
    if (masks := folders[folder].get("use_attention_mask")) and not others:
        raise BadCheckpoint(
            f"{folder}/config.json says use_attention_mask = {masks!r}, but only False is supported"
        )


def _scheduler(folder: Path) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the scheduler's configuration as the pipeline takes it, and a sentence on each change."""
    index = read_json(folder, INDEX)
    config, chosen = _named_scheduler(folder, index)
    if index.get("_class_name") != PIPELINE:
        return config, chosen
    config, replaced = repainted(config)
    return config, (*chosen, *replaced)


def _named_scheduler(folder: Path, index: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the scheduler's configuration, and a sentence where two files name two classes.

    Diffusers makes the class that model_index.json names, with the settings of scheduler_config.json.
    """
    config, entry = read_json(folder, SCHEDULER), index.get("scheduler")
    named = entry[1] if isinstance(entry, list) and len(entry) == 2 else None
    if not isinstance(named, str):
        return config, ()
    own = config.get("_class_name", named)
    remark = f"{INDEX} names the scheduler {named} and {SCHEDULER} {own}: the first counts, as in diffusers"
    return {**config, "_class_name": named}, (remark,) if own != named else ()


def _stored(folder: Path, family: Family, folders: Collection[str]) -> Iterator[tuple[str, StoredTensors]]:
    """Yield the weights of each component, without those optional ones that the `folders` lack."""
    for component in family.components:
        if component.part.folder in folders:
            stored = stored_tensors(folder / component.part.folder, component.part.stem)
            if not component.optional or component.part.is_among(stored.tensors):
                yield component.name, stored


def _files(
    folder: Path,
    family: Family,
    tokenizers: Iterable[Mapping[str, Path]],
    stored: Mapping[str, StoredTensors],
) -> dict[str, Path]:
    """Return every relevant file by its name inside `folder`, in order."""
    configs = {folder / family.component(name).part.folder / "config.json" for name in stored}
    weights = {path for each in stored.values() for path in each.files}
    tokenizer = {path for each in tokenizers for path in each.values()}
    notes = {folder / DISTILLATION} if (folder / DISTILLATION).is_file() else set()
    paths = {folder / INDEX, folder / SCHEDULER, *configs, *tokenizer, *weights, *notes}
    return {_inside(folder, path): path for path in sorted(paths)}


@dataclass(frozen=True)
class DistillationFacts:
    """What distillation.json says that matters to others: of images, and of components that lack units."""

    images: ImageDefaults
    pruned: dict[str, ComponentPruning] = field(default_factory=dict)


def _distillation(folder: Path) -> DistillationFacts | None:
    """Return what a distilled checkpoint says of itself, None for another."""
    if not (folder / DISTILLATION).is_file():
        return None
    try:
        facts = schema.read(DistillationFacts, read_json(folder, DISTILLATION), DISTILLATION)
    except ValueError as problem:
        raise BadCheckpoint(f"{folder / DISTILLATION} is not valid: {problem}") from problem
    assert isinstance(facts, DistillationFacts)
    return facts


def _inside(folder: Path, path: Path) -> str:
    return path.relative_to(folder).as_posix()


def family_of(folder: Path) -> Family:
    """Return the family of the pipeline that model_index.json names; raises BadCheckpoint for another.

    Also for one without a component that no option replaces.
    """
    index = read_json(folder, INDEX)
    known, kind = by_pipeline(), index.get("_class_name")
    if isinstance(kind, str) and kind not in known and kind.replace(CONTROL, "") in known:
        kind = kind.replace(CONTROL, "")
    if not isinstance(kind, str) or kind not in known:
        what = format_of_pipeline(str(kind))
        why = f"which runs {what}; {INSTEAD}" if what else f"and only {', '.join(known)} are supported"
        raise BadCheckpoint(f"{folder}/{INDEX} says the pipeline is {kind!r}, {why}")
    for key, wanted in known[kind].index.items():
        if index.get(key, wanted) != wanted:
            raise BadCheckpoint(
                f"{folder}/{INDEX} says {key} = {index[key]!r}, and only {wanted!r} is supported"
            )
    family = known[kind]
    needed = (part for part, required in family.folders.items() if required)
    parts = [part for part in (*needed, *family.tokenizers) if part != family.decoder.part.folder]
    require_named(f"{folder}/{INDEX}", index, parts)
    return family


def read_json(folder: Path, name: str) -> dict[str, Any]:
    """Return the JSON object in the file `name` of `folder`."""
    try:
        config = bounded.read_json(folder / name)
    except OSError as error:
        raise BadCheckpoint(f"{folder} has no readable {name} ({error.strerror})") from error
    except ValueError as error:
        raise BadCheckpoint(f"{folder / name} is not JSON ({error})") from error
    if not isinstance(config, dict):
        raise BadCheckpoint(f"{folder / name} is not a JSON object")
    return config


def network_in(path: Path, within: str, stem: str) -> tuple[dict[str, Any], StoredTensors, tuple[Path, ...]]:
    """Return settings, tensors and files of a network in a folder that diffusers wrote.

    It is the network's own folder, or a whole checkpoint, which has it in `within`. Raises BadCheckpoint,
    also for a checkpoint that has several.
    """
    some = folders_of(path, within) if (path / INDEX).is_file() else []
    if len(some) > 1:
        raise BadCheckpoint(f"{path} has {listed(each.name for each in some)}; give one of these folders")
    folder = path / within if (path / INDEX).is_file() else path
    settings, stored = read_json(folder, CONFIG), stored_tensors(folder, stem)
    return settings, stored, (folder / CONFIG, *stored.files)


def config_beside(path: Path, part: Part) -> dict[str, Any] | None:
    """Return the config.json beside the file of a component that diffusers named, None where there is none.

    Beside a file of another name, it may be another's. Raises BadCheckpoint for one that cannot be read.
    """
    is_diffusers = path.name.partition(".")[0] == part.stem
    return read_json(path.parent, CONFIG) if is_diffusers and path.with_name(CONFIG).is_file() else None


def tensors_of(where: str, part: Part, weights: Mapping[str, Weights]) -> dict[str, Weights]:
    """Return the tensors of a component by their current names, its attention's as linear layers.

    Versions of transformers differ in the prefix "text_model." and in a buffer; autoencoders in the names of
    their only attention. Raises BadCheckpoint, naming the place `where`, for a tensor under two names with
    two values, and for a network that was saved with a LoRA on its layers.
    """
    if adapted := next((name for name in weights if ADAPTED in name), None):
        raise BadCheckpoint(f"{where} has {adapted}: {UNMERGED}")
    return by_new_names(where, _renamed(part, weights))


def _renamed(part: Part, weights: Mapping[str, Weights]) -> Iterator[tuple[str, str, Weights]]:
    """Yield each tensor's name, its current name, and the tensor."""
    for old, tensor in weights.items():
        name = old.removeprefix("text_model.")
        if name == "embeddings.position_ids" or not name.startswith(part.prefixes or ""):
            continue
        prefix, attention, rest = name.partition(".attentions.0.")
        layer, _, last = rest.rpartition(".")
        if attention and layer in ATTENTION:
            name = f"{prefix}{attention}{OLD_ATTENTION.get(layer, layer)}.{last}"
            if tensor.shape[2:] == (1, 1):
                tensor = tensor.reshape(tensor.shape[:2])
        yield old, name, tensor


def _tokenizer(folder: Path) -> dict[str, Path]:
    """Return the tokenizer's files by name."""
    files = {name: folder / name for name in TOKENIZER_FILES if (folder / name).is_file()}
    if "tokenizer.json" not in files and not {"vocab.json", "merges.txt"} <= files.keys():
        raise BadCheckpoint(f"{folder} has neither vocab.json and merges.txt nor tokenizer.json")
    return files


def _read_file(path: Path) -> bytes:
    try:
        return bounded.read_bytes(path)
    except (OSError, ValueError) as error:
        raise BadCheckpoint(f"{path} cannot be read: {error}") from error
