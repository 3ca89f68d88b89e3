"""What an adapter changes: each layer's weight and bias, once its tensors are known to fit them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from msd.conversion.sources.checkpoint import Checkpoint
from msd.conversion.sources.lora_alpha import Alphas
from msd.conversion.sources.lora_change import ADDED, BIASES, LORA, Kind, axis_of_lengths, rescaled
from msd.conversion.sources.lora_file import AdapterFile, AdapterTensor
from msd.conversion.sources.lora_names import Layer, layer_names
from msd.errors import BadCheckpoint
from msd.graph.ir.weights import Array, Weights

CONTEXT = (".attn2.to_k", ".attn2.to_v")
"""Layers that read the text encoder's output."""

OF_NORMS = {"diff", "diff_b", "w_norm", "b_norm"}
NUMBERS = ("alpha", "on_input")
"""The parts that are one number, of any dtype."""


@dataclass(frozen=True)
class Factor:
    """The factor of a kind's change, besides the scale: `alpha` / `divisor`."""

    alpha: AdapterTensor | float
    divisor: float

    def load(self) -> float:
        """Return its value."""
        alpha = self.alpha if isinstance(self.alpha, float) else float(self.alpha.load().item())
        return alpha / self.divisor


@dataclass(frozen=True)
class LayerChange:
    """A file's change of one layer, by the tensors that are its `parts`."""

    parts: Mapping[str, AdapterTensor]
    kinds: tuple[tuple[Kind, Factor], ...]

    @property
    def adds_nothing(self) -> bool:
        """Whether all its factors are 0; reads the alphas that are tensors."""
        return bool(self.kinds) and all(factor.load() == 0 for _, factor in self.kinds)

    @property
    def is_zero(self) -> bool:
        """Whether it changes no number, whatever the scale; reads its tensors."""
        if {"dora_scale", "magnitude"} & {*self.parts}:
            return False
        own = [self.parts[name] for name in (*BIASES, "scales") if name in self.parts]
        with np.errstate(over="ignore", invalid="ignore"):
            return self.adds_nothing or not (
                any(kind.delta(self._loaded(kind)).any() for kind, _ in self.kinds)
                or any(tensor.load().any() for tensor in own)
            )

    @property
    def _first(self) -> AdapterTensor:
        return next(iter(self.parts.values()))

    def weight(self, weights: Weights, scale: float) -> Weights:
        """Return a layer's weight with the change, `scale` times; raises BadCheckpoint when it is loaded."""
        if not self.kinds and "scales" not in self.parts:
            return weights
        return self._mapped(weights, scale, lambda array: self._changed(array, scale))

    def bias(self, weights: Weights, scale: float) -> Weights:
        """Return a layer's bias with the change."""
        added = [name for name in BIASES if name in self.parts]
        factors = {kind.title: factor for kind, factor in self.kinds}

        def add(array: Array) -> Array:
            total = array
            for name in added:
                factor = factors[LORA.title].load() if name == "up_bias" else 1.0
                total = total + np.float32(scale * factor) * self.parts[name].load().reshape(array.shape)
            return total

        return self._mapped(weights, scale, add) if added else weights

    @property
    def changes_bias(self) -> bool:
        """Whether there is a change of the layer's bias."""
        return any(name in self.parts for name in BIASES)

    def _mapped(self, weights: Weights, scale: float, change: Callable[[Array], Array]) -> Weights:
        path = self._first.path

        def checked(array: Array) -> Array:
            with np.errstate(over="ignore", invalid="ignore"):
                changed = change(array)
            if not np.isfinite(changed).all() and np.isfinite(array).all():
                raise BadCheckpoint(f"{path} at scale {scale:g} takes weights beyond float32")
            return changed

        return weights.map(f"+ {scale:g} x {path.name}:{self._first.key}", checked)

    def _changed(self, array: Array, scale: float) -> Array:
        if "dora_scale" in self.parts:
            # As AUTOMATIC1111 and ComfyUI scale it: the whole change, rescaling included.
            lengths = self.parts["dora_scale"].load()
            axis = axis_of_lengths(array.shape, lengths.shape) or 0
            whole = rescaled(self._added(array, 1.0), lengths, axis)
            scaled: Array = array + np.float32(scale) * (whole - array)
            return scaled
        changed = self._added(array, scale)
        if "magnitude" in self.parts:
            # As peft scales it: before the rescaling, which is always of rows.
            return rescaled(changed, self.parts["magnitude"].load(), 0)
        if "scales" in self.parts:
            changed = changed + np.float32(scale) * array * self._scales(array)
        return changed

    def _added(self, array: Array, scale: float) -> Array:
        """Return the array plus `scale` times what the kinds add."""
        total = array
        for kind, factor in self.kinds:
            change = kind.delta(self._loaded(kind))
            change = change * np.float32(scale * factor.load())
            total = change.reshape(array.shape) + total
        return total

    def _loaded(self, kind: Kind) -> dict[str, Array]:
        """Return the tensors of a kind's change of the weight."""
        return {n: t.load() for n, t in self.parts.items() if n in kind.parts and n not in BIASES}

    def _scales(self, array: Array) -> Array:
        """Return the numbers of (IA)^3, for rows or columns."""
        axis = 1 if self.parts["on_input"].load().item() else 0
        shape = tuple(array.shape[axis] if n == axis else 1 for n in range(array.ndim))
        return self.parts["scales"].load().reshape(shape)


