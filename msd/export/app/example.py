"""A prompt that an app or a page shows as an example: one whose words the model's vocabulary has whole."""

from __future__ import annotations

from msd.run.runtime.remarks import spelled_words
from msd.run.runtime.tokenizer import Tokenizer

EXAMPLES = (
    "a photograph of an astronaut riding a horse",
    "two red circles on the left over a striped blue background",
)


def example_prompt(tokenizer: Tokenizer) -> str:
    """Return the first of `EXAMPLES` that a tokenizer does not spell in pieces; "" where it spells both."""
    return next((prompt for prompt in EXAMPLES if not spelled_words(prompt, tokenizer)), "")
