"""The settings of a conversion."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from msd.bundle import ImageSize
from msd.compress.calibration.generated_inputs import Calibration
from msd.compress.encoding.recipe import DEFAULT, Recipe, find_recipe
from msd.compress.pruning.settings import Pruning, parse_pruning
from msd.conversion.client_interface import ClientInterface
from msd.errors import BadConfig
from msd.files.wording import listed
from msd.graph.rewrite import Rewrite, Target
from msd.models.families import Family


@dataclass(frozen=True)
class Settings:
    """The settings of a conversion. `components` are by default those that the model needs.

    `also` are optional components to add to them.

    `height` and `width` are in pixels, None for the checkpoint's own, as is `prediction_type`; `sizes`, where
    there are any, take their place, and every size-dependent network is converted for each; the autoencoder
    for tiles of at most `vae_tile` pixels a side, and with `split` the denoiser in two halves. `lora` are
    files to merge into the weights, each with its scale; `embeddings` are textual inversions, each with its
    token, or None for the file's own. `unet` and `vae` replace the checkpoint's own, `preview_vae` adds a
    decoder for previews (msd/conversion/sources/unet.py, vae.py), and `upscaler` a network that enlarges
    images (msd/conversion/sources/upscaler.py). `controlnets` are added, each with its name, or None for that
    of its file (msd/conversion/sources/controlnet.py), and inside the denoiser's network if `fuse_control`.
    `clip_skip` layers of the text encoder are dropped, and the denoiser takes `prompt_chunks` of its outputs.
    `scheduler`, NAME[+SCALE][:SETTING=VALUE,…], replaces the checkpoint's; `steps` and `guidance` replace the
    defaults of images that follow from it. `pruning` overrides the recipe's own, and uses a `calibration` if
    there is one. `networks`: "keras-cv" to build those of keras-cv, "auto" for our own. `attention`:
    "composite" for LiteRT's own composite operator, which phones may have kernels for. `interface` is that of
    another program, which binds the files. Where no recipe was `recipe_named`, a smaller one may have taken
    the default's place, `smaller_because` of a sentence. `jobs` threads read and quantise weights, one for
    each core if None.
    """

    rules: Sequence[Rewrite]
    recipe: Recipe = field(default_factory=lambda: find_recipe(DEFAULT))
    components: tuple[str, ...] = ()
    also: tuple[str, ...] = ()
    batch: int = 1
    height: int | None = None
    width: int | None = None
    target: Target = field(default_factory=Target)
    prediction_type: str | None = None
    force: bool = False
    lora: Sequence[tuple[Path, float]] = ()
    scheduler: str | None = None
    steps: int | None = None
    guidance: float | None = None
    embeddings: Sequence[tuple[Path, str | None]] = ()
    clip_skip: int = 0
    prompt_chunks: int = 1
    unet: Path | None = None
    vae: Sequence[Path] = ()
    preview_vae: Path | None = None
    controlnets: Sequence[tuple[Path, str | None]] = ()
    fuse_control: bool = False
    upscaler: Path | None = None
    vae_tile: int | None = None
    split: bool = False
    networks: str = "auto"
    pruning: Pruning | None = None
    calibration: Calibration | None = None
    sizes: tuple[ImageSize, ...] = ()
    jobs: int | None = None
    attention: str = "products"
    interface: ClientInterface | None = None
    recipe_named: bool = True
    smaller_because: str = ""

    def __post_init__(self) -> None:
        """Raise BadConfig where a composite or an interface was asked for, and something else forbids it."""
        if self.interface is not None:
            self._require_bindable(self.interface)
        if self.attention != "composite":
            return
        if self.recipe.delegate == "tflite-gpu":
            raise BadConfig(
                f"the recipe {self.recipe.name} is for TensorFlow Lite's GPU delegate, which has no composite"
                " attention; leave out --attention composite, or take a recipe for LiteRT"
            )
        if len(self.sizes) > 1:
            raise BadConfig("composite attention and several sizes in one file are not possible together")

    def _require_bindable(self, interface: ClientInterface) -> None:
        if len(self.sizes) > 1:
            raise BadConfig(
                f"several sizes in one file have signatures of their own, and the interface {interface.name}"
                " names one; give one --size"
            )
        if self.recipe.splits_lookup:
            raise BadConfig(
                f"the recipe {self.recipe.name} writes the token embedding to a file of its own, which the"
                f" interface {interface.name} does not know; take a recipe for LiteRT"
            )
        if self.split:
            raise BadConfig(
                f"--split writes the U-Net as two files, and the interface {interface.name} binds one; leave"
                " one of both out"
            )
        if interface.batch and interface.batch != self.batch:
            raise BadConfig(
                f"the interface {interface.name} is for batch {interface.batch}, and this conversion has"
                f" {self.batch}; give --batch {interface.batch}"
            )

    @property
    def active_rules(self) -> list[Rewrite]:
        """Those `rules` that the recipe leaves on."""
        return [rule for rule in self.rules if rule.name not in self.recipe.without]

    @property
    def effective_target(self) -> Target:
        """`target`; for a recipe of TensorFlow Lite's own delegate, the device as that delegate uses it.

        Other files suit both delegates as far as they can, so they keep to the limits of both.
        """
        device, delegate = self.target.device, self.recipe.delegate
        if delegate is None or not self.recipe.splits_lookup or device.delegate:
            return self.target
        return replace(self.target, device=device.under(delegate))

    def selected_components(self, family: Family, needed: Iterable[str] = ()) -> tuple[str, ...]:
        """Return the components to convert, in order; raises BadConfig for one that the family lacks.

        `needed` are optional components that the model needs.
        """
        if unknown := {*self.components, *self.also} - {*family.names}:
            raise BadConfig(
                f"no component is called {listed(sorted(unknown), 'or')}; there are {', '.join(family.names)}"
            )
        added = family.added(preview=self.preview_vae is not None, upscaler=self.upscaler is not None)
        asked = self.components or (*family.required, *needed)
        return family.ordered((*asked, *self.also, *added, *family.controls))

    def pruning_of(self, family: Family) -> Pruning | None:
        """Return the pruning, with its components named, or None."""
        pruning = self.pruning
        if pruning is None and self.recipe.prune is not None:
            pruning = parse_pruning(self.recipe.prune)
        return pruning and replace(pruning, components=pruning.components or family.prunable)

    @property
    def unpruned(self) -> Settings:
        """The same settings without pruning and with the default recipe, for calibration."""
        return replace(
            self,
            recipe=find_recipe(DEFAULT),
            components=(),
            also=(),
            pruning=None,
            calibration=None,
            interface=None,
            split=False,
            force=False,
        )
