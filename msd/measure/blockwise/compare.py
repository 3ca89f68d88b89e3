"""Two bundles of one checkpoint, block by block."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from msd.bundle import Bundle
from msd.compress.calibration.generated_inputs import Calibration
from msd.errors import BadBundle
from msd.files.scratch import scratch_folder
from msd.graph import tflite
from msd.measure.blockwise.measure import measure
from msd.measure.blockwise.result import BlockReport, ComponentErrors
from msd.models.families import title_of

INTEGERS = ("INT8", "INT4", "INT2")

OnProgress = Callable[[str, str, int, int], None]
"""Called with the component, the activity, the amount done, and the total amount."""

OnStopped = Callable[[BlockReport], None]
"""Called with the blocks that were measured before something ended a comparison."""


def compare(
    reference: Bundle,
    compressed: Bundle,
    components: Sequence[str],
    calibration: Calibration,
    final: bool,
    on_progress: OnProgress,
    command: str = "",
    on_stopped: OnStopped = lambda report: None,
) -> BlockReport:
    """Return the error of each block of `components` of `compressed`, on the inputs of `reference`.

    `command` is noted in the report; `final` as in `measure`. Raises BadBundle for bundles of different
    checkpoints and for a reference with integer weights, and what `measure` and `Calibration.runs` raise.
    `on_stopped` gets what was measured before that, or before Ctrl-C.
    """
    _require_comparable(reference, compressed, components)
    report = BlockReport(
        command=command,
        reference=reference.folder.name,
        reference_hash=reference.model_hash,
        compressed=compressed.folder.name,
        compressed_hash=compressed.model_hash,
        calibration=str(calibration.completed(reference.manifest.images)),
        components={},
    )
    measured: dict[str, ComponentErrors] = report.components
    with scratch_folder() as folder:
        runs = calibration.runs(
            reference,
            components,
            folder,
            lambda done, of, s: on_progress("inputs", "generating", done, of),
        )
        try:
            for name in components:
                measured[name] = measure(
                    reference.path(name),
                    compressed.path(name),
                    runs[name],
                    final,
                    partial(on_progress, name),
                    weights=ledger.weights if (ledger := compressed.manifest.ledger.get(name)) else (),
                    on_stopped=partial(measured.__setitem__, name),
                )
        except BaseException:
            if measured:
                on_stopped(report)
            raise
    return report


def _require_comparable(reference: Bundle, compressed: Bundle, components: Sequence[str]) -> None:
    require_same_checkpoint(reference, compressed)
    for bundle in (reference, compressed):
        require_in_one_file(bundle, components)
    for name in components:
        compressed.component(name)
        reference.component(name)
        _require_alike(reference, compressed, name)
        require_floats(reference, name)


def _require_alike(reference: Bundle, compressed: Bundle, name: str) -> None:
    """Raise BadBundle where one bundle alone has the rows of tokens in a file of their own."""
    lookup = reference.family.component(name).lookup
    split = [bundle.folder for bundle in (reference, compressed) if lookup in bundle.manifest.components]
    if len(split) == 1:
        raise BadBundle(
            f"{split[0]} alone has the {title_of(name)} in two files, and blocks are compared in one; name"
            " other components with --component"
        )


def require_floats(reference: Bundle, component: str) -> None:
    """Raise BadBundle for a reference whose weights are integers themselves: it shows no error of theirs."""
    path = reference.path(component)
    constants = (t for graph in tflite.read(path).graphs for t in graph.tensors() if t.data is not None)
    small = next((t for t in constants if t.dtype in INTEGERS and t.quant is not None), None)
    if small is not None:
        raise BadBundle(
            f"{path} cannot be the reference: it stores {small.name} as {small.dtype.lower()};"
            " give a bundle of the same checkpoint that was converted with --recipe float32"
        )


def require_in_one_file(bundle: Bundle, components: Sequence[str]) -> None:
    """Raise BadBundle for a component in two halves: blocks are those of a whole network."""
    for name in components:
        half = bundle.family.component(name).first_half
        if half in bundle.manifest.components:
            raise BadBundle(
                f"{bundle.folder} has the {title_of(name)} in two files, and blocks are compared in one;"
                " convert it without --split"
            )


def components_of_both(one: Bundle, other: Bundle) -> tuple[str, ...]:
    """Return the components that a bundle should have, and those optional ones that both have."""
    shared = {*one.manifest.components} & {*other.manifest.components}
    return one.family.ordered({*one.family.required, *shared})


def require_same_checkpoint(reference: Bundle, compressed: Bundle) -> None:
    """Raise BadBundle for bundles of different checkpoint files, or with different LoRA files merged."""
    ours, theirs = reference.manifest.source, compressed.manifest.source
    both = set(ours.files) & set(theirs.files)
    different = sorted(name for name in both if ours.files[name].sha256 != theirs.files[name].sha256)
    if different or ours.adapters != theirs.adapters:
        why = f"{different[0]} is another file" if different else "other LoRA files were merged"
        raise BadBundle(
            f"{compressed.folder} and {reference.folder} were not converted from one checkpoint: {why}"
        )
