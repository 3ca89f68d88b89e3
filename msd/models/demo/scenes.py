"""Draw demo scenes: flat shapes with an outline over a patterned background.

All lengths are in pixels of a 128 × 128 picture; drawing is done four times larger and averaged down.
"""

from __future__ import annotations

import math
import random
from functools import cache

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw

from msd.models.demo.captions import Scene

Picture = npt.NDArray[np.uint8]
Colour = tuple[int, int, int]
Point = tuple[float, float]

SIZE = 128
OUTLINE: Colour = (35, 38, 58)
FILLS: dict[str, Colour] = {
    "red": (225, 45, 55),
    "orange": (250, 135, 30),
    "yellow": (255, 208, 40),
    "green": (35, 150, 75),
    "blue": (40, 100, 225),
    "purple": (125, 55, 200),
    "pink": (245, 95, 165),
    "white": (255, 255, 255),
}
TONES: dict[str, tuple[Colour, Colour]] = {
    "white": ((247, 242, 230), (226, 219, 202)),
    "grey": ((140, 146, 156), (166, 172, 181)),
    "pink": ((250, 170, 198), (252, 198, 216)),
    "yellow": ((244, 222, 130), (250, 236, 178)),
    "green": ((150, 214, 158), (184, 230, 188)),
    "blue": ((140, 198, 240), (178, 218, 247)),
    "purple": ((186, 164, 232), (208, 193, 241)),
    "black": ((58, 61, 84), (82, 86, 112)),
}
"""Background colour → its main tone and the tone of its pattern."""
CENTRES: dict[str, Point] = {
    "left": (29, 64),
    "right": (99, 64),
    "top": (64, 29),
    "bottom": (64, 99),
    "middle": (64, 64),
}

_SCALE = 4
_LINE = 2.75
_TURN = 10.0
_RADII = {1: (18.0, 22.0), 2: (16.0, 19.0), 3: (14.5, 16.5)}


def _arc(radius: float, start: float, stop: float, steps: int, centre: Point = (0, 0)) -> list[Point]:
    angles = (math.radians(start + (stop - start) * i / steps) for i in range(steps + 1))
    return [(centre[0] + radius * math.cos(a), centre[1] + radius * math.sin(a)) for a in angles]


def _star() -> list[Point]:
    return [
        ((1.12, 0.52)[i % 2] * math.sin(i * math.pi / 5), -(1.12, 0.52)[i % 2] * math.cos(i * math.pi / 5))
        for i in range(10)
    ]


def _heart() -> list[Point]:
    turns = (2 * math.pi * i / 48 for i in range(48))
    return [
        (
            math.sin(t) ** 3,
            -(13 * math.cos(t) - 5 * math.cos(2 * t) - 2 * math.cos(3 * t) - math.cos(4 * t)) / 16 - 0.1,
        )
        for t in turns
    ]


def _moon() -> list[Point]:
    return _arc(1.05, 53.8, 306.2, 40, (0.15, 0)) + _arc(0.85, 274.8, 85.2, 30, (0.7, 0))


def _cross() -> list[Point]:
    long, short = 1.0, 0.36
    corner = [(short, -long), (short, -short), (long, -short)]
    turned = corner
    outline = list(corner)
    for _ in range(3):
        turned = [(-y, x) for x, y in turned]
        outline += turned
    return outline


SHAPES: dict[str, list[Point]] = {
    "circle": _arc(0.95, 0, 360, 48)[:-1],
    "square": [(-0.85, -0.85), (0.85, -0.85), (0.85, 0.85), (-0.85, 0.85)],
    "triangle": [(0, -1.0), (1.05, 0.8), (-1.05, 0.8)],
    "diamond": [(0, -1.12), (0.82, 0), (0, 1.12), (-0.82, 0)],
    "star": _star(),
    "heart": _heart(),
    "moon": _moon(),
    "cross": _cross(),
}
"""Kind → corners of its outline, y downwards, about one unit from centre to edge."""


def turned(points: list[Point], degrees: float) -> list[Point]:
    """Return `points` turned clockwise (y points down) about the origin."""
    cos, sin = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    return [(x * cos - y * sin, x * sin + y * cos) for x, y in points]


def pattern_mask(pattern: str) -> npt.NDArray[np.bool_]:
    """Return where a (SIZE·4, SIZE·4) background shows its second tone."""
    y, x = np.mgrid[: SIZE * _SCALE, : SIZE * _SCALE] // _SCALE
    if pattern == "striped":
        return np.asarray((x + y) % 32 < 16)
    if pattern == "checked":
        return np.asarray((x // 16 + y // 16) % 2 == 0)
    if pattern == "dotted":
        y, x = (np.mgrid[: SIZE * _SCALE, : SIZE * _SCALE] + 0.5) / _SCALE
        shifted = x + 8 * (y // 16 % 2)
        return np.asarray((shifted % 16 - 8) ** 2 + (y % 16 - 8) ** 2 < 4.5**2)
    return np.zeros_like(x, dtype=bool)


@cache
def _backdrop(background: str, pattern: str) -> Image.Image:
    main, second = TONES[background]
    return Image.fromarray(np.where(pattern_mask(pattern)[..., None], second, main).astype(np.uint8))


def _layout(count: int, position: str) -> list[Point]:
    if count == 1:
        return [(0, 0)]
    if count == 2:
        along = [-23.0, 23.0]
    elif position == "middle":
        return [(0, -21), (-23, 18), (23, 18)]
    else:
        along = [-40.0, 0.0, 40.0]
    return [(0, a) if position in ("left", "right") else (a, 0) for a in along]


def _centres(scene: Scene, rng: random.Random) -> list[Point]:
    sway = 2 if scene.count == 3 else 5
    x, y = (c + rng.uniform(-sway, sway) for c in CENTRES[scene.position])
    return [
        (x + dx + rng.uniform(-1.2, 1.2), y + dy + rng.uniform(-1.2, 1.2))
        for dx, dy in _layout(scene.count, scene.position)
    ]


def draw(scene: Scene, seed: int) -> Picture:
    """Return `scene` as (128, 128, 3) RGB; `seed` moves, turns and sizes the objects a little."""
    rng = random.Random(f"{scene} {seed}")
    image = _backdrop(scene.background, scene.pattern).copy()
    brush = ImageDraw.Draw(image)
    radius = rng.uniform(*_RADII[scene.count])
    for x, y in _centres(scene, rng):
        corners = turned(SHAPES[scene.kind], rng.uniform(-_TURN, _TURN))
        ring = [((x + radius * px) * _SCALE, (y + radius * py) * _SCALE) for px, py in corners]
        brush.polygon(ring, fill=FILLS[scene.colour])
        brush.line([*ring, *ring[:2]], fill=OUTLINE, width=round(_LINE * _SCALE), joint="curve")
    return np.asarray(image.reduce(_SCALE))
