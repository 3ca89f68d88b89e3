"""The texts for people: README.md and NOTICE, and the script that pushes a model to a phone."""

from __future__ import annotations

import shlex
from dataclasses import asdict

import msd
from msd.export.android.packs import size
from msd.export.android.project import ASSETS, Project, on_one_line
from msd.export.android.templates import fill
from msd.export.android.versions import LIMITS, VERSIONS
from msd.export.app.manifest import NAME
from msd.export.app.model_files import licence_of
from msd.export.app.tokenizer_files import MERGES, VOCABULARY
from msd.files.wording import listed

LIMITS_SAID = f" The limits of\nGoogle Play are those of {LIMITS.read}: look them up before you publish."
SERVICE = " The download of the model has a service of its own."
PUSHED = (
    "`./install-to-device.sh` pushes the model over adb into the debug app, which prefers it to all else: no"
    " delivery is needed\n   while you develop."
)
INCLUDED = "The model is a part of the app: there is nothing to push or to fetch."
SMALL_SAID = (
    "\nA small model, of up to some 100 MB, is simplest as a part of the app:"
    " `msd export-android --delivery assets`."
)
ASSETS_SAID = (
    "| `{folder}/` | the model's manifest once more, by which the app knows it before any file arrives, and a"
    " tiny network to try the GPU with |\n"
)


def readme_texts(project: Project) -> dict[str, str]:
    """Return the texts for people, by their paths in the project."""
    return {
        "README.md": _readme(project),
        "NOTICE": _notice(project),
        "install-to-device.sh": fill(
            "whole/install-to-device.sh", package=project.settings.package, files=_shell_words(project)
        ),
    }


def _readme(project: Project) -> str:
    manifest, settings = project.manifest, project.settings
    included = settings.delivery == "assets"
    return fill(
        "whole/app.md" if settings.app else "whole/library.md",
        **asdict(VERSIONS),
        name=on_one_line(manifest.weights.name),
        msd=msd.__version__,
        width=manifest.width,
        height=manifest.height,
        steps=listed((str(schedule.count) for schedule in manifest.schedules), "or"),
        scheduler=manifest.scheduler,
        size=size(sum(file.bytes for file in manifest.files)),
        licence=on_one_line(licence_of(manifest)),
        folders=_folders(project),
        package=settings.package,
        packs=project.pack_lines().replace("\n", "\n       "),
        delivery=_delivery(project),
        push=INCLUDED if included else PUSHED,
        small="" if included else SMALL_SAID,
        address=project.address,
        test=_test(project),
        limits=LIMITS_SAID if project.packs else "",
        service=SERVICE if settings.delivery == "download" else "",
        assets=ASSETS_SAID.format(folder=ASSETS) if project.first_folder != ASSETS else "",
    )


def _folders(project: Project) -> str:
    rows = [f"| `{pack.folder}/` | {', '.join(pack.files)} |" for pack in project.packs]
    if project.settings.delivery == "download":
        rows = ["| `download/` | the model, for your web server |"]
    if project.settings.delivery == "assets":
        rows = [f"| `{ASSETS}/` | the model |"]
    return "\n".join(rows)


def _delivery(project: Project) -> str:
    gaps = {"pack_limit": size(LIMITS.pack), "total_limit": size(LIMITS.packs), "targeting": ""}
    if project.settings.min_ram:
        gaps["targeting"] = fill("delivery/targeting.md", memory=size(project.settings.min_ram)).rstrip()
    text = fill(f"delivery/{project.settings.delivery}.md", **gaps).strip()
    return text.replace("\n   ", "\n") if project.settings.app else text  # else in a list


def _test(project: Project) -> str:
    """Return the section on the instrumented test, or on how to have one."""
    if project.expected is None:
        return "\n" + fill("whole/no-test.md")
    gaps = {"package": project.settings.package, "least_psnr": f"{project.expected.least_psnr:g}"}
    return "\n" + fill("whole/test.md", **gaps)


def _shell_words(project: Project) -> str:
    """Return the model's files as words of a shell's `for`; the manifest is last and completes them."""
    networks = [folder / name for name, folder in project.folders.items()]
    paths = [*networks, *(project.first_folder / name for name in (VOCABULARY, MERGES, NAME))]
    return " \\\n".join(f"    {shlex.quote(path.as_posix())}" for path in paths)


def _notice(project: Project) -> str:
    weights = project.manifest.weights
    return fill(
        "whole/NOTICE",
        name=on_one_line(weights.name),
        kind=on_one_line(weights.kind),
        licence=on_one_line(licence_of(project.manifest)),
        files="\n".join(f"{sha256}  {on_one_line(name)}" for name, sha256 in weights.sha256.items()),
    )
