"""The script that holds our stubs to what LiteRT and Android declare: it finds each kind of difference."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from msd.export.android.settings import DELIVERIES
from msd.export.android.versions import VERSIONS
from scripts import check_android_apis
from scripts.android_apis import android, litert
from scripts.android_apis.calls import ExternalCall
from scripts.android_apis.java import read_java
from scripts.android_apis.litert import FOLDER, Sources
from scripts.android_apis.table import BEGIN, END, Judges, read_play, replaced, rows
from scripts.android_apis.typescript import read_types

ROOT = Path(__file__).parents[1]
TABLE = ROOT / "tests" / "android_stubs" / "calls.md"

REAL = """
package a

/** A model; fun commented(out: Int) is none. */
class Model private constructor(handle: Long) : Handle(handle) {
  enum class Kind constructor(val value: Int) { FIRST(0), @Deprecated("Use FIRST.") SECOND(1); }

  data class Options
  constructor(
    val threads: Int? = null, // { unbalanced (
    val name: String = "}",
  ) {
    internal fun toMap(): Map<String, Int> { return mapOf() }
  }

  var options: Options? = null

  @Throws(Problem::class)
  fun run(inputs: Map<String, Buffer>, signature: String = ""): List<Buffer> {
    return listOf()
  }

  fun run(inputs: List<Buffer>) { nativeRun(inputs) }

  protected abstract fun destroy()

  companion object {
    @JvmStatic
    fun create(path: String, options: Options = Options(), env: Env? = null): Model = Model(0L)

    @JvmStatic private external fun nativeRun(inputs: List<Buffer>)
  }
}
"""
STUB = """
package a
class Model private constructor(handle: Long) : Handle(handle) {
    enum class Kind constructor(val value: Int) {
        FIRST(0),

        @Deprecated("Use FIRST.")
        SECOND(1),
    }

    data class Options
    constructor(val threads: Int? = null, val name: String = "}")

    var options: Options? = null

    @Throws(Problem::class)
    fun run(inputs: Map<String, Buffer>, signature: String = ""): List<Buffer> = error("Stub!")

    fun run(inputs: List<Buffer>) = Unit

    protected abstract fun destroy(): Unit