def layer_changes(checkpoint: Checkpoint, file: AdapterFile) -> Iterator[tuple[Layer, LayerChange]]:
    """Yield each layer that the file changes, with the change; refuse one that does not fit the layer."""
    alphas = Alphas(file.path, file.metadata)
    for layer, parts in _by_layer(checkpoint, file).items():
        weights = checkpoint.weights[layer.component]
        weight, bias = weights[f"{layer.name}.weight"], weights.get(f"{layer.name}.bias")
        alphas.require_added(layer)
        kinds = _kinds(file, parts)
        for kind in kinds:
            _require_fit(kind, layer, weight, parts)
        _require_others_fit(layer, weight, bias, parts, kinds)
        if alphas.is_dora(layer) and "magnitude" not in parts:
            raise BadCheckpoint(f"{file.path} says use_dora, but has no magnitude for {layer.name}")
        yield layer, LayerChange(parts, tuple((kind, _factor(kind, layer, parts, alphas)) for kind in kinds))


def _by_layer(checkpoint: Checkpoint, file: AdapterFile) -> dict[Layer, dict[str, AdapterTensor]]:
    """Return the file's tensors by layer, then by part."""
    names = layer_names(checkpoint)
    found: dict[Layer, dict[str, AdapterTensor]] = {}
    for key, part in file.parts.items():
        layer = names.get(part.layer)
        if layer is None or (_is_norm(checkpoint, layer) and part.part not in OF_NORMS):
            raise _unknown(file, key, part.layer, any(each.layer in names for each in file.parts.values()))
        parts = found.setdefault(layer, {})
        if part.part in parts:
            raise BadCheckpoint(f"{file.path} has both {parts[part.part].key} and {key}, which are the same")
        parts[part.part] = _usable(file.tensors[key], part.part)
    return found


def _unknown(file: AdapterFile, key: str, layer: str, knows_others: bool) -> BadCheckpoint:
    why = "the LoRA is for another model"
    if not knows_others:
        why = (
            "nor any other of the file's: it is for another model, or names layers in a way that is not known"
        )
    return BadCheckpoint(f"{file.path} has {key}, but this checkpoint has no layer {layer}; {why}")


def _is_norm(checkpoint: Checkpoint, layer: Layer) -> bool:
    return len(checkpoint.weights[layer.component][f"{layer.name}.weight"].shape) == 1


def _usable(tensor: AdapterTensor, part: str) -> AdapterTensor:
    """Return the tensor; refuse an alpha that is not one number, and a matrix that is not floating point."""
    if part in NUMBERS and tensor.weights.size != 1:
        raise tensor.bad("and one number was expected")
    if part not in NUMBERS and tensor.weights.dtype != np.float32:
        raise BadCheckpoint(
            f"{tensor.path}'s {tensor.key} is {tensor.weights.dtype}, and only floating point is supported"
        )
    return tensor


def _kinds(file: AdapterFile, parts: Mapping[str, AdapterTensor]) -> list[Kind]:
    """Return the kinds that a layer's parts are of; refuse a kind that lacks some."""
    kinds = [kind for kind in ADDED if kind.needed & {*parts}]
    if not kinds and not {"scales", "on_input", *BIASES[1:]} & {*parts}:
        kinds = [LORA]
    for kind in kinds:
        if missing := kind.lacking(parts):
            key = _typical(kind, parts).key
            end = " matrix" if kind is LORA else f", as a {kind.title} has"
            raise BadCheckpoint(
                f"{file.path} has {key}, but no {' and no '.join(missing)}{end} for this layer"
            )
    alone = {"dora_scale", "magnitude", "scales"} & {*parts}
    if alone and len(kinds) + ("scales" in parts) != 1:
        raise BadCheckpoint(
            f"{file.path} has {parts[min(alone)].key} for a layer that it changes in several ways; one was"
            " expected"
        )
    return kinds


def _typical(kind: Kind, parts: Mapping[str, AdapterTensor]) -> AdapterTensor:
    """Return a tensor by which a kind is known, or else any."""
    return next((tensor for name, tensor in parts.items() if name in kind.needed), next(iter(parts.values())))


