"""One image to generate."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from msd.bounds import MOST_GUIDANCE, MOST_PROMPT, MOST_SEED, is_number, is_whole
from msd.errors import BadConfig, BadValue
from msd.run.runtime.control import Control
from msd.run.runtime.initial_image import InitialImage
from msd.run.runtime.prompt_syntax import PromptSyntax

OPTIONAL = ("image", "strength", "paste", "controls", "guess", "upscale", "image_guidance")
"""What most requests do not have, and an image's metadata has only where it was asked for."""

STRENGTH, INPAINTING_STRENGTH = 0.8, 1.0
"""The strengths of diffusers' image-to-image and inpainting pipelines where none is given."""


def require_seeds(first: int, count: int) -> None:
    """Raise BadValue where the seeds of `count` images, from the first on, go beyond the largest."""
    if first + count - 1 > MOST_SEED:
        raise BadValue(
            f"{count} images have consecutive seeds, from {first} on, and the largest seed is {MOST_SEED}"
        )


@dataclass(frozen=True)
class Request:
    """One image to generate. The negative prompt is used where guidance has a pass for it (`Guidance.of`).

    `prompt_syntax` is that of both prompts (msd/run/runtime/prompt_syntax.py).

    With `image`, generation begins from it; `strength`, above 0 and at most 1, says how much of it changes.
    By default that is 0.8, and 1 where a mask says what to repaint. `paste` restores the pixels that the
    mask keeps (msd/run/runtime/paste.py). `upscale` is how many times the bundle's upscaler enlarges it
    along each side, None for not at all. `image_guidance`, from 1, is how closely a model that edits the
    image keeps to it.

    `controls` are pictures by which ControlNets steer, and `guess` lets them steer without a prompt that
    describes the picture (msd/run/runtime/control.py). Raises BadConfig for a strength without an image, for
    paste=False without a mask, for a guess without controls, for two controls of one name, and for numbers
    and prompts beyond msd/bounds.py. Numbers of NumPy's become Python's.
    """

    prompt: str
    negative_prompt: str = ""
    seed: int = 0
    steps: int = 20
    guidance: float = 7.5
    prompt_syntax: PromptSyntax = "plain"
    image: InitialImage | None = None
    strength: float | None = None
    paste: bool = True
    controls: tuple[Control, ...] = ()
    guess: bool = False
    upscale: int | None = None
    image_guidance: float | None = None

    def __post_init__(self) -> None:
        if self.image is None and self.strength is not None:
            raise BadConfig("a strength says how much of an image changes; give the image too")
        if not self.paste and not self.is_masked:
            raise BadConfig("without a mask no pixels are pasted back: leave out --no-paste (paste=False)")
        self._require_types()
        self._require_controls()
        for name in ("seed", "steps", *(["upscale"] if self.upscale is not None else [])):
            value = getattr(self, name)
            if not is_whole(value):
                raise BadConfig(f"{name} is {value!r}; a whole number was expected")
            object.__setattr__(self, name, int(value))
        if not abs(self.guidance) <= MOST_GUIDANCE:
            raise BadConfig(f"guidance {self.guidance:g} should be a number up to {MOST_GUIDANCE:g}")
        if self.image_guidance is not None and not 1 <= self.image_guidance <= MOST_GUIDANCE:
            raise BadConfig(
                f"image guidance {self.image_guidance:g} should be a number from 1 to {MOST_GUIDANCE:g}"
            )
        if not 0 <= self.seed <= MOST_SEED:
            raise BadConfig(f"a seed should be a whole number from 0 to {MOST_SEED}")
        for text in (self.prompt, self.negative_prompt):
            if len(text) > MOST_PROMPT:
                raise BadConfig(f"a prompt has {len(text)} letters, and at most {MOST_PROMPT} are read")

    def _require_types(self) -> None:
        for name in ("prompt", "negative_prompt"):
            if not isinstance(value := getattr(self, name), str):
                raise BadConfig(f"{name} is {value!r}; a text was expected")
        for name in ("guidance", "strength", "image_guidance"):
            value = getattr(self, name)
            if value is not None and not is_number(value):
                raise BadConfig(f"{name} is {value!r}; a number was expected")
            if value is not None and not isinstance(value, int):
                object.__setattr__(self, name, float(value))

    def _require_controls(self) -> None:
        if self.guess and not self.controls:
            raise BadConfig("guess mode is for pictures that steer: give a control, or leave guess out")
        names = [control.name for control in self.controls]
        if twice := [name for name in names if names.count(name) > 1]:
            raise BadConfig(f"the control {twice[0]} is given twice; each ControlNet steers by one picture")

    @property
    def is_masked(self) -> bool:
        """Whether a mask says what to repaint."""
        return self.image is not None and self.image.mask is not None

    @property
    def effective_strength(self) -> float | None:
        """The strength; None without an image."""
        if self.image is None or self.strength is not None:
            return self.strength
        return INPAINTING_STRENGTH if self.is_masked else STRENGTH

    def metadata(self) -> dict[str, Any]:
        """Return all that is set, as JSON values."""
        values = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in OPTIONAL}
        if self.controls:
            values |= {"controls": [control.words for control in self.controls], "guess": self.guess}
        own = {name: getattr(self, name) for name in ("upscale", "image_guidance")}
        values |= {name: value for name, value in own.items() if value is not None}
        if self.image is None:
            return values
        pasted = {"paste": self.paste} if self.is_masked else {}
        return {**values, "image": self.image.description, "strength": self.effective_strength, **pasted}
