"""The texts of an exported project: Gradle files, Kotlin sources, resources, README.md."""

from __future__ import annotations

import re
import shlex
from dataclasses import asdict, dataclass
from importlib.resources import files
from pathlib import Path

import msd
from msd.export.android import delivery
from msd.export.android.manifest import NAME, AppManifest
from msd.export.android.model_files import licence_of
from msd.export.android.packs import Pack, size
from msd.export.android.settings import AndroidSettings
from msd.export.android.templates import fill
from msd.export.android.tokenizer_files import MERGES, VOCABULARY
from msd.export.android.versions import LIMITS, VERSIONS

RUNTIME = Path("sd-runtime")
SAMPLE = Path("sample")
ASSETS = RUNTIME / "src/main/assets/sd-models"
GROUP, REST = "enough_memory", "other"
TARGETING = "device-targeting.xml"
EXAMPLE = "https://example.com/sd-models/"


def folder_of(pack: Pack, settings: AndroidSettings, group: str = GROUP) -> Path:
    """Return the folder of a pack's files, which includes its name: packs must not share paths."""
    targeted = f"#group_{group}" if settings.min_ram else ""
    return Path(pack.folder) / "src/main/assets" / (pack.name + targeted)


@dataclass(frozen=True)
class Project:
    """An exported project: everything that its texts depend on; `folder` is the name of its folder."""

    folder: str
    settings: AndroidSettings
    manifest: AppManifest
    packs: tuple[Pack, ...]

    def texts(self) -> dict[str, str]:
        """Return the text of every file but the model's, by its path in the project."""
        return {
            **self._runtime(),
            **self._delivery(),
            **self._packs(),
            **self._sample(),
            "settings.snippet.gradle.kts": fill(
                "whole/settings.snippet.gradle.kts", folder=_kotlin(self.folder), modules=self._modules()
            ),
            "install-to-device.sh": fill(
                "whole/install-to-device.sh", package=self.settings.package, files=self._shell_words()
            ),
            "NOTICE": self._notice(),
            "README.md": self._readme(),
        }

    def _runtime(self) -> dict[str, str]:
        sources = files("msd.export.android").joinpath("kotlin")
        return {
            f"{RUNTIME}/build.gradle.kts": fill(
                "runtime/build.gradle.kts",
                **asdict(VERSIONS),
                dependency=delivery.dependencies(self.settings.delivery),
            ),
            f"{RUNTIME}/consumer-rules.pro": fill("runtime/consumer-rules.pro"),
            f"{RUNTIME}/src/main/AndroidManifest.xml": fill(
                "runtime/AndroidManifest.xml", entries=delivery.manifest_entries(self.settings.delivery)
            ),
            **{
                f"{RUNTIME}/src/main/kotlin/dev/msd/runtime/{path.name}": path.read_text("utf-8")
                for path in sources.iterdir()
                if path.name.endswith(".kt")
            },
        }

    def _delivery(self) -> dict[str, str]:
        """Return the sources that fetch the model, and their resources."""
        main, kind = f"{RUNTIME}/src/main", self.settings.delivery
        sources, resources = delivery.sources(kind, self.packs), delivery.resources(kind)
        return {
            **{f"{main}/kotlin/dev/msd/delivery/{name}": text for name, text in sources.items()},
            **{f"{main}/res/{name}": text for name, text in resources.items()},
        }

    def _packs(self) -> dict[str, str]:
        plugin = self.settings.delivery
        block = "aiPack" if plugin == "ai-pack" else "assetPack"
        texts = {
            f"{pack.folder}/build.gradle.kts": fill(
                "packs/build.gradle.kts", plugin=plugin, block=block, pack=pack.name
            )
            for pack in self.packs
        }
        if self.settings.min_ram:
            texts[f"{SAMPLE}/{TARGETING}"] = fill(
                f"packs/{TARGETING}", group=GROUP, min_ram=self.settings.min_ram
            )
            for pack in self.packs:
                path = folder_of(pack, self.settings, REST) / delivery.PLACEHOLDER
                texts[path.as_posix()] = delivery.placeholder(self.settings.min_ram)
        return texts

    def _sample(self) -> dict[str, str]:
        package = self.settings.package
        source = f"{SAMPLE}/src/main/kotlin/{package.replace('.', '/')}/DrawActivity.kt"
        res = ("layout/draw.xml", "values/strings.xml")
        return {
            f"{SAMPLE}/build.gradle.kts": fill(
                "sample/build.gradle.kts", **asdict(VERSIONS), package=package, packs=self._pack_lines()
            ),
            f"{SAMPLE}/src/main/AndroidManifest.xml": fill("sample/AndroidManifest.xml"),
            **{f"{SAMPLE}/src/main/res/{name}": fill(f"sample/res/{name}") for name in res},
            source: fill("sample/DrawActivity.kt", package=package, address=self._address),
        }

    @property
    def _steps(self) -> list[int]:
        return [schedule.count for schedule in self.manifest.schedules]

    @property
    def _address(self) -> str:
        return f', "{EXAMPLE}"' if self.settings.delivery == "download" else ""

    def _modules(self) -> str:
        names = (RUNTIME.name, *(pack.folder for pack in self.packs), SAMPLE.name)
        return ", ".join(f'"{name}"' for name in names)

    def _pack_lines(self) -> str:
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

    def _shell_words(self) -> str:
        """Return the model's files as words of a shell's `for`; the manifest is last and completes them."""
        small = (VOCABULARY, MERGES, NAME)
        if self.packs:
            first = folder_of(self.packs[0], self.settings)
            large = [folder_of(pack, self.settings) / name for pack in self.packs for name in pack.files]
        else:
            first = Path("download") if self.settings.delivery == "download" else ASSETS
            large = [first / file.name for file in self.manifest.files if file.signature]
        paths = [*large, *(first / name for name in small)]
        return " \\\n".join(f"    {shlex.quote(path.as_posix())}" for path in paths)

    def _notice(self) -> str:
        weights = self.manifest.weights
        return fill(
            "whole/NOTICE",
            name=_line(weights.name),
            kind=_line(weights.kind),
            licence=_line(licence_of(self.manifest)),
            files="\n".join(f"{sha256}  {_line(name)}" for name, sha256 in weights.sha256.items()),
        )

    def _readme(self) -> str:
        manifest, indent = self.manifest, "           "
        plugins = {
            "com.android.application": VERSIONS.gradle_plugin,
            "com.android.library": VERSIONS.gradle_plugin,
            "org.jetbrains.kotlin.android": VERSIONS.kotlin,
        }
        if self.packs:
            plugins[f"com.android.{self.settings.delivery}"] = VERSIONS.gradle_plugin
        lines = [f'{indent}id("{name}") version "{version}" apply false' for name, version in plugins.items()]
        return fill(
            "whole/README.md",
            **asdict(VERSIONS),
            name=_line(manifest.weights.name),
            msd=msd.__version__,
            width=manifest.width,
            height=manifest.height,
            steps=" or ".join(map(str, self._steps)),
            scheduler=manifest.scheduler,
            size=size(sum(file.bytes for file in manifest.files)),
            licence=_line(licence_of(manifest)),
            folders=self._folders(),
            package=self.settings.package,
            plugins="\n".join(lines),
            packs=self._pack_lines().replace("\n", "\n       "),
            delivery=self._delivery_section(),
            address=self._address,
        )

    def _folders(self) -> str:
        rows = [f"| `{pack.folder}/` | {', '.join(pack.files)} |" for pack in self.packs]
        if self.settings.delivery == "download":
            rows = ["| `download/` | the model, for your web server |"]
        if self.settings.delivery == "assets":
            rows = [f"| `{ASSETS}/` | the model |"]
        return "\n".join(rows)

    def _delivery_section(self) -> str:
        gaps = {"pack_limit": size(LIMITS.pack), "total_limit": size(LIMITS.packs), "targeting": ""}
        if self.settings.min_ram:
            gaps["targeting"] = fill("delivery/targeting.md", memory=size(self.settings.min_ram)).rstrip()
        return fill(f"delivery/{self.settings.delivery}.md", **gaps).strip()


def _kotlin(text: str) -> str:
    """Return `text` escaped for a Kotlin string."""
    return re.sub(r'([\\"$])', r"\\\1", _line(text))


def _line(text: str) -> str:
    """Return `text` on one line, without unprintable characters."""
    return "".join(c for c in " ".join(text.split()) if c.isprintable())
