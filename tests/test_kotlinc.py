"""What tests of Kotlin say where they cannot run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import kotlinc


def test_a_missing_jar_is_a_sentence_with_debian_s_package(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("shutil.which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(kotlinc, "DEBIAN", {tmp_path / "json.jar": "libandroid-json-org-java"})
    with pytest.raises(
        pytest.skip.Exception, match=r"json\.jar; .* apt-get install libandroid-json-org-java"
    ):
        kotlinc.library()


@pytest.mark.parametrize("lacking", ["java", "javac"])
def test_without_a_jdk_kotlin_is_not_tested(lacking: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name: None if name == lacking else f"/usr/bin/{name}")
    with pytest.raises(pytest.skip.Exception, match="openjdk-17-jdk-headless"):
        kotlinc.library()
