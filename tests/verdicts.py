"""A verdict of the real delegate as a report stores it, for tests that need one and have no GPU."""

from __future__ import annotations

from typing import Any

from msd.measure.judging import Distance, Rejection, Verdict

WHOLE: dict[str, Any] = {
    "file": "unet.tflite",
    "adapter": "an adapter",
    "adapter_type": "GPU",
    "precision_asked": "fp32",
    "precision": "fp32",
    "operations": 3,
    "subgraphs": 1,
    "delegated": 3,
    "partitions": 1,
    "confirmed": True,
    "rejected": (),
    "failure": None,
    "crashed": False,
    "problems": (),
    "reference_failure": None,
    "compile_seconds": 1.0,
    "run_seconds": 1.0,
    "seconds": 2.0,
    "log": (),
}


def whole_verdict(psnr_db: float | None = 120.0, **changes: Any) -> Verdict:
    """Return the verdict on a file that the delegate takes whole, but for `changes`."""
    output = Distance("y", psnr_db, None if psnr_db is None else 1e-6, 1.0, psnr_db is not None, False)
    return Verdict(**{**WHOLE, "outputs": (output,), **changes})


def rejected(kind: str, reason: str) -> Rejection:
    """Return the rejection of one operation."""
    return Rejection(kind=kind, reason=reason, operations=(0,), of=1)
