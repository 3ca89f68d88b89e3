"""An exported project: all that its texts depend on, and the folders and modules that it has."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from msd.export.android.expect import Expected
from msd.export.android.packs import Pack
from msd.export.android.settings import AndroidSettings
from msd.export.app.manifest import AppManifest
from msd.export.app.model_files import networks

RUNTIME, APP = Path("sd-runtime"), Path("app")
ASSETS = RUNTIME / "src/main/assets/sd-models"
DOWNLOAD = Path("download")
GROUP, REST = "enough_memory", "other"
TARGETING = "device-targeting.xml"
EXAMPLE = "https://example.com/sd-models/"


@dataclass(frozen=True)
class Project:
    """An exported project; `folder` is its folder's name, `expected` the image of its instrumented test."""

    folder: str
    settings: AndroidSettings
    manifest: AppManifest
    packs: tuple[Pack, ...]
    expected: Expected | None = None

    @property
    def catalog(self) -> str:
        """The name of the version catalog: Gradle's own in a whole project, another beside a user's."""
        return "libs" if self.settings.app else "sd"

    @property
    def libraries(self) -> tuple[str, ...]:
        """The names of the modules besides the app, which are their folders, too."""
        return (RUNTIME.name, *(pack.folder for pack in self.packs))

    @property
    def address(self) -> str:
        """The argument of `Models` after the context: where downloads come from."""
        return f', "{EXAMPLE}"' if self.settings.delivery == "download" else ""

    @property
    def folders(self) -> dict[str, Path]:
        """The folder of each network, by its file's name."""
        if self.packs:
            return {name: folder_of(pack, self.settings) for pack in self.packs for name in pack.files}
        return {file.name: self.first_folder for file in networks(self.manifest)}

    @property
    def first_folder(self) -> Path:
        """The folder of the manifest, the tokenizer, and the first networks."""
        if self.packs:
            return folder_of(self.packs[0], self.settings)
        return DOWNLOAD if self.settings.delivery == "download" else ASSETS

    def pack_lines(self) -> str:
        """Return the lines about packs in an app's Gradle file, inside `android { }`."""
        lines = []
        if self.packs:
            modules = ", ".join(f'":{pack.folder}"' for pack in self.packs)
            lines.append(f"assetPacks += listOf({modules})")
        if self.settings.min_ram:
            lines += [
                "bundle {",
                f'    deviceTargetingConfig = file("{TARGETING}")',
                f'    deviceGroup {{ enableSplit = true; defaultGroup = "{REST}" }}',
                "}",
            ]
        return "".join(f"\n    {line}" for line in lines)


def folder_of(pack: Pack, settings: AndroidSettings, group: str = GROUP) -> Path:
    """Return the folder of a pack's files, which includes its name: packs must not share paths."""
    targeted = f"#group_{group}" if settings.min_ram else ""
    return Path(pack.folder) / "src/main/assets" / (pack.name + targeted)


def on_one_line(text: str) -> str:
    """Return `text` on one line, without unprintable characters."""
    return "".join(c for c in " ".join(text.split()) if c.isprintable())
