"""The images of a command: each is saved once it is made, so that nothing that comes later can lose it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msd.cli.plain import say, say_json
from msd.files.wording import counted, plural

if TYPE_CHECKING:
    from msd.run.runtime.image import GeneratedImage


class MadeImages:
    """Saves images in `paths`, in their order; with `force` in place of others.

    `decoded_last`: whether all are denoised before the first is decoded.
    """

    def __init__(self, paths: Sequence[Path], force: bool, decoded_last: bool = False) -> None:
        self._paths, self._force, self._decoded_last = paths, force, decoded_last
        self._made: list[GeneratedImage] = []
        self._saved = 0
        self._seconds: list[float] = []
        self._runs = 0

    def on_step(self, done: int, total: int, seconds: float) -> None:
        """Note the seconds of a step; all images have the same number of them."""
        self._seconds.append(seconds)
        self._runs = total // len(self._paths)

    def on_image(self, image: GeneratedImage) -> None:
        """Save an image, but for the last one, which `finish` saves."""
        self._made.append(image)
        if len(self._made) < len(self._paths):
            self._save()

    def finish(self, as_json: bool) -> None:
        """Save the last image if it is made; print a line for each one that is saved, whatever failed.

        A line has the file, its size, seed and steps, and the seconds of denoising it.
        """
        try:
            if self._saved < len(self._made) == len(self._paths):
                self._save()
        finally:
            self._say(as_json)
            self._say_lost()

    def _say(self, as_json: bool) -> None:
        for i, (path, image) in enumerate(zip(self._paths, self._made[: self._saved], strict=False)):
            seconds = sum(self._seconds[i * self._runs : (i + 1) * self._runs])
            _print(path, image, seconds, as_json)

    def _say_lost(self) -> None:
        """Say how many images were denoised in vain, where another execution would have saved them."""
        lost = len(self._seconds) // self._runs - len(self._made) if self._runs else 0
        if self._decoded_last and lost:
            images = f"{counted(lost, 'image')} that {plural(lost, 'was', 'were')}"
            say(f"lost: {images} denoised; --execution pipelined saves each once it is", err=True)

    def _save(self) -> None:
        from msd.run.runtime.image import save_image

        save_image(self._made[-1], self._paths[self._saved], self._force)
        self._saved += 1


def _print(path: Path, image: GeneratedImage, seconds: float, as_json: bool) -> None:
    height, width, _ = image.pixels.shape
    facts = {"picture": str(path), "width": width, "height": height}
    report = {**facts, **image.metadata, "seconds": round(seconds, 6)}
    if as_json:
        say_json(json.dumps(report, ensure_ascii=False))
    else:
        scheduler = report["scheduler"].partition(",")[0]
        line = "{picture}: {width}×{height}, seed {seed}, {steps} of {of}, {seconds:.3f} s"
        say(line.format_map({**report, "of": scheduler, "steps": counted(report["steps"], "step")}), err=True)
