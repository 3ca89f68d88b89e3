"""One image to generate."""

from __future__ import annotations

from dataclasses import dataclass

from msd.runtime.prompt_syntax import PromptSyntax


@dataclass(frozen=True)
class Request:
    """One image to generate. The negative prompt is used where guidance has a pass for it (`Guidance.of`).

    `prompt_syntax` is that of both prompts (msd/runtime/prompt_syntax.py).
    """

    prompt: str
    negative_prompt: str = ""
    seed: int = 0
    steps: int = 20
    guidance: float = 7.5
    prompt_syntax: PromptSyntax = "plain"
