"""A run of the real delegate as a report stores it, for tests that need one and have no GPU."""

from __future__ import annotations

from typing import Any

from msd.measure.report.delegate_run import DelegateRun, RejectedKind

WHOLE: dict[str, Any] = {
    "file": "unet.tflite",
    "ok": True,
    "objections": (),
    "notes": (),
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
    "threshold_db": 60.0,
    "psnr_db": 120.0,
    "max_difference": 0.0,
    "outputs": (),
    "failure": None,
    "crashed": False,
    "problems": (),
    "reference_failure": None,
    "compile_seconds": 1.0,
    "run_seconds": 1.0,
    "seconds": 2.0,
    "log": (),
}


def delegate_run(**changes: Any) -> DelegateRun:
    """Return a run in which the delegate takes all of a file, but for `changes`."""
    return DelegateRun(**{**WHOLE, **changes})


def rejected(kind: str, reason: str) -> RejectedKind:
    """Return the rejection of one operation."""
    return RejectedKind(kind=kind, reason=reason, operations=(0,), of=1, exact=True, tensors=())