    companion object {
        @JvmStatic
        fun create(path: String, options: Options = Options(), env: Env? = null): Model = Model(0)
    }
}
"""


def compared(stub: str, real: str = REAL) -> list[str]:
    return litert.differences(litert.declared({"Stub.kt": stub}), litert.declared({"Model.kt": real}))


def test_a_stub_written_in_another_style_says_the_same() -> None:
    assert compared(STUB.replace("List<Buffer>) = Unit", "List<Buffer>): Unit = Unit")) == []


CHANGES = {
    "a default": ('signature: String = ""', 'signature: String = "serving"', 'signature: String = ""'),
    "no default": ('signature: String = ""', "signature: String", 'signature: String = ""'),
    "nullability": ("signature: String =", "signature: String? =", 'signature: String = ""'),
    "a field's nullability": ("threads: Int?", "threads: Int", "val threads: Int? = null"),
    "a parameter's name": ("path: String", "file: String", "path: String"),
    "a result": ("): List<Buffer> = error", "): List<Buffer>? = error", "): List<Buffer>"),
    "a modifier": ("protected abstract", "abstract", "abstract protected fun Model.destroy(): Unit"),
    "an annotation": ("    @JvmStatic\n", "", "@JvmStatic fun Model.create"),
    "an enum's value": ("FIRST(0)", "FIRST(7)", "LiteRT declares FIRST(0) (Model.kt:6)"),
    "a deprecation": ('@Deprecated("Use FIRST.")', "", "LiteRT declares @Deprecated"),
    "a constructor that is open": ("private constructor(", "constructor(", "class Model private (hidden)"),
    "a val": ("var options", "val options", "var Model.options: Options?"),
    "a result that is not written": (
        "): Unit = Unit",
        ") = Unit",
        "fun Model.run(inputs: List<Buffer>): Unit",
    ),
}


@pytest.mark.parametrize("change", CHANGES, ids=str)
def test_a_changed_declaration_is_found(change: str) -> None:
    stub = STUB.replace("List<Buffer>) = Unit", "List<Buffer>): Unit = Unit")
    before, after, said = CHANGES[change]
    assert before in stub
    (found,) = compared(stub.replace(before, after))
    assert re.match(r"Stub\.kt:\d+ declares ", found)
    assert said in found
    assert re.search(r"\(Model\.kt:\d+\)$", found)


def test_what_litert_no_longer_has_or_has_besides_is_found() -> None:
    stub = STUB.replace("List<Buffer>) = Unit", "List<Buffer>): Unit = Unit")
    gone = REAL.replace("var options: Options? = null", "")
    assert compared(stub, gone)[0].endswith(
        "declares var Model.options: Options?; LiteRT has no Model.options"
    )
    more = REAL.replace("FIRST(0),", "FIRST(0), THIRD(2),")
    assert compared(stub, more) == ["Stub.kt lacks THIRD(2) of Model.Kind (Model.kt:6)"]


TYPES = """
declare module android {
    export module os {
        export class Power extends java.lang.Object implements android.os.Parcelable {
            public static class: java.lang.Class<android.os.Power>;
            /** @since 29 */
            public static SEVERE: 3;
            public static NAME: "power";
            public static MODEL: string;
            public constructor(name: string | null);
            public level(forecast: number): number;
            /** @since 37 */
            public newest(): void;
            /** @since 26
             *  @deprecated Deprecated in API 33 */
            public old(): void;
            /** @deprecated Deprecated in API 37 */
            public stillGood(): void;
            public static of(names: androidNative.Array<string>, about: java.util.List<string>): any | null;
        }
        export module Power {
            export class OnChanged extends java.lang.Object {
                public constructor(implementation: {
                    onChanged(param0: number): void;
                });
                public constructor();
                public onChanged(param0: number): void;
            }
        }
    }
}
"""
JAVA = """
package android.os;

import java.util.List;

public class Power implements Parcelable {
    public static final int SEVERE = 1 + 2;
    public static final String NAME = "power";
    public static final String MODEL = said("MODEL");
    private int hidden;
    int alsoHidden(Object anything) { return 1; }
    public Power(@Nullable String name) {}
    public float level(int forecast) { throw new RuntimeException("Stub!"); }
    @Deprecated public void old() {}
    public void stillGood() {}
    @Nullable public static Power of(String[] names, List<String> about) { return null; }

