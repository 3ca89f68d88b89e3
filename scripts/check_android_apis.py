"""Hold the stubs that exported Kotlin is compiled against to what LiteRT and Android really declare.

    python -m scripts.check_android_apis LiteRT
    python -m scripts.check_android_apis LiteRT --types types-android/package --compile --table

The first argument is a checkout of LiteRT's repository; with --revision, a git directory of it. --types is
npm's package @nativescript/types-android, unpacked. --compile compiles the Kotlin of whole projects by every
delivery against LiteRT's own Kotlin sources, warnings being errors. --table writes the calls that this Kotlin
makes to tests/android_stubs/calls.md. Prints a line for each difference; exit code 3 says that there is one.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import click

from msd.export.android.versions import VERSIONS
from scripts.android_apis import android, litert
from scripts.android_apis.calls import ExternalCall, calls, constants, named
from scripts.android_apis.classfile import read_jar
from scripts.android_apis.java import read_stubs
from scripts.android_apis.kotlin import Declaration
from scripts.android_apis.litert import Sources
from scripts.android_apis.table import Judges, read_play, replaced, rows
from scripts.android_apis.types import Class
from scripts.android_apis.typescript import read_types
from tests import kotlinc
from tests.android_projects import export_projects

ROOT = Path(__file__).parents[1]
STUBS = ROOT / "tests" / "android_stubs"
TABLE = ROOT / "tests" / "android_stubs" / "calls.md"
NEEDS_ANDROIDX = "ModelProvider.kt"
DIFFERENT = 3


@click.command(help=__doc__)
@click.argument("sources", type=click.Path(path_type=Path, exists=True))
@click.option("--revision", help="What of a git directory is read, such as v2.2.0.")
@click.option("--types", type=click.Path(path_type=Path, exists=True), help="The unpacked npm package.")
@click.option("--compile", "compiles", is_flag=True, help="Compile against LiteRT's own sources.")
@click.option("--table", is_flag=True, help="Write the table; needs --types.")
def main(sources: Path, revision: str | None, types: Path | None, compiles: bool, table: bool) -> None:
    """Print what differs."""
    if table and types is None:
        raise click.UsageError("--table needs --types, which knows where Android declares what")
    try:
        real = Sources(sources, revision)
        found, declared = _litert(real)
        framework = _types(types) if types else {}
        found += _android(framework) if types else []
        if compiles:
            _compile(real)
        if table:
            _write(declared, framework)
    except (ValueError, AssertionError) as problem:
        sys.exit(f"{problem}")
    for line in found:
        print(line)
    sys.exit(DIFFERENT if found else 0)


def _litert(sources: Sources) -> tuple[list[str], list[Declaration]]:
    texts = sources.read()
    declared = litert.declared(texts)
    ours = {
        str(path.relative_to(ROOT)): path.read_text("utf-8")
        for path in sorted((STUBS / "litert").glob("*.kt"))
    }
    stub = litert.declared({path: text for path, text in ours.items() if litert.OURS not in path})
    found = litert.differences(stub, declared)
    print(f"LiteRT at {sources.commit()}: {len(stub)} declarations of the stub, differences: {len(found)}")
    return found, declared


def _types(folder: Path) -> dict[str, Class]:
    files = sorted(folder.glob("**/android-platform-[0-9][0-9].d.ts"))
    if not files:
        raise ValueError(
            f"{folder} has no android-platform-NN.d.ts; it should be @nativescript/types-android"
        )
    return read_types(files[-1])


def _android(framework: dict[str, Class]) -> list[str]:
    stubs = {name: each for name, each in read_stubs(STUBS / "java").items() if name.startswith("android.")}
    found = android.differences(stubs, framework, VERSIONS.compile_sdk)
    members = sum(len(each.members) for each in stubs.values())
    said = f"{len(stubs)} classes and {members} members of the stubs"
    print(f"Android at API {VERSIONS.compile_sdk}: {said}, differences: {len(found)}")
    return found


def _compile(sources: Sources) -> None:
    """Compile what is exported against LiteRT's own sources; raises AssertionError with what kotlinc says."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        kotlin = []
        for path, text in sources.read().items():
            if not path.endswith(NEEDS_ANDROIDX):
                kotlin.append(folder / Path(path).name)
                kotlin[-1].write_text(text, "utf-8")
        _, *others = kotlinc.needed()
        real = kotlinc.compile_against(others, kotlin, "litert-real", "-nowarn")
        written = exported(folder / "exported")
        kotlinc.compile_against([real, *others], written, "exported-real")
    print(f"{len(written)} exported sources compile against LiteRT's own, without a warning")
    print(
        f"{NEEDS_ANDROIDX} and deployment/ were left out: they need AndroidX, and nothing exported uses them"
    )


def _write(declared: list[Declaration], framework: dict[str, Class]) -> None:
    with tempfile.TemporaryDirectory() as name:
        found = used(Path(name))
    judges = Judges(declared, framework, read_play(STUBS / "play.json"))
    TABLE.write_text(replaced(TABLE.read_text("utf-8"), rows(found, judges)), "utf-8")
    print(f"{len(found)} calls are in {TABLE.relative_to(ROOT)}")


def exported(folder: Path) -> list[Path]:
    """Return the Kotlin of projects by every delivery, exported to `folder`; the library is there once."""
    folder.mkdir(exist_ok=True)
    return [*kotlinc.SOURCES, *export_projects(folder)]


def used(folder: Path) -> list[ExternalCall]:
    """Return the calls and constants of LiteRT, Play and Android in what is exported to `folder`."""
    sources = exported(folder)
    jars = kotlinc.needed()
    jar = kotlinc.compile_against(jars, sources, "exported")
    libraries = {name: each for path in jars[:2] for name, each in read_jar(path).items()}
    texts = {path.as_posix(): path.read_text("utf-8") for path in sources}
    found = [*calls(read_jar(jar), libraries), *constants(texts, read_stubs(STUBS / "java"))]
    return sorted([*found, *named(texts, found)])


if __name__ == "__main__":
    main()
