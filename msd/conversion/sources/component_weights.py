"""The weights in the folder of one component, as diffusers and transformers name their files.

model.safetensors                                   in one file
model.fp16.safetensors                              a variant: whatever stands between the dots
pytorch_model.bin, diffusion_pytorch_model.bin      saved by torch.save
model-00001-of-00002.safetensors                    in shards, listed in model.safetensors.index.json
model.fp16-00001-of-00002.safetensors               in shards of a variant, model.safetensors.index.fp16.json
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msd.conversion.sources.other_formats import INSTEAD, format_of_files
from msd.conversion.sources.weight_file import is_weight_file, read_contents
from msd.errors import BadCheckpoint
from msd.files import bounded
from msd.graph.ir.weights import Weights

STEMS = ("model", "pytorch_model", "diffusion_pytorch_model")
OLD_STEMS = {"model": "pytorch_model"}
"""What transformers called the files that torch saved, by the stem of those of safetensors."""

NAME = re.compile(
    r"(?P<stem>[^.]+?)(\.(?P<before>[^.]+?))?(-(?P<number>\d{5})-of-(?P<count>\d{5}))?"
    r"(\.(?P<after>[^.]+))?\.(?P<suffix>safetensors|bin|pt|pth|ckpt)"
)
INDEX = re.compile(
    r"(?P<stem>[^.]+)(\.(?P<before>[^.]+))?\.(?P<suffix>safetensors|bin)\.index(\.(?P<after>[^.]+))?\.json"
)
SAFE = "safetensors"
BEST = ("", "fp32", "ema", "fp16", "bf16")
"""Variants, the one to be preferred first; others come after them, those without averaging last."""

LAST = "non_ema"
MOST_SHOWN = 8


@dataclass(frozen=True)
class StoredTensors:
    """A component's tensors, the files that contain them, and what there is to say about the choice."""

    tensors: Mapping[str, Weights]
    files: tuple[Path, ...]
    remark: str = ""


@dataclass(frozen=True)
class _Choice:
    """A way to read a folder's weights: an index, all shards, or one file."""

    stem: str
    """What the names of its files begin with."""
    variant: str
    suffix: str
    files: tuple[Path, ...] = ()
    index: Path | None = None

    @property
    def is_usual(self) -> bool:
        """Whether the files are named as diffusers and transformers name them."""
        return self.stem in STEMS

    @property
    def rank(self) -> tuple[Any, ...]:
        """The order of preference: least first."""
        known = BEST.index(self.variant) if self.variant in BEST else len(BEST) + (self.variant == LAST)
        return not self.is_usual, known, self.suffix != SAFE, self.index is not None, self.shown

    @property
    def shown(self) -> str:
        """The name of its first file, or of its index."""
        return (self.index or self.files[0]).name


def stored_tensors(folder: Path, stem: str) -> StoredTensors:
    """Return a component's tensors, in full precision where the folder has several variants.

    Raises BadCheckpoint for a folder without weights, and names what is there.
    """
    choices = _ranked(_choices(folder), stem)
    if not choices:
        raise BadCheckpoint(f"{folder} has no weights; {stem}.safetensors was expected{_but_holds(folder)}")
    best, *others = choices
    if not best.is_usual and others:
        names = ", ".join(choice.shown for choice in choices[:MOST_SHOWN])
        raise BadCheckpoint(f"{folder} holds {names}; one of them should be called {stem}.safetensors")
    tensors = _indexed(best.index) if best.index else _together(best.files)
    files = tensors.files if best.index else best.files
    return StoredTensors(tensors.tensors, files, _remark(folder, best, others))


def has_weights(folder: Path) -> bool:
    """Whether a folder has files with the names of weights."""
    return bool(_choices(folder))


def best_files(names: Iterable[str], stem: str) -> tuple[str, ...]:
    """Return those of a folder's files that `stored_tensors` would read, by the names alone.

    Only the usual names count, and nothing is returned where none of them is there.
    """
    folder, there = Path(), sorted(names)
    choices = _ranked(_named(folder, there, lambda path: False), stem)
    if not choices:
        return ()
    best = choices[0]
    if not best.index:
        return tuple(path.name for path in best.files)
    parts = [(name, NAME.fullmatch(name)) for name in there]
    shards = [
        name
        for name, match in parts
        if match and match["number"] and match["suffix"] == best.suffix
        if (match["stem"], match["before"] or match["after"] or "") == (best.stem, best.variant)
    ]
    return best.index.name, *shards


def _ranked(choices: Iterable[_Choice], stem: str) -> list[_Choice]:
    """Return the choices, best first: those named as the component's library names its own come first."""
    own = (stem, OLD_STEMS.get(stem, stem))
    return sorted(choices, key=lambda choice: (choice.stem not in own, choice.rank))


