"""What a bundle must be for an app or a page to run it."""

from __future__ import annotations

from msd.bundle import Bundle
from msd.errors import BadBundle, BadConfig
from msd.run.runtime.needs import require_generates


def require_runs(bundle: Bundle, precision: str) -> None:
    """Raise BadBundle for a bundle that no app or page can run, BadConfig for an unknown precision."""
    if set(bundle.family.lookups) & set(bundle.manifest.components):
        raise BadBundle(
            f"{bundle.folder} is for TensorFlow Lite's delegate, and an app runs LiteRT's;"
            " convert with another recipe than tflite-gpu-w8"
        )
    require_generates(bundle)
    if bundle.wiring.edited:
        raise BadBundle(
            f"{bundle.folder} edits images, with guidance by the image too, which apps and pages do not have;"
            " msd generate --image edits one"
        )
    if precision not in ("fp16", "fp32"):
        raise BadConfig(f"precision {precision!r} is not known; there are fp16 and fp32")
