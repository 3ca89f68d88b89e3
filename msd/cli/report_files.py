"""The files that `msd report` judges: those that its arguments name, each of their image sizes apart."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from msd.bundle import MANIFEST, RunsOn, open_bundle
from msd.errors import BadBundle, BadConfig
from msd.files.names import require_text
from msd.files.publication import complete
from msd.models.families import Family, families

Shapes = Mapping[str, tuple[int, ...]]
"""The shapes that the user gives inputs, by name."""

Files = Sequence[tuple[Path, RunsOn]]
"""The files to judge; those for the CPU are only listed."""


@dataclass(frozen=True)
class JudgedFile:
    """A file to judge at `path`, its processor, and the file that it is from.

    `size` is the key of its signature where that file has several: `path` then has this one alone.
    """

    path: Path
    runs_on: RunsOn
    original: Path
    size: str = ""

    @property
    def label(self) -> str:
        """The path of the original file, with the size where it has several."""
        return f"{self.original} at {self.size}" if self.size else str(self.original)


def sizes_apart(files: Files, folder: Path, shapes: Shapes) -> list[JudgedFile]:
    """Return `files`; in place of one with a signature for each of its graphs, a file in `folder` for each.

    One whose inputs leave sizes open becomes a file there with `shapes`. Raises BadModelFile, also where such
    a file is given none, and BadConfig for shapes that do not fit.
    """
    judged = list[JudgedFile]()
    unknown = dict(shapes)
    for n, (file, runs_on) in enumerate(files):
        own = _own_shapes(file, shapes) if shapes and runs_on == "gpu" else {}
        unknown = {name: shape for name, shape in unknown.items() if name not in own}
        judged += _sizes_of(file, runs_on, folder / str(n), own)
    if unknown:
        raise BadConfig(f"--shape names {', '.join(unknown)}, which is no input of these files")
    return judged


def _own_shapes(file: Path, shapes: Shapes) -> Shapes:
    """Return the shapes of inputs that the file has."""
    from msd.conversion.sizes.fix_shapes import inputs_by_name
    from msd.graph import tflite

    inputs = inputs_by_name(tflite.read(file).main)
    return {name: shape for name, shape in shapes.items() if name in inputs}


def _sizes_of(file: Path, runs_on: RunsOn, folder: Path, shapes: Shapes) -> Iterator[JudgedFile]:
    """Yield a file, or a file in `folder` for each of its sizes, whose inputs have the given shapes."""
    from msd.conversion.sizes.fix_shapes import require_fixed
    from msd.conversion.sizes.pick import write_signature
    from msd.graph import tflite

    graphs = tflite.read(file).graphs
    if shapes:
        yield _fixed(file, runs_on, folder, shapes)
        return
    if runs_on == "gpu":
        require_fixed(file, graphs[0])
    if len(graphs) < 2 or any(len(graph.signatures) != 1 for graph in graphs):
        yield JudgedFile(file, runs_on, file)
        return
    for n, key in enumerate(graph.signatures[0].key for graph in graphs):
        path = folder / str(n) / file.name
        path.parent.mkdir(parents=True)
        write_signature(file, key, path)
        yield JudgedFile(path, runs_on, file, key)


def _fixed(file: Path, runs_on: RunsOn, folder: Path, shapes: Shapes) -> JudgedFile:
    from msd.conversion.sizes.fix_shapes import fix_shapes

    folder.mkdir(parents=True)
    fix_shapes(file, shapes, folder / file.name)
    size = " ".join(f"{name}={','.join(map(str, shape))}" for name, shape in shapes.items())
    return JudgedFile(folder / file.name, runs_on, file, size)


def files_of(paths: tuple[Path, ...]) -> Files:
    """Return the .tflite files that `paths` name; raises BadBundle, and BadConfig for a bad name."""
    files: list[tuple[Path, RunsOn]] = []
    for path in paths:
        require_text(path)
        files += _components(path) if path.is_dir() else [(path, "gpu")]
    return files


def _components(folder: Path) -> Files:
    """Return the files that the folder's manifest lists; those of a whole family where it has none."""
    complete(folder)
    if (folder / MANIFEST).exists():
        parts = open_bundle(folder).manifest.components.values()
        return [(folder / part.file, part.runs_on) for part in parts]
    missing = [(family, _missing(folder, family)) for family in families().values()]
    family, lacking = min(missing, key=lambda pair: len(pair[1]))
    if lacking:
        names = ", ".join(lacking)
        raise BadBundle(f"{folder} has neither {MANIFEST} nor {names}; name the files to judge instead")
    runs_on: dict[str, RunsOn] = dict.fromkeys(family.lookups, "cpu")
    listed = [(folder / f"{name}.tflite", runs_on.get(name, "gpu")) for name in family.files]
    return [(path, processor) for path, processor in listed if path.is_file()]


def _missing(folder: Path, family: Family) -> list[str]:
    """Return the files of a family that a folder lacks."""
    names = [f"{component}.tflite" for component in family.required]
    return [name for name in names if not (folder / name).is_file()]