def _choices(folder: Path) -> list[_Choice]:
    """Return all ways to read the weights in a folder."""
    names = sorted(path.name for path in folder.iterdir() if path.is_file()) if folder.is_dir() else []
    return _named(folder, names, is_weight_file)


def _named(folder: Path, names: Sequence[str], is_other: Callable[[Path], bool]) -> list[_Choice]:
    """Return all ways to read weights in files of a folder; `is_other` tells those with unusual names."""
    shards: dict[tuple[str, str, str, int], dict[int, Path]] = {}
    found: list[_Choice] = []
    for name in names:
        path = folder / name
        if match := INDEX.fullmatch(name):
            variant = match["before"] or match["after"] or ""
            found.append(_Choice(match["stem"], variant, match["suffix"], index=path))
        elif match := NAME.fullmatch(name):
            variant = match["before"] or match["after"] or ""
            if match["number"]:
                key = match["stem"], variant, match["suffix"], int(match["count"])
                shards.setdefault(key, {})[int(match["number"])] = path
            elif match["stem"] in STEMS or is_other(path):
                found.append(_Choice(match["stem"], variant, match["suffix"], (path,)))
    indexed = {(each.stem, each.variant, each.suffix) for each in found if each.index}
    for (stem, variant, suffix, count), files in shards.items():
        if (stem, variant, suffix) not in indexed:
            _require_all(folder, files, count)
            found.append(_Choice(stem, variant, suffix, tuple(files[n] for n in sorted(files))))
    return found


def _require_all(folder: Path, files: Mapping[int, Path], count: int) -> None:
    missing = [n for n in range(1, count + 1) if n not in files]
    if missing or len(files) != count:
        raise BadCheckpoint(
            f"{folder} holds {min(files.values()).name}, but only {len(files)} of {count} such shards"
        )


def _together(files: Iterable[Path]) -> StoredTensors:
    """Return the tensors of all files."""
    tensors: dict[str, Weights] = {}
    for path in files:
        for name, tensor in read_contents(path).tensors.items():
            if name in tensors:
                raise BadCheckpoint(f"{path} has {name}, which another shard has too")
            tensors[name] = tensor
    return StoredTensors(tensors, tuple(files))


def _indexed(index: Path) -> StoredTensors:
    """Return the tensors of several files that `index` lists."""
    weight_map = _read_index(index).get("weight_map")
    if not isinstance(weight_map, dict) or not all(_is_shard(name) for name in weight_map.values()):
        raise BadCheckpoint(f"{index} has no weight_map from tensors to files beside it")
    shards = {name: read_contents(index.parent / name).tensors for name in sorted(set(weight_map.values()))}
    for tensor, name in weight_map.items():
        if tensor not in shards[name]:
            raise BadCheckpoint(f"{index} says that {tensor} is in {name}, but it is not")
        if other := next((shard for shard in shards if shard != name and tensor in shards[shard]), None):
            raise BadCheckpoint(f"{index} says that {tensor} is in {name}, but {other} has one too")
    tensors = {tensor: shards[name][tensor] for tensor, name in weight_map.items()}
    return StoredTensors(tensors, (index, *(index.parent / name for name in shards)))


def _read_index(index: Path) -> dict[str, Any]:
    try:
        parsed = bounded.read_json(index)
    except OSError as error:
        raise BadCheckpoint(f"{index} cannot be read ({error.strerror})") from error
    except ValueError as error:
        raise BadCheckpoint(f"{index} is not JSON ({error})") from error
    return parsed if isinstance(parsed, dict) else {}


def _is_shard(name: Any) -> bool:
    return isinstance(name, str) and name not in ("", ".", "..") and Path(name).name == name


def _remark(folder: Path, best: _Choice, others: Iterable[_Choice]) -> str:
    """Return which of several variants is read, where none of them is the plain one."""
    variants = [other.shown for other in others if other.is_usual and other.variant != best.variant]
    if not best.variant or not variants:
        return ""
    return f"{folder} holds several variants: {best.shown} is read, and {', '.join(variants)} is not"


def _but_holds(folder: Path) -> str:
    """Return what a folder holds instead of weights, as the end of a sentence."""
    if not folder.is_dir():
        return ""
    names = sorted(path.name for path in folder.iterdir() if path.name != "config.json")
    if what := format_of_files(names):
        return f", and it holds {what}; {INSTEAD}"
    more = f" and {len(names) - MOST_SHOWN} more" if len(names) > MOST_SHOWN else ""
    return f", and it holds {', '.join(names[:MOST_SHOWN])}{more}" if names else ""
