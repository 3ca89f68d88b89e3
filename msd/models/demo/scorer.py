"""Read the attributes from an image of a demo scene, and score an image against a caption.

The background colour is the one nearest to most pixels; the other pixels form connected objects; each
object's fill names its colour, and its silhouette, freed of place and size, its kind.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFilter

from msd.models.demo.captions import Attributes, parse
from msd.models.demo.regions import filled, label
from msd.models.demo.scenes import CENTRES, FILLS, OUTLINE, SHAPES, SIZE, TONES, Colour, pattern_mask, turned

Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

_SMALLEST_OBJECT = 120
_RIM = 7
_GRID = 40
_REACH = 1.25
_TURNS = (-12, -6, 0, 6, 12)
_CLEAR_PATTERN = 0.5


def _pixels(image: npt.NDArray[np.uint8]) -> Floats:
    if image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] != 3:
        raise ValueError(f"the picture is {image.dtype}{image.shape}, not uint8 (height, width, 3)")
    picture = Image.fromarray(image)
    if picture.size != (SIZE, SIZE):
        picture = picture.resize((SIZE, SIZE), Image.Resampling.LANCZOS)
    return np.asarray(picture.filter(ImageFilter.MedianFilter(3)), dtype=np.float64)


def _distances(pixels: Floats, colours: list[Colour]) -> Floats:
    """Return the squared RGB distance of every pixel to every colour, on a new last axis."""
    known = np.array(colours, dtype=np.float64)
    return np.asarray((pixels**2).sum(-1)[..., None] - 2 * pixels @ known.T + (known**2).sum(-1))


def _background(pixels: Floats) -> str:
    nearest = _distances(pixels, [tone for tones in TONES.values() for tone in tones]).argmin(-1)
    return list(TONES)[int(np.bincount(nearest.ravel() // 2, minlength=len(TONES)).argmax())]


def _widened(mask: Mask, size: int) -> Mask:
    return np.asarray(Image.fromarray(mask).filter(ImageFilter.MaxFilter(size)))


def _foreground(pixels: Floats, background: str) -> Mask:
    """Return where a pixel is nearer to the outline or a fill than to any mixture of background tones."""
    main, second = (np.array(tone, dtype=np.float64) for tone in TONES[background])
    along = np.clip((pixels - main) @ (second - main) / np.sum((second - main) ** 2), 0, 1)
    from_background = ((pixels - main - along[..., None] * (second - main)) ** 2).sum(-1)
    names = [name for name in FILLS if name != background]
    others = _distances(pixels, [OUTLINE, *(FILLS[name] for name in names)])
    if background == "black":
        return np.asarray(others[..., 1:].min(-1) < from_background)
    seen = np.where(others.min(-1) < from_background, others.argmin(-1), -1)
    # a soft edge from white to the outline passes through the colours of backgrounds
    edge = (
        _widened(seen == 0, 5) & _widened(seen == 1 + names.index("white"), 5) if "white" in names else False
    )
    return np.asarray((seen >= 0) | edge)


def _objects(foreground: Mask) -> list[Mask]:
    """Return the parts, connected by edges, that are large enough to be objects."""
    labels = label(foreground)
    areas = np.bincount(labels.ravel())
    return [labels == i for i in range(1, len(areas)) if areas[i] >= _SMALLEST_OBJECT]


def _fill(pixels: Floats, thing: Mask, background: str) -> str:
    """Return the fill colour most of an object's inner pixels lie nearest to, the outline's aside."""
    core = np.asarray(Image.fromarray(thing).filter(ImageFilter.MinFilter(_RIM)))
    names = [name for name in FILLS if name != background]
    inner = pixels[core if core.any() else thing]
    nearest = _distances(inner, [OUTLINE, *(FILLS[name] for name in names)]).argmin(-1)
    votes = np.bincount(nearest, minlength=len(names) + 1)[1:]
    return names[int(votes.argmax())]


def _normalised(mask: Mask) -> Mask:
    """Return a silhouette on a (_GRID, _GRID) grid about its centroid, scaled to a common area."""
    ys, xs = np.nonzero(mask)
    steps = np.linspace(-_REACH, _REACH, _GRID) * np.sqrt(len(ys))
    y = np.clip(np.rint(ys.mean() + steps), 0, mask.shape[0] - 1).astype(int)
    x = np.clip(np.rint(xs.mean() + steps), 0, mask.shape[1] - 1).astype(int)
    return mask[np.ix_(y, x)]


@cache
def _silhouettes() -> tuple[tuple[str, ...], Mask]:
    """Return kinds and their normalised silhouettes, one for each kind and turn."""
    kinds, masks = [], []
    for kind, corners in SHAPES.items():
        for degrees in _TURNS:
            image = Image.new("1", (SIZE, SIZE))
            ring = [(SIZE / 2 + x * SIZE / 4, SIZE / 2 + y * SIZE / 4) for x, y in turned(corners, degrees)]
            ImageDraw.Draw(image).polygon(ring, fill=1)
            kinds.append(kind)
            masks.append(_normalised(np.asarray(image)))
    return tuple(kinds), np.stack(masks)


def _kind(thing: Mask) -> str:
    kinds, known = _silhouettes()
    seen = _normalised(thing)
    overlap = (known & seen).sum((1, 2)) / (known | seen).sum((1, 2))
    return kinds[int(overlap.argmax())]


def _position(things: list[Mask]) -> str:
    y, x = np.mean([np.argwhere(thing).mean(0) for thing in things], axis=0)
    return min(CENTRES, key=lambda name: (CENTRES[name][0] - x) ** 2 + (CENTRES[name][1] - y) ** 2)


@cache
def _pattern_at_size(pattern: str) -> Floats:
    full = pattern_mask(pattern).astype(np.float64)
    scale = full.shape[0] // SIZE
    return np.asarray(full.reshape(SIZE, scale, SIZE, scale).mean((1, 3)))


def _pattern(pixels: Floats, foreground: Mask, background: str) -> str:
    """Return the pattern that the background's lightness follows best, plain if it follows none clearly."""
    main, second = (np.array(tone, dtype=np.float64) for tone in TONES[background])
    clear = ~_widened(foreground, 5)
    tone = ((pixels - main) @ (second - main) / np.sum((second - main) ** 2))[clear]

    def strength(pattern: str) -> float:
        wave = _pattern_at_size(pattern)[clear]
        wave = wave - wave.mean()
        return float(abs((wave * tone).sum()) / ((wave**2).sum() + 1e-9))

    best = max(("striped", "dotted", "checked"), key=strength)
    return best if strength(best) > _CLEAR_PATTERN else "plain"


