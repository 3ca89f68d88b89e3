"""What of a request is not used as its writer may have meant it: sentences for people, each said once.

Other programs read more in prompts than CLIP's tokenizer does: AUTOMATIC1111's web UI has weights, BREAK,
AND, LoRAs, and words that change from step to step; compel and ComfyUI have a syntax of their own, and
extensions choose at random. Here all of that is text, but for the weights of the syntax "weights".

The page (msd/export/web/site/msd/remarks.js) and apps (msd/export/android/kotlin/Remarks.kt) say the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import regex

from msd.files.wording import counted
from msd.run.runtime.guidance import Guidance
from msd.run.runtime.prompt import TokenizedPrompt
from msd.run.runtime.request import Request
from msd.run.runtime.tokenizer import Tokenizer

SMALL = 10_000
"""Tokens; a smaller vocabulary is that of a model that knows few words. CLIP's has 49,408."""

MOST_QUOTED = 3
"""Of the words or brackets of one kind, in a sentence."""

WORD, BLANK = r"\p{L}\p{N}_", r"\t-\r\x85\p{Z}"
"""What is of a word, and white space, in classes that Python, JavaScript, Java and Android read alike."""

BEGIN, END = f"(?<![{WORD}])", f"(?![{WORD}])"
ROUND, SQUARE = regex.compile(r"\(([^()]*)\)"), regex.compile(r"\[([^\[\]]*)\]")
NUMBER = regex.compile(rf"[{BLANK}]*[+-]?(?:[0-9]+(?:[.,][0-9]+)?|[.,][0-9]+)[{BLANK}]*")


@dataclass(frozen=True)
class ForeignSyntax:
    """Other programs' syntax, text here: what finds it in a prompt, and what to do instead or is not done.

    `is_meant` decides by what a bracket holds; `by` are the syntaxes under which it is text.
    """

    pattern: regex.Pattern[str]
    instead: str
    is_meant: Callable[[str], bool] = bool
    by: tuple[str, ...] = ("plain", "weights")

    def found(self, text: str) -> Iterator[str]:
        """Yield each place in a prompt that is spelled so."""
        for match in self.pattern.finditer(text):
            if self.is_meant(match.group(1) if self.pattern.groups else match.group()):
                yield match.group()


def _has_number(inside: str) -> bool:
    """Whether the inside of a bracket ends in a number after a colon."""
    _, colon, number = inside.rpartition(":")
    return bool(colon) and NUMBER.fullmatch(number) is not None


def _has_choice(inside: str) -> bool:
    """Whether the inside of a bracket names alternatives."""
    return "|" in inside


WEIGHTS = "msd generate --prompt-syntax weights reads weights"
STEADY = "words do not change from step to step"
FOREIGN = (
    ForeignSyntax(
        regex.compile(r"<(?:lora|lyco):[^<>]*>"), "msd-convert --lora merges a LoRA into the weights"
    ),
    ForeignSyntax(regex.compile(r"<hypernet:[^<>]*>"), "hypernetworks are not supported"),
    ForeignSyntax(
        regex.compile(rf"{BEGIN}embedding:[^{BLANK}]+"),
        "msd-convert --embedding adds a token, whose name alone stands for it",
    ),
    ForeignSyntax(
        regex.compile(rf"{BEGIN}BREAK{END}"),
        "long prompts are cut every 75 tokens (msd-convert --prompt-chunks)",
    ),
    ForeignSyntax(regex.compile(rf"{BEGIN}AND{END}"), "prompts are not combined"),
    ForeignSyntax(SQUARE, STEADY, _has_number),
    ForeignSyntax(SQUARE, STEADY, _has_choice),
    ForeignSyntax(regex.compile(r"\{([^{}]*)\}"), "nothing is chosen at random", _has_choice),
    ForeignSyntax(regex.compile(rf"__[{WORD}/-]+?__"), "nothing is chosen at random"),
    ForeignSyntax(
        regex.compile(rf"{BEGIN}[{WORD}]{{2,}}\+{{2,}}(?![^{BLANK},.)])|\([^()]*\)(?:\++|[0-9]*\.[0-9]+)"),
        f"(word:1.2) has a weight; {WEIGHTS}",
    ),
    ForeignSyntax(ROUND, WEIGHTS, _has_number, by=("plain",)),
    ForeignSyntax(regex.compile(r"\(\([^()]*\)\)|\[\[[^\[\]]*\]\]"), WEIGHTS, by=("plain",)),
    ForeignSyntax(regex.compile(r"\\[()\[\]]"), f"backslashes too; {WEIGHTS}", by=("plain",)),
)


