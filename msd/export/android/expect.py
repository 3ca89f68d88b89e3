"""The image that a phone should generate: a PNG of `msd generate`, whose request is in its text chunks.

expected = read_expected(Path("expected.png"), manifest)
expected.dump()          # expected.json of the instrumented test
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from msd.bounds import MOST_SEED
from msd.errors import BadImage
from msd.export.app.manifest import AppManifest
from msd.files.wording import counted, listed

LEAST_PSNR = 30.0
"""The least PSNR in dB of a phone's image: below, it is another image.

docs/android-app.md has what wrong networks and what rounding cost images of the demo checkpoint: 17 to 28 dB
remain, and 36 or more. No phone has been measured.
"""
OTHERS = {
    "image": "began from an image",
    "controls": "was steered by a picture",
    "upscale": "was enlarged",
}
"""What an image has a text chunk of that is generated from more than a prompt, and what that says."""
CHUNKS = ("prompt", "negative_prompt", "seed", "steps", "guidance", "scheduler", "model")


@dataclass(frozen=True)
class Expected:
    """An image that a phone should generate: the path of its PNG, its request, and the least PSNR in dB."""

    path: Path
    prompt: str
    negative_prompt: str
    seed: int
    steps: int
    guidance: float
    least_psnr: float = LEAST_PSNR

    def dump(self) -> str:
        """Return the text of expected.json, ending in a newline."""
        facts = {name: value for name, value in asdict(self).items() if name != "path"}
        return json.dumps(facts, indent=1, ensure_ascii=False) + "\n"


def read_expected(path: Path, manifest: AppManifest) -> Expected:
    """Return the request of a PNG that `msd generate` wrote, for an app with this manifest.

    Raises BadImage for a file that is no such PNG, and for an image of another model, size, scheduler or
    number of steps than the app's, or of a kind that the app's test does not generate.
    """
    size, chunks = _read(path)
    missing = [name for name in CHUNKS if name not in chunks]
    if missing:
        raise BadImage(
            f"{path} does not say how it was made (it has no {missing[0]!r}); give a PNG of msd generate"
        )
    expected = _request(path, chunks)
    for name in OTHERS.keys() & chunks.keys():
        raise BadImage(f"{path} {OTHERS[name]}, and the app's test generates from prompts alone")
    # Before the model, whose hash the size changes too.
    _require_same(path, "size", f"{size[0]}x{size[1]}", f"{manifest.width}x{manifest.height}")
    _require_same(path, "model", chunks["model"], manifest.model)
    _require_same(path, "scheduler", chunks["scheduler"], f"{manifest.scheduler}, {manifest.prediction}")
    if chunks.get("prompt_syntax", "plain") != "plain":
        raise BadImage(f"{path} has a prompt with weights, and the app takes prompts as they are")
    counts = [schedule.count for schedule in manifest.schedules]
    if expected.steps not in counts:
        steps = counted(expected.steps, "step")
        raise BadImage(
            f"{path} has {steps} and the app {listed(counts, 'or')}; export with --steps {expected.steps}"
        )
    return expected


def _read(path: Path) -> tuple[tuple[int, int], dict[str, str]]:
    """Return the width and height of a PNG, and its text chunks."""
    from PIL import Image, PngImagePlugin, UnidentifiedImageError

    try:
        with Image.open(path, formats=["PNG"]) as image:
            image.load()
            assert isinstance(image, PngImagePlugin.PngImageFile)
            return image.size, {name: str(text) for name, text in image.text.items()}
    except UnidentifiedImageError as problem:
        raise BadImage(f"{path} is no PNG; give one that msd generate wrote") from problem
    except (OSError, SyntaxError, ValueError) as problem:
        raise BadImage(f"cannot read {path} ({problem}); give a PNG that msd generate wrote") from problem


def _request(path: Path, chunks: dict[str, str]) -> Expected:
    try:
        expected = Expected(
            path=path,
            prompt=chunks["prompt"],
            negative_prompt=chunks["negative_prompt"],
            seed=int(chunks["seed"]),
            steps=int(chunks["steps"]),
            guidance=float(chunks["guidance"]),
        )
    except ValueError as problem:
        raise BadImage(f"{path} has a request that cannot be read ({problem})") from problem
    if not 0 <= expected.seed <= MOST_SEED:
        raise BadImage(f"{path} has the seed {expected.seed}; an app takes 0 to {MOST_SEED}")
    return expected


def _require_same(path: Path, what: str, found: str, wanted: str) -> None:
    if found != wanted:
        raise BadImage(f"{path} has another {what} ({found}) than the app ({wanted})")