def _factor(kind: Kind, layer: Layer, parts: Mapping[str, AdapterTensor], alphas: Alphas) -> Factor:
    """Return alpha and its divisor; each equals the rank where a file says nothing."""
    if "alpha" not in kind.may_have or "diff" in kind.parts:
        return Factor(1.0, 1.0)
    rank = kind.rank({name: tensor.shape for name, tensor in parts.items()})
    stated = alphas.alpha(layer)
    if rank is None:  # of matrices that are whole, LyCORIS takes no alpha, and peft that of its configuration
        configured = alphas.rank(layer)
        is_of_peft = configured is not None and stated is not None
        return Factor(float(stated or 1), float(configured or 1)) if is_of_peft else Factor(1.0, 1.0)
    alpha = parts.get("alpha") or float(rank if stated is None else stated)
    return Factor(alpha, alphas.divisor(layer, rank))


def _require_fit(kind: Kind, layer: Layer, weights: Weights, parts: Mapping[str, AdapterTensor]) -> None:
    """Refuse a change with another shape than the layer's weight, (out, in) or (out, in, height, width)."""
    if kind is LORA and "mid" not in parts:
        _require_lora_fits(layer, weights, parts["down"], parts["up"])
        return
    shapes = {name: tensor.shape for name, tensor in parts.items() if name in kind.parts}
    found, expected = kind.shape(shapes), _plain(weights.shape)
    flat = (expected[0], math.prod(expected[1:]))
    if found is None or _plain(found) not in (expected, flat):
        tensor = _typical(kind, parts)
        what = "whose shapes do not fit each other" if found is None else f"which is {list(found)}"
        raise BadCheckpoint(
            f"{tensor.path} has {tensor.key} of a {kind.title}, {what}, for {_where(layer, weights)}; the"
            " LoRA is for another model"
        )


def _require_lora_fits(layer: Layer, weights: Weights, down: AdapterTensor, up: AdapterTensor) -> None:
    where = _where(layer, weights)
    expected, actual = _plain(weights.shape), _plain(down.shape)
    if len(actual) < 2 or len(up.shape) < 2 or 0 in actual:
        raise (up if len(up.shape) < 2 else down).bad("and (rank, in) and (out, rank) were expected")
    if actual[1:] != expected[1:] and layer.name.endswith(CONTEXT) and len(actual) == 2:
        raise down.bad(
            f"made for contexts {actual[1]} wide, and this checkpoint's are {expected[1]} wide: "
            "the LoRA is for another model"
        )
    if actual[1:] != expected[1:]:
        raise down.bad(f"which does not fit {where}; the LoRA is for another model")
    if up.shape[0] != expected[0] or len(_plain(up.shape)) != 2:
        raise up.bad(f"which does not fit {where}; the LoRA is for another model")
    if up.shape[1] != actual[0]:
        raise up.bad(f"but {down.key} has the rank {actual[0]}")


def _require_others_fit(
    layer: Layer,
    weights: Weights,
    bias: Weights | None,
    parts: Mapping[str, AdapterTensor],
    kinds: list[Kind],
) -> None:
    """Refuse lengths, scales and biases that do not fit the layer."""
    where = _where(layer, weights)
    lengths, magnitude = parts.get("dora_scale"), parts.get("magnitude")
    if lengths and (not lengths.shape or axis_of_lengths(weights.shape, lengths.shape) is None):
        raise lengths.bad(f"which are not the lengths of the rows or columns of {where}")
    if magnitude and magnitude.weights.size != weights.shape[0]:
        raise magnitude.bad(f"which are not the lengths of the rows of {where}")
    if "scales" in parts:
        if "on_input" not in parts or parts["scales"].weights.size not in weights.shape[:2]:
            raise parts["scales"].bad(f"which are not scales of the rows or columns of {where}")
    elif "on_input" in parts:
        raise BadCheckpoint(
            f"{parts['on_input'].path} has {parts['on_input'].key}, but no scales for this layer"
        )
    for name in BIASES:
        if name in parts and bias is None:
            raise BadCheckpoint(
                f"{parts[name].path} has {parts[name].key}, but {layer.component}'s {layer.name} has no bias"
            )
        if name in parts and bias is not None and parts[name].weights.size != bias.size:
            raise parts[name].bad(f"which does not fit the bias of {where}")


def _where(layer: Layer, weights: Weights) -> str:
    return f"{layer.component}'s {layer.name}.weight, which is {list(weights.shape)}"


def _plain(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape of a 1x1 convolution as that of a linear layer, and others unchanged."""
    return shape[:2] if shape[2:] == (1, 1) else shape