def request_remarks(
    request: Request, guidance: Guidance, tokenizer: Tokenizer, prompts: Sequence[TokenizedPrompt]
) -> tuple[str, ...]:
    """Return what is not used of a request, or not as it may be meant, each sentence once.

    `guidance` is that of the request, and `prompts` are its prompts as they are read.
    """
    remarks = [*_of_guidance(request, guidance)]
    if not request.prompt.strip():
        remarks.append("the prompt is empty, so that nothing says what the image should show")
    for text, prompt in zip(guidance.prompts(request.prompt, request.negative_prompt), prompts, strict=True):
        foreign = _foreign_places(text, request.prompt_syntax)
        remarks += [f"read as text: {_quoted(found)}; {instead}" for instead, found in foreign.items()]
        remarks += _of_words(_without(text, foreign.values()), tokenizer)
        if prompt.cut:
            room = len(prompt.tokens) * tokenizer.room
            remarks.append(f"a prompt has room for {counted(room, 'token')}, and this was cut: {prompt.cut}")
    return tuple(dict.fromkeys(remarks))


def _of_guidance(request: Request, guidance: Guidance) -> Iterator[str]:
    if request.negative_prompt and guidance.rows == 1:
        is_embedded = guidance.mode == "embedding"
        reason = "this U-Net has its guidance built in" if is_embedded else "guidance of 1 or less needs none"
        yield f"the negative prompt is not used: {reason}"
    if request.image_guidance is not None and guidance.mode == "none":
        yield "image guidance is not used: guidance of 1 or less leaves none by the image either"
    if guidance.mode == "none" and guidance.scale not in (0, 1):
        yield f"guidance {guidance.scale:g} is used as 1, which is none"


def _foreign_places(text: str, syntax: str) -> dict[str, list[str]]:
    """Return the places in a prompt that are other programs' syntax, by what to do instead."""
    places: dict[str, list[str]] = {}
    for foreign in FOREIGN:
        if syntax in foreign.by and (found := [*foreign.found(text)]):
            places.setdefault(foreign.instead, []).extend(found)
    return places


def _without(text: str, places: Iterable[Iterable[str]]) -> str:
    for place in dict.fromkeys(place for found in places for place in found):
        text = text.replace(place, " ")
    return text


def _of_words(text: str, tokenizer: Tokenizer) -> Iterator[str]:
    """Yield a sentence on the words that a small vocabulary has only in pieces."""
    size = len(tokenizer.vocabulary)
    if size >= SMALL:
        return
    if unknown := spelled_words(text, tokenizer):
        yield f"the vocabulary of {counted(size, 'token')} has only pieces of these words: {_quoted(unknown)}"


def spelled_words(text: str, tokenizer: Tokenizer) -> list[str]:
    """Return the words of `text` that a vocabulary has only in pieces."""
    return [word for word in tokenizer.words(text) if len(word) > 1 and _is_spelled(word, tokenizer)]


def _is_spelled(word: str, tokenizer: Tokenizer) -> bool:
    return word.isalpha() and len(tokenizer.inner_ids(word)) > 1


def _quoted(found: Iterable[str]) -> str:
    """Return up to `MOST_QUOTED` texts, each once, and the number of the others."""
    distinct = [*dict.fromkeys(found)]
    more = len(distinct) - MOST_QUOTED
    return ", ".join(distinct[:MOST_QUOTED]) + (f" and {more} more" if more > 0 else "")
