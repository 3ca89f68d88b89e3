"""The options of a conversion, each stated once: its default, the values that it may have, and its help.

The options of `msd-convert` (msd/cli/conversion_options.py), the keywords of `msd.convert` and the table in
docs/api.md (scripts/draw_options.py) are made from the fields of `ConversionOptions`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import Field, dataclass, field, fields
from pathlib import Path
from typing import Any

from msd.bounds import MOST_GUIDANCE, MOST_STEPS
from msd.bundle import ImageSize
from msd.conversion.option_values import (
    FLAG,
    NAME_OR_FILE,
    NAMES,
    PATH,
    PATHS,
    TEXT,
    OptionValue,
    all_are,
    in_words,
    named_files,
    number,
    one_of,
    or_none,
    scaled_files,
    whole_number,
)
from msd.errors import BadConfig

MOST_PIXELS = 99_999


@dataclass(frozen=True)
class Option:
    """What is stated of an option beside its default.

    `flag` is the command's, where it is not the field's name; `shown` is the default in words.
    """

    value: OptionValue
    help: str
    flag: str | None = None
    metavar: str | None = None
    shown: str | None = None


def _option(default: Any, value: OptionValue, help: str, **stated: str) -> Any:
    return field(default=default, metadata={"option": Option(value, help, **stated)})


@dataclass(frozen=True)
class ConversionOptions:
    """The options of a conversion. Raises BadConfig, naming the option, for a value that it cannot have.

    Texts become paths where these are meant, and other numbers int and float.
    """

    lora: Sequence[tuple[Path, float]] = _option(
        (),
        scaled_files("its scale"),
        "Merge a LoRA, LoHa, LoKr or DoRA into the weights; may be repeated.",
        metavar="FILE[:ADAPTER][:SCALE]",
        shown="scale 1",
    )
    unet: Path | None = _option(  # noqa: RUF009
        None,
        or_none(PATH),
        "Use this U-Net in place of SOURCE's, such as a few-step model that is published without the rest.",
        metavar="PATH|ID",
    )
    vae: Sequence[Path] = _option(
        (),
        PATHS,
        "Use this autoencoder in place of SOURCE's, or of none; may be repeated, for two halves.",
        metavar="PATH",
    )
    preview_vae: Path | None = _option(  # noqa: RUF009
        None,
        or_none(PATH),
        "Convert this tiny autoencoder too, to decode previews.",
        metavar="PATH",
    )
    controlnets: Sequence[tuple[Path, str | None]] = _option(
        (),
        named_files("its name or None"),
        "Convert this ControlNet too, by whose residuals a picture steers; may be repeated.",
        flag="--controlnet",
        metavar="PATH|ID[:NAME]",
        shown="the name of the folder or file",
    )
    fuse_control: bool = _option(
        False,
        FLAG,
        "Make one network of the U-Net and its ControlNets: the residuals never leave it, and all run in each"
        " step.",
    )
    upscaler: Path | None = _option(  # noqa: RUF009
        None,
        or_none(PATH),
        "Convert this Real-ESRGAN too: .pth, .safetensors, or ncnn's .param beside its .bin.",
        metavar="PATH",
    )
    embeddings: Sequence[tuple[Path, str | None]] = _option(
        (),
        named_files("its token or None"),
        "Add a textual inversion, a file or an image; may be repeated.",
        flag="--embedding",
        metavar="FILE[:TOKEN]",
        shown="its own token",
    )
    clip_skip: int = _option(
        0,
        whole_number(0, 256),
        "Drop the text encoder's last layers; 1 is diffusers' clip_skip=1, AUTOMATIC1111's 2.",
    )
    prompt_chunks: int = _option(
        1, whole_number(1, 16), "Read prompts of up to N times 75 tokens.", metavar="N"
    )
    scheduler: str | None = _option(
        None,
        or_none(TEXT),
        "The scheduler of the model: heun, dpm+++karras, tcd:eta=1, or a few-step model's whole schedule:"
        " lightning, hyper, dmd2, turbo or lcm.",
        metavar="NAME[+SCALE][:SETTING=VALUE,…]",
        shown="the checkpoint's own",
    )
    steps: int | None = _option(
        None,
        or_none(whole_number(1, MOST_STEPS)),
        "Denoising steps of images by default.",
        shown="4 for a few-step model, else 20",
    )
    guidance: float | None = _option(
        None,
        or_none(number(0, MOST_GUIDANCE)),
        "Guidance of images by default.",
        shown="1, none, for a few-step model, else 7.5",
    )
    networks: str = _option(
        "auto",
        one_of("auto", "keras-cv"),
        "keras-cv: build keras-cv's own networks; SOURCE has its .h5 files.",
        flag="--source",
    )
    components: Sequence[str] = _option(
        (),
        NAMES,
        "Convert only this component; may be repeated.",
        flag="--component",
        shown="all that the model needs",
    )
    also: Sequence[str] = _option((), NAMES, "Convert this optional component too; may be repeated.")
    recipe: str | None = _option(
        None,
        or_none(NAME_OR_FILE),
        "How to store weights: a name of configs/recipes/, or a .toml file like those.  [list: show them]",
        shown="gpu-w8; gpu-w4-unet for a U-Net beyond 2 GiB",
    )
    batch: int = _option(1, whole_number(1, 2), "2: both guidance passes in one run.")
    sizes: Sequence[ImageSize] = _option(
        (),
        all_are(lambda v: isinstance(v, ImageSize), "ImageSize"),
        "Pixels, width first; may be repeated: the sizes share weights.",
        flag="--size",
        shown="the checkpoint's own",
    )
    height: int | None = _option(
        None, or_none(whole_number(8, MOST_PIXELS)), "Pixels.", shown="the checkpoint's own"
    )
    width: int | None = _option(
        None, or_none(whole_number(8, MOST_PIXELS)), "Pixels.", shown="the checkpoint's own"
    )
    vae_tile: int | None = _option(
        None,
        or_none(whole_number(8, MOST_PIXELS)),
        "Convert the autoencoder for tiles of N pixels a side: less memory, and seams that fade.",
        metavar="N",
        shown="whole images",
    )
    split: bool = _option(
        False,
        FLAG,
        "Write the U-Net as two files that run one after the other, for phones that cannot map one.",
    )
    prediction_type: str | None = _option(
        None,
        or_none(one_of("epsilon", "v_prediction")),
        "What the U-Net predicts.",
        shown="as the checkpoint states",
    )
    gelu_clip: float = _option(10.0, number(1, 1000), "The limit M of clipped GELU.")
    device: str | None = _option(
        None,
        or_none(NAME_OR_FILE),
        "The target GPU, or a phone that has it: a name such as adreno-740 or 'Pixel 9', or a .toml file.",
        shown="adreno-740",
    )
    spelling: str = _option(
        "standard",
        NAME_OR_FILE,
        "The forms of the graph's constructs: a name of configs/spellings/, or a .toml file like those.",
    )
    attention: str = _option(
        "products",
        one_of("products", "composite"),
        "composite: LiteRT's own operator; no phone has run msd's, a network of them restarted a Pixel 8a"
        " (LiteRT issue 8620), and LiteRT on Linux crashes.",
    )
    interface: str | None = _option(
        None,
        or_none(NAME_OR_FILE),
        "The names, order and layout by which another program binds the networks: a name of"
        " configs/interfaces/, or a .toml file like those.",
        shown="msd's own",
    )
    without: Sequence[str] = _option(
        (),
        NAMES,
        "Switch off a rewrite, by the name that --explain shows; may be repeated.",
        metavar="REWRITE",
    )
    prune: str | None = _option(
        None, or_none(TEXT), "Prune 15% of the U-Net's parameters, or down to 600MB.", metavar="N%|NMB"
    )
    calibration: Path | None = _option(  # noqa: RUF009
        None,
        or_none(PATH),
        "Round so that errors compensate, and refit after pruning, on prompts (one per line), a folder of"
        " .npz inputs, or, without data, prompts of random words.",
        metavar="PROMPTS.txt|FOLDER|random-words",
    )
    refit: bool = _option(True, FLAG, "Do not refit the layers that read pruned units.", flag="--no-refit")
    jobs: int | None = _option(
        None,
        or_none(whole_number(1, 256)),
        "Threads that read and quantise weights; memory is bounded whatever their number.",
        shown="one per core",
    )
    force: bool = _option(False, FLAG, "Replace what is in the folder.")

    def __post_init__(self) -> None:
        for each, stated in options().items():
            value = getattr(self, each)
            if not stated.value.holds(value):
                raise BadConfig(f"{each} is {in_words(value)}; it should be {stated.value.words}")
            object.__setattr__(self, each, stated.value.read(value))
        if self.sizes and (self.height or self.width):
            raise BadConfig("sizes already name the height and the width; leave out height and width")


def options() -> dict[str, Option]:
    """Return what is stated of each option, by the name of its field, in the order of --help."""
    return {each.name: _stated(each) for each in fields(ConversionOptions)}


def _stated(each: Field[Any]) -> Option:
    stated: Option = each.metadata["option"]
    return stated
