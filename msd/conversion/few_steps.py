"""Kinds of few-step models, each with the schedule that it was made for, and the names that tell them.

A single file has no scheduler, and a LoRA never. The schedules are those of their authors' model cards:
ByteDance/SDXL-Lightning and ByteDance/Hyper-SD (arXiv 2402.13929, 2404.13686), tianweiy/DMD2 (arXiv
2405.14867), stabilityai/sdxl-turbo (arXiv 2311.17042) and latent-consistency/lcm-lora-sdxl (arXiv
2311.05556).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from msd.bundle import ImageDefaults

STEPS = re.compile(r"(?<![0-9])(\d{1,2})[-_ ]?steps?(?![a-z])")
"""How many steps, in a name such as sdxl_lightning_4step or Hyper-SDXL-8steps-lora."""

MOST_NAMED = 16
COMMON = ("hyper",)
"""Words that many models have in their names: they tell of a kind only beside a number of steps."""

WORDS = re.compile(r"dmd2|DMD2|[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
TITLE = "modelspec.title"
"""The key of a file's metadata for what people call it."""

CFG_GUIDANCE = 5.0
"""Of Hyper-SD's files with CFG in their names, which are for 5 to 8."""


@dataclass(frozen=True)
class FewSteps:
    """A kind of few-step model: its `--scheduler`, and the steps and the guidance of its images.

    `prediction` is what its U-Net predicts, None for what the checkpoint says.
    """

    name: str
    title: str
    scheduler: str
    steps: int = 4
    guidance: float = 1.0
    prediction: str | None = None

    def images(self, embedded: float | None) -> ImageDefaults:
        """Return the defaults of images; `embedded` is the guidance of a U-Net that takes the scale."""
        return ImageDefaults(self.steps, self.guidance if embedded is None else embedded)

    def of(self, steps: int | None) -> FewSteps:
        """Return the kind for that many steps."""
        if steps is None:
            return self
        return IN_ONE.get(self.name, self) if steps == 1 else replace(self, steps=steps)

    @property
    def options(self) -> str:
        """The options of a conversion that ask for it."""
        guided = f" --guidance {self.guidance:g}" if self.guidance != 1 else ""
        return f"--scheduler {self.name} --steps {self.steps}{guided}"


KINDS = {
    kind.name: kind
    for kind in (
        FewSteps("lightning", "SDXL-Lightning", "euler:timestep_spacing=trailing"),
        FewSteps("hyper", "Hyper-SD", "ddim:timestep_spacing=trailing"),
        # LCM's four timesteps of four are 999, 749, 499 and 249, those that DMD2 was trained for.
        FewSteps("dmd2", "DMD2", "lcm:original_inference_steps=4"),
        FewSteps("turbo", "Turbo", "euler-a:timestep_spacing=trailing"),
        FewSteps("lcm", "LCM", "lcm"),
    )
}

IN_ONE = {
    "hyper": replace(KINDS["hyper"], scheduler="tcd:eta=1", steps=1),
    "lightning": replace(KINDS["lightning"], prediction="sample", steps=1),
}
"""Those that differ in one step: Hyper-SD by its scheduler, and SDXL-Lightning predicts the image itself."""


def few_steps_named(scheduler: str | None, steps: int | None) -> FewSteps | None:
    """Return the kind that `--scheduler` names, for that many steps; None for any other scheduler."""
    kind = KINDS.get(scheduler or "")
    return kind.of(steps) if kind else None


def few_steps_told(name: str, metadata: Mapping[str, str]) -> FewSteps | None:
    """Return the kind that a file's title in its metadata, or its name, tells; None where neither does."""
    for text in (metadata.get(TITLE, ""), name):
        if (found := _named_in(text)) is not None:
            return found
    return None


def _named_in(text: str) -> FewSteps | None:
    """Return the kind of few-step model that the words of a text name, with its steps; None for none."""
    words = {word.lower() for word in WORDS.findall(text)}
    kind = next((kind for kind in KINDS.values() if kind.name in words), None)
    if kind is None:
        return None
    counted = STEPS.search(text.lower())
    steps = int(counted[1]) if counted and 1 <= int(counted[1]) <= MOST_NAMED else None
    if kind.name in COMMON and steps is None:
        return None
    guided = kind.name == "hyper" and "cfg" in words
    return replace(kind.of(steps), guidance=CFG_GUIDANCE if guided else kind.guidance)
