"""The attributes of a demo scene, and the small English grammar of its captions.

A scene has six independent attributes: how many objects (`count`), their `colour` and `kind`, where they
are (`position`), and the `background` colour with its `pattern`. A caption always names count, colour and
kind; it may leave out the position, or the background with its pattern, and then says nothing about them.
"""

from __future__ import annotations

import hashlib
import itertools
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Literal

from msd.errors import MsdError

COUNTS = (1, 2, 3)
COLOURS = ("red", "orange", "yellow", "green", "blue", "purple", "pink", "white")
KINDS = ("circle", "square", "triangle", "diamond", "star", "heart", "moon", "cross")
POSITIONS = ("left", "right", "top", "bottom", "middle")
BACKGROUNDS = ("white", "grey", "pink", "yellow", "green", "blue", "purple", "black")
PATTERNS = ("plain", "striped", "dotted", "checked")

Attributes = dict[str, str | int]
"""Attribute name → value, for the attributes that a caption names or a picture shows."""
Split = Literal["train", "held-back"]

_HELD_BACK_SHARE = 10
_WHERE = {
    "left": ("on the left",),
    "right": ("on the right",),
    "top": ("at the top",),
    "bottom": ("at the bottom",),
    "middle": ("in the middle", "in the center"),
}
_LEADS = ("", "", "a picture of ", "a drawing of ")
_FULL = (
    "{lead}{things} {where} over {a_backdrop}",
    "{lead}{things} {where} on {a_backdrop}",
    "{lead}{things} {where}, {backdrop}",
    "{where}, {things} over {a_backdrop}",
    "{a_backdrop} with {things} {where}",
)
_PARTIAL = (
    "{lead}{things}",
    "{lead}{things} {where}",
    "{lead}{things} over {a_backdrop}",
    "{a_backdrop} with {things}",
)


class BadCaption(MsdError):
    """A caption outside the demo grammar."""


@dataclass(frozen=True)
class Scene:
    """The six attributes of one image; `colour` and `background` never have the same name."""

    count: int
    colour: str
    kind: str
    position: str
    background: str
    pattern: str

    @property
    def split(self) -> Split:
        """The split of the combination: a hash holds back one combination in ten."""
        values = self.count, self.colour, self.kind, self.position, self.background, self.pattern
        digest = hashlib.blake2b("|".join(map(str, values)).encode(), digest_size=8).digest()
        return "held-back" if int.from_bytes(digest, "big") % _HELD_BACK_SHARE == 0 else "train"


def _every_scene() -> Iterator[Scene]:
    for values in itertools.product(COUNTS, COLOURS, KINDS, POSITIONS, BACKGROUNDS, PATTERNS):
        scene = Scene(*values)
        if scene.colour != scene.background:
            yield scene


@cache
def scenes(split: Split) -> tuple[Scene, ...]:
    """Return every scene of a split, in a fixed order."""
    return tuple(scene for scene in _every_scene() if scene.split == split)


def _things(scene: Scene, rng: random.Random) -> str:
    if scene.count == 1:
        article = "an" if scene.colour == "orange" else "a"
        return f"{rng.choice((article, article, 'one'))} {scene.colour} {scene.kind}"
    plural = "es" if scene.kind == "cross" else "s"
    return f"{('two', 'three')[scene.count - 2]} {scene.colour} {scene.kind}{plural}"


def caption(scene: Scene, rng: random.Random, partial: bool = False) -> str:
    """Return one of the captions that name all of `scene`, or (`partial`) only a part of it."""
    pattern = rng.choice(("", "plain ")) if scene.pattern == "plain" else f"{scene.pattern} "
    backdrop = f"{pattern}{scene.background} background"
    return rng.choice(_PARTIAL if partial else _FULL).format(
        lead=rng.choice(_LEADS),
        things=_things(scene, rng),
        where=rng.choice(_WHERE[scene.position]),
        backdrop=backdrop,
        a_backdrop=f"a {backdrop}",
    )


def captions(split: Split, n: int, seed: int) -> list[str]:
    """Return `n` full captions of different scenes of `split`; the same `seed` gives the same captions.

    Raises ValueError if the split has fewer than `n` scenes.
    """
    rng = random.Random(seed)
    return [caption(scene, rng) for scene in rng.sample(scenes(split), n)]


def _one_of(name: str, words: tuple[str, ...]) -> str:
    return f"(?P<{name}>{'|'.join(words)})"


@cache
def _patterns() -> tuple[re.Pattern[str], ...]:
    backdrop = f"(?:{_one_of('pattern', PATTERNS)} )?{_one_of('background', BACKGROUNDS)} background"
    parts = {
        "lead": "(?:a (?:picture|drawing) of )?",
        "things": f"{_one_of('count', ('an?', 'one', 'two', 'three'))} {_one_of('colour', COLOURS)} "
        f"{_one_of('kind', KINDS)}(?P<plural>e?s)?",
        "where": _one_of("where", tuple(itertools.chain(*_WHERE.values()))),
        "backdrop": backdrop,
        "a_backdrop": f"a {backdrop}",
    }
    return tuple(re.compile(template.format(**parts)) for template in (*_FULL, *_PARTIAL))


def _attributes(groups: dict[str, str | None]) -> Attributes:
    named: Attributes = {"count": {"two": 2, "three": 3}.get(groups["count"] or "", 1)}
    named |= {key: value for key in ("colour", "kind") if (value := groups[key])}
    if where := groups.get("where"):
        named["position"] = next(position for position, phrases in _WHERE.items() if where in phrases)
    if background := groups.get("background"):
        named |= {"background": background, "pattern": groups["pattern"] or "plain"}
    return named


def parse(text: str) -> Attributes:
    """Return the attributes in a caption; capitals, extra spaces and a final full stop do not matter.

    A background without a word for its pattern is plain. Raises `BadCaption` for text outside the grammar.
    """
    plain = " ".join(text.lower().split()).rstrip(".")
    for pattern in _patterns():
        match = pattern.fullmatch(plain)
        if match and (match["count"] in ("two", "three")) == bool(match["plural"]):
            return _attributes(match.groupdict())
    raise BadCaption(
        f"{text!r} is not a caption of the demo scenes, which read like "
        '"two red circles on the left over a striped blue background"'
    )
