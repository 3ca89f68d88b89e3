"""A checkpoint of torch.save as lazy tensors.

The format is a zip file. In its data.pkl each tensor is a call on a storage
(msd/conversion/sources/pickled/tensor.py); each storage is an entry data/<key> (torch/serialization.py,
torch/csrc/jit/docs/serialization.md).
"""

from __future__ import annotations

from functools import cache, partial
from pathlib import Path

from msd.conversion.sources.pickled.archive import open_archive
from msd.conversion.sources.pickled.legacy import is_legacy, open_legacy
from msd.conversion.sources.pickled.machine import BadPickle, describe
from msd.conversion.sources.pickled.saved import DICTIONARY, Keys, Saved, flattened
from msd.conversion.sources.pickled.tensor import Storage
from msd.conversion.sources.stored import Contents, first_bytes

MOST_TENSORS = 50_000
"""A Stable Diffusion checkpoint with EMA weights has some 2,000."""

TENSORS_IN = ("state_dict", "string_to_param")
"""The dictionaries whose tensors are those of the file, whatever is beside them."""

TENSORS_ALSO_IN = ("model_state_dict", "model", "params_ema", "params", "module", "ema")
"""Those of files that have no tensors beside them."""

OF_IP_ADAPTERS = ("image_proj", "ip_adapter")
"""The dictionaries of an IP-Adapter, which tell what it is."""

METADATA = {"global_step": int, "name": str}
"""The values beside the tensors that are read, with their type."""


def read_contents(path: Path) -> Contents:
    """Return the contents of a file of torch.save, with all float tensors as float32.

    The tensors are those of its "state_dict" or, in a textual inversion, "string_to_param", if it has one;
    the metadata is its "global_step" and "name". Reads only the pickle; each `load()` opens the file and
    reads one tensor. Raises BadCheckpoint for a file that is damaged, or whose pickle names anything that no
    checkpoint needs.
    """
    saved = open_saved(path)
    place = _place(saved)
    if saved.kinds[place] != DICTIONARY:
        what = place[0] if place else "top level"
        raise saved.wrong(f"its {what} is {saved.kinds[place]}, not a dictionary of tensors")
    found = saved.below(place) or {
        f"{part}.{name}": keys for part in OF_IP_ADAPTERS for name, keys in saved.below((part,)).items()
    }
    if len(found) > MOST_TENSORS:
        raise saved.file.wrong(f"it has {len(found)} tensors, and at most {MOST_TENSORS} are read")
    tensors = {name: saved.weights(keys) for name, keys in found.items()}
    beside = {name: saved.values.get((name,)) for name in METADATA}
    metadata = {name: str(value) for name, value in beside.items() if type(value) is METADATA[name]}
    return Contents(tensors, metadata)


def open_saved(path: Path) -> Saved:
    """Return all that a file of torch.save holds; reads only the pickle. Raises BadCheckpoint."""
    if is_legacy(first_bytes(path)):
        return open_legacy(path)
    archive = open_archive(path)
    if "byteorder" in archive.entries and archive.read("byteorder") != b"little":
        raise archive.file.wrong("its numbers are big-endian, and only little-endian ones are supported")
    try:
        described = describe(archive.read("data.pkl"))
    except BadPickle as error:
        raise archive.file.wrong(f"of its data.pkl, {error}") from error
    check = cache(archive.check)

    def storage(key: str) -> Storage:
        entry = archive.entry(f"data/{key}")
        return Storage(entry.name, entry.begin, entry.size, partial(check, entry))

    return flattened(archive.file, storage, described.value)


def _place(saved: Saved) -> Keys:
    """Return the keys of the dictionary whose tensors are those of the file."""
    for name in TENSORS_IN:
        if (name,) in saved.kinds:
            return (name,)
    if saved.below(()):
        return ()
    return next(((name,) for name in TENSORS_ALSO_IN if saved.below((name,))), ())
