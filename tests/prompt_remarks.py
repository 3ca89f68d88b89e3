"""Prompts, and what is said of them: the same in Python, on the page and in apps, in the syntax "plain"."""

from __future__ import annotations

WEIGHTS = "msd generate --prompt-syntax weights reads weights"
EMPTY = "the prompt is empty, so that nothing says what the image should show"
UNUSED = "the negative prompt is not used: "

SAID: list[tuple[str, list[str]]] = [
    ("a dog", []),
    ("a house <lora:add_detail:0.8>", [
        "read as text: <lora:add_detail:0.8>; msd-convert --lora merges a LoRA into the weights",
    ]),
    ("<lyco:x>, a house <hypernet:x:1>", [
        "read as text: <lyco:x>; msd-convert --lora merges a LoRA into the weights",
        "read as text: <hypernet:x:1>; hypernetworks are not supported",
    ]),
    ("a photo of embedding:cat\u3000here", [
        "read as text: embedding:cat; msd-convert --embedding adds a token, whose name alone stands for it",
    ]),
    ("a cat BREAK a dog AND éAND a BREAKER", [
        "read as text: BREAK; long prompts are cut every 75 tokens (msd-convert --prompt-chunks)",
        "read as text: AND; prompts are not combined",
    ]),
    ("a [cat:dog:0.5] runs, [a|b], [cat::\u200912 ], [x:1,]", [
        "read as text: [cat:dog:0.5], [cat::\u200912 ], [a|b]; words do not change from step to step",
    ]),
    ("a {red|blue} ball, __colour__", ["read as text: {red|blue}, __colour__; nothing is chosen at random"]),
    ("a red++ ball, C++20, Größe+++, (red ball)1.4", [
        f"read as text: red++, Größe+++, (red ball)1.4; (word:1.2) has a weight; {WEIGHTS}",
    ]),
    ("a (red:1.4) ball, ((red)), [[blue]]", [f"read as text: (red:1.4), ((red)), [[blue]]; {WEIGHTS}"]),
    (r"a ball \(red\)", [rf"read as text: \(, \); backslashes too; {WEIGHTS}"]),
    (" ".join(f"(word{i}:1.{i})" for i in [*range(1, 6), 1]), [
        f"read as text: (word1:1.1), (word2:1.2), (word3:1.3) and 2 more; {WEIGHTS}",
    ]),
    (" \n\u00a0", [EMPTY]),
    ("the " * 75, []),
    ("the " * 75 + "Dogs, 日本 & 🦊!", [
        "a prompt has room for 75 tokens, and this was cut: dogs , 日本 & 🦊 !",
    ]),
    ("<cat-toy> in 3D: a (very) good dog :) at 16:9, 1<2>1, two_words and _one_", []),
]  # fmt: skip
"""Prompts with CLIP's vocabulary, guidance 7.5 and no negative prompt."""

OF_WORDS: list[tuple[str, list[str]]] = [
    ("two red circles, on a plain background", []),
    ("Elephant on a red square, elephant, zebra ⭐ x 7, [zoo|bird]", [
        "read as text: [zoo|bird]; words do not change from step to step",
        "the vocabulary of 666 tokens has only pieces of these words: elephant, zebra",
    ]),
]  # fmt: skip
"""The same with the demo's vocabulary."""

TOO_LONG = "a prompt has room for 75 tokens, and this was cut: "
OF_INVERSIONS: list[tuple[str, list[str]]] = [
    ("<cat-toy>" * 25, []),
    ("<cat-toy>" * 26, [f"{TOO_LONG}<Cat-Toy>"]),
    ("!" + "<cat-toy>" * 26, [f"{TOO_LONG}<Cat-Toy> <Cat-Toy>"]),
    ("! ! " + "<cat-toy>" * 25, [f"{TOO_LONG}<Cat-Toy>"]),
    ("<cat-toy>" * 27 + "<cat-toy>_2 !", [f"{TOO_LONG}<Cat-Toy> <Cat-Toy> <Cat-Toy>_2 !"]),
]
"""With a textual inversion <Cat-Toy> of three vectors."""

OF_GUIDANCE: list[tuple[float, str, list[str]]] = [
    (
        7.5,
        "BREAK",
        ["read as text: BREAK; long prompts are cut every 75 tokens (msd-convert --prompt-chunks)"],
    ),
    (1.0, "BREAK", [f"{UNUSED}guidance of 1 or less needs none"]),
    (0.5, "", ["guidance 0.5 is used as 1, which is none"]),
    (1 / 3, "", ["guidance 0.333333 is used as 1, which is none"]),
    (0.0, "", []),
]
"""Guidance and a negative prompt beside "a dog"."""

EMBEDDED = f"{UNUSED}this U-Net has its guidance built in"
"""Of any negative prompt, where the denoiser takes the guidance scale."""