    public interface OnChanged {
        void onChanged(int level);
    }
}
"""


def differing(tmp_path: Path, stub: str, level: int = 36) -> list[str]:
    path = tmp_path / "types.d.ts"
    path.write_text(TYPES)
    return android.differences(read_java(stub, "Power.java"), read_types(path), level)


def test_a_stub_of_android_that_is_true_differs_in_nothing(tmp_path: Path) -> None:
    assert differing(tmp_path, JAVA.replace("1 + 2", "3")) == []
    assert differing(tmp_path, JAVA.replace("1 + 2", "0x3")) == []


WRONG = {
    "a constant": ("SEVERE = 3", "SEVERE = 4", "SEVERE: number = 4; Android declares SEVERE: number = 3"),
    "a text": ('"power"', '"Power"', 'NAME: string = "power"'),
    "a nullable parameter": ("@Nullable String name", "String name", "<init>(string or null)"),
    "a nullable result": ("@Nullable public static", "public static", "any or null"),
    "a result": ("float level", "boolean level", "level(number): number (types.d.ts:11)"),
    "one parameter more": ("int forecast", "int forecast, int more", "level(number): number"),
    "an array": ("String[] names", "String names", "static of(string[], List)"),
    "static": ("public static Power", "public Power", "static of("),
    "a name": ("stillGood", "better", "Android declares no such member"),
    "a deprecation": (
        "@Deprecated public void old",
        "public void old",
        "should be @Deprecated (types.d.ts:16)",
    ),
    "no deprecation": (
        "public void stillGood",
        "@Deprecated public void stillGood",
        "should not be @Deprecated",
    ),
    "what is too new": ("public void old", "public void newest() {} public void old", "came with API 37"),
    "a listener that lacks a method": ("void onChanged(int level);", "void onMore();", "no such member"),
    "an interface": (
        "interface OnChanged",
        "abstract class OnChanged",
        "interface of android.os.Power.OnChanged",
    ),
    "an abstract class": ("public class Power", "public abstract class Power", "should not be abstract"),
    "a parent": ("class Power", "class Power extends Binder", "parent of android.os.Power is Binder"),
    "a class": ("class Power", "class Might", "Android has no android.os.Might"),
}


@pytest.mark.parametrize("change", WRONG, ids=str)
def test_what_android_declares_otherwise_is_found(change: str, tmp_path: Path) -> None:
    stub = JAVA.replace("1 + 2", "3")
    before, after, said = WRONG[change]
    assert before in stub
    found = differing(tmp_path, stub.replace(before, after))
    assert any(said in line and line.startswith("Power.java:") for line in found), found


def test_an_interface_that_leaves_a_method_out_is_kinder_than_android(tmp_path: Path) -> None:
    more = TYPES.replace("public onChanged(param0", "public onEnd(): void;\npublic onChanged(param0")
    path = tmp_path / "types.d.ts"
    path.write_text(more)
    (found,) = android.differences(read_java(JAVA.replace("1 + 2", "3"), "Power.java"), read_types(path), 36)
    assert "android.os.Power.OnChanged lacks onEnd(): void" in found


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A made-up checkout of LiteRT, which declares what the stub declares."""
    folder = tmp_path / "litert" / FOLDER
    folder.mkdir(parents=True)
    for path in (ROOT / "tests/android_stubs/litert").glob("*.kt"):
        if not path.name.startswith("StandIn"):
            (folder / path.name).write_text(path.read_text())
    return tmp_path / "litert"


def asked(*arguments: str | Path) -> tuple[int, str]:
    said = CliRunner().invoke(check_android_apis.main, [str(each) for each in arguments])
    return said.exit_code, said.output


def test_the_script_ends_with_3_and_says_where(checkout: Path) -> None:
    code, said = asked(checkout)
    assert code == 0
    assert "differences: 0" in said
    path = checkout / FOLDER / "Model.kt"
    path.write_text(
        path.read_text().replace('inputName: String, signature: String = ""', "inputName: String")
    )
    code, said = asked(checkout)
    assert code == 3
    assert re.search(r"tests/android_stubs/litert/Model\.kt:\d+ declares .*createInputBuffer", said)
    assert re.search(rf"\({FOLDER}/Model\.kt:\d+\)", said)


def test_a_revision_of_a_git_directory_is_read_as_it_was(checkout: Path) -> None:
    for command in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "it"], ["tag", "v9.0.0"]):
        subprocess.run(
            ["git", "-C", checkout, "-c", "user.name=a", "-c", "user.email=a@b", *command], check=True
        )
    (checkout / FOLDER / "Model.kt").unlink()
    assert asked(checkout, "--revision", "v9.0.0")[0] == 0
    assert asked(checkout)[0] == 3
    assert len(Sources(checkout, "v9.0.0").commit()) == 40