def _shared(names: list[str]) -> str:
    """Return the value that all objects share; for objects that differ, "mixed", which no caption names."""
    return names[0] if len(set(names)) == 1 else "mixed"


def read(image: npt.NDArray[np.uint8]) -> Attributes:
    """Return the attributes in an RGB image (height, width, 3; uint8; read at 128 × 128).

    With no object in sight only background, pattern and a count of 0 are returned; `colour` and `kind` are
    "mixed" if the objects differ in them. Raises ValueError for any other array.
    """
    pixels = _pixels(image)
    background = _background(pixels)
    foreground = filled(_foreground(pixels, background))
    things = _objects(foreground)
    shown: Attributes = {"background": background, "pattern": _pattern(pixels, foreground, background)}
    shown["count"] = len(things)
    if things:
        shown["colour"] = _shared([_fill(pixels, thing, background) for thing in things])
        shown["kind"] = _shared([_kind(thing) for thing in things])
        shown["position"] = _position(things)
    return shown


def score(image: npt.NDArray[np.uint8], caption: str) -> float:
    """Return the fraction, 0 to 1, of the attributes named in `caption` that the picture shows.

    `image` is RGB uint8 (height, width, 3) of any size. Colour and kind count as right only if every object
    has them. Raises `msd.models.demo.captions.BadCaption` for a caption outside the grammar, ValueError for
    another kind of array.
    """
    wanted = parse(caption)
    shown = read(image)
    return sum(shown.get(name) == value for name, value in wanted.items()) / len(wanted)
