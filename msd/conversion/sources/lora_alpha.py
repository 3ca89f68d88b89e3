"""The alphas of a LoRA, which diffusers stores in the file's metadata, and peft in a file beside it.

`lora_adapter_metadata` is peft's LoraConfig as JSON, each key after the component's name and a dot;
adapter_config.json, beside adapter_model.safetensors, has the keys alone. The layer's change is multiplied
by alpha / rank (Hu et al., arXiv:2106.09685) or, if `use_rslora`, alpha / √rank (Kalajdzievski,
arXiv:2312.03732).
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msd.conversion.sources.lora_names import Layer
from msd.errors import BadCheckpoint
from msd.files import bounded

METADATA = "lora_adapter_metadata"
PEFT_STEM, PEFT_CONFIG = "adapter_model", "adapter_config.json"
MERGED = ("LORA", "LOHA", "LOKR")
"""The kinds, by `peft_type`, whose numbers are added to a weight."""

OF_MOVED_WEIGHTS = ("pissa", "corda", "olora", "loftq", "lora_ga")
"""The values of `init_lora_weights` with which peft takes away from the weights what the adapter begins with.

What it saves then is not to be added to a checkpoint, unless it was converted, after which the value is true.
"""

MOST_PATTERNS = 5000
"""Ten for each layer of a U-Net; each layer is compared with all of them."""


def peft_config(path: Path) -> Path | None:
    """Return the file beside `path` that has the alphas, if `path` is peft's file and has none by itself."""
    config = path.with_name(PEFT_CONFIG)
    return config if path.stem == PEFT_STEM and config.is_file() else None


class Alphas:
    """The alphas of one file."""

    def __init__(self, path: Path, metadata: Mapping[str, str]) -> None:
        """Parse the metadata of the file at `path`, or peft's own; raises BadCheckpoint if it is invalid."""
        self._invalid, self._place = f"{path} has an invalid {METADATA}", f"{METADATA} of {path}"
        config = peft_config(path)
        if config and METADATA not in metadata:
            self._place = str(config)
            self._invalid = f"{config} is no configuration of a LoRA"
            self._config = self._parse(self._text(config))
        else:
            self._config = self._parse(metadata.get(METADATA, "{}"))

    def alpha(self, layer: Layer) -> float | None:
        """Return the layer's alpha, None if the file has none: then it equals the rank."""
        patterns = self._get(layer, "alpha_pattern", dict, {})
        if len(patterns) > MOST_PATTERNS:
            raise self._bad(
                f"alpha_pattern has {len(patterns)} entries, and at most {MOST_PATTERNS} are read"
            )
        for pattern, alpha in patterns.items():
            if self._matches(pattern, layer.name):
                return self._number(f"alpha_pattern for {pattern}", alpha)
        for key in ("lora_alpha", "alpha"):
            if (alpha := self._get(layer, key, float, None)) is not None:
                return self._number(key, alpha)
        return None

    def rank(self, layer: Layer) -> int | None:
        """Return the rank that peft's configuration has for a layer, None without one."""
        for pattern, rank in self._get(layer, "rank_pattern", dict, {}).items():
            if self._matches(pattern, layer.name):
                return self._whole(f"rank_pattern for {pattern}", rank)
        rank = self._get(layer, "r", int, None)
        return None if rank is None else self._whole("r", rank)

    def is_dora(self, layer: Layer) -> bool:
        """Whether the weights of the layer are rescaled."""
        return bool(self._get(layer, "use_dora", bool, False))

    def require_added(self, layer: Layer) -> None:
        """Raise BadCheckpoint where the configuration says that the file is not to be added to weights."""
        if (kind := self._get(layer, "peft_type", str, MERGED[0])) not in MERGED:
            raise self._unmerged("peft_type", kind, f"only {', '.join(MERGED)} are merged")
        begun = str(self._get(layer, "init_lora_weights", object, True))
        if begun.lower().startswith(OF_MOVED_WEIGHTS):
            raise self._unmerged(
                "init_lora_weights",
                begun,
                "with that peft changes the checkpoint's weights too; only what save_pretrained writes with"
                " path_initial_model_for_weight_conversion is merged",
            )
        if tokens := self._get(layer, "alora_invocation_tokens", object, None):
            raise self._unmerged("alora_invocation_tokens", tokens, "only a LoRA of all tokens is merged")

    def divisor(self, layer: Layer, rank: int) -> float:
        """Return the divisor of alpha for a layer of this `rank`."""
        return math.sqrt(rank) if self._get(layer, "use_rslora", bool, False) else rank

    def _get(self, layer: Layer, key: str, kind: type, default: Any) -> Any:
        """Return the value of `key` for the layer's component, or for a file's only component."""
        value = self._config.get(f"{layer.component}.{key}", self._config.get(key))
        if kind is float and type(value) is int:
            value = float(value)
        if value is not None and not isinstance(value, kind):
            raise self._bad(f"{key} is {value!r}, not a {kind.__name__}")
        return default if value is None else value

    def _matches(self, pattern: str, name: str) -> bool:
        """Return whether `pattern` is `name` or, unless it starts with ^, a suffix of it, as in peft."""
        if not re.fullmatch(r"\^?[\w.]+", pattern):
            raise self._bad(
                f"alpha_pattern has the regular expression {pattern!r}; only names of layers are supported"
            )
        suffix = pattern.removeprefix("^").removeprefix("text_model.")
        return name == suffix or (pattern[0] != "^" and name.endswith(f".{suffix}"))

    def _number(self, what: str, value: Any) -> float:
        if type(value) not in (int, float) or not math.isfinite(value):
            raise self._bad(f"{what} is {value!r}, not a finite number")
        return float(value)

    def _whole(self, what: str, value: Any) -> int:
        if type(value) is not int or value < 1:
            raise self._bad(f"{what} is {value!r}, not a whole number from 1")
        return value

    def _text(self, config: Path) -> str:
        try:
            return bounded.read_text(config)
        except (OSError, ValueError) as error:
            raise self._bad(f"it cannot be read: {error}") from error

    def _parse(self, text: str) -> Mapping[str, Any]:
        try:
            config = bounded.parse_json(text)
        except ValueError as error:
            raise self._bad(f"it is not JSON: {error}") from error
        if not isinstance(config, dict):
            raise self._bad("it is not a JSON object")
        return config

    def _unmerged(self, key: str, value: Any, right: str) -> BadCheckpoint:
        return BadCheckpoint(f"{self._place} says {key} = {value!r}, but {right}")

    def _bad(self, what: str) -> BadCheckpoint:
        return BadCheckpoint(f"{self._invalid}: {what}")