def test_a_folder_that_is_not_what_it_should_be_is_one_sentence(checkout: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    code, said = asked(tmp_path / "empty")
    assert (code, said.count("\n")) == (1, 1)
    assert "it should be LiteRT's checkout" in said
    code, said = asked(checkout, "--types", tmp_path / "empty")
    assert code == 1
    assert "it should be @nativescript/types-android" in said
    assert "--table needs --types" in asked(checkout, "--table")[1]


def test_a_call_that_nobody_declares_is_refused() -> None:
    judges = Judges(litert.declared({"Model.kt": REAL}), {}, {"packages": {}})
    for owner, said in (
        ("com.google.ai.edge.litert.Gone", "not in LiteRT's sources"),
        ("com.google.android.gms.Gone", "in no package of play.json"),
    ):
        with pytest.raises(ValueError, match=said):
            rows([ExternalCall(owner, "run", 1)], judges)


def test_a_row_says_line_page_and_api_level(tmp_path: Path) -> None:
    path = tmp_path / "types.d.ts"
    path.write_text(TYPES)
    pages = {"a.b": {"library": "a:b 1", "address": "https://example.com/a/b"}}
    judges = Judges(litert.declared({"x/Model.kt": REAL}), read_types(path), {"packages": pages})
    table = rows(
        [
            ExternalCall("com.google.ai.edge.litert.Model", "create", 3, ("Gpu",)),
            ExternalCall("com.google.ai.edge.litert.Model", "setOptions", 1, ("Gpu",)),
            ExternalCall("a.b.Store", "fetch", 0, ("Models", "Web")),
            ExternalCall("android.os.Power", "SEVERE", None, ("Hooks",)),
        ],
        judges,
    )
    created, options = (REAL[: REAL.index(each)].count("\n") + 1 for each in ("fun create", "var options"))
    assert f"| `com.google.ai.edge.litert.Model.create(3)` | Model.kt:{created} | Gpu |" in table
    assert f"| `com.google.ai.edge.litert.Model.setOptions(1)` | Model.kt:{options} | Gpu |" in table
    assert "| `a.b.Store.fetch()` | [a:b 1](https://example.com/a/b/Store) | Models, Web |" in table
    assert "[7](https://developer.android.com/reference/android/os/Power) | 29 | Hooks |" in table
    assert replaced(f"above {BEGIN} old {END} below", "new") == f"above {BEGIN}\n\nnew\n\n{END} below"


def test_every_package_that_was_only_read_has_its_page() -> None:
    pages = read_play(ROOT / "tests/android_stubs/play.json")["packages"]
    folder = ROOT / "tests/android_stubs/java"
    read = {
        ".".join(path.parent.relative_to(folder).parts)
        for path in folder.rglob("*.java")
        if path.relative_to(folder).parts[0] != "android"
    }
    assert read == set(pages)
    assert all(page["address"].startswith("https://") for page in pages.values())


def test_every_class_that_exported_sources_import_is_in_the_table() -> None:
    """Whatever is compiled: a class that no row mentions was not looked up."""
    said = TABLE.read_text()
    imported = {
        name
        for path in (ROOT / "msd/export/android").rglob("*.kt")
        for name in re.findall(r"^import ((?:android|androidx|com\.google)\.[\w.]+)$", path.read_text(), re.M)
    }
    assert len(imported) > 30
    missing = [name for name in sorted(imported) if f"`{name}`" not in said and f"`{name}." not in said]
    assert missing == []


def test_the_table_lists_every_call_of_the_compiled_export(tmp_path: Path) -> None:
    said = TABLE.read_text()
    missing = [str(call) for call in check_android_apis.used(tmp_path) if f"`{call}`" not in said]
    assert missing == [], "run python -m scripts.check_android_apis LITERT --types TYPES --table"
    assert len(DELIVERIES) == 4


def test_what_older_phones_lack_is_called_after_a_look_at_their_version() -> None:
    """A source that calls something newer than the least version asks for it; lint would say where."""
    texts = {path.stem: path.read_text() for path in (ROOT / "msd/export/android").rglob("*.kt")}
    lines = re.findall(r"^\| `(.+)` \| \[.*\]\(.*\) \| (\d+) \| (.+) \|$", TABLE.read_text(), re.M)
    newer = [(call, users.split(", ")) for call, level, users in lines if int(level) > VERSIONS.min_sdk]
    assert len(newer) > 10
    assert [call for call, users in newer for user in users if "SDK_INT" not in texts[user]] == []
