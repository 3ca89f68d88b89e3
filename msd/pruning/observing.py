"""A calibration, as pruning wants it: the whole networks, and what they are fed."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path

from msd.bundle import Bundle
from msd.calibration.drawing import Calibration
from msd.calibration.inputs import Runs, open_folder
from msd.ir import Model
from msd.ports import Ports
from msd.pruning.passes import Observed


def observe(
    calibration: Calibration,
    components: Collection[str],
    fed: Callable[[str], Model],
    plain: Callable[[Path], Bundle],
    folder: Path,
) -> Observed:
    """Return the networks at work on `calibration`; files go to `folder`.

    `fed` makes a component with the inputs that its file takes; `plain` converts the checkpoint into a
    folder, which is needed to draw prompts, not for a folder of inputs. Raises BadCalibration.
    """
    runs: dict[str, Runs]
    if calibration.given is not None and calibration.given.is_dir():
        ports = {name: Ports.of(fed(name), calibration.given) for name in components}
        runs = {name: open_folder(calibration.given, name, port.inputs) for name, port in ports.items()}
    else:
        runs = calibration.runs(plain(folder / "plain"), list(components), folder / "inputs")
    return Observed(lambda name: fed(name).main, runs, folder)
