"""A journal that a killed run left: who completes it, and what it cannot do."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from msd.bundle import open_bundle
from msd.errors import BadBundle, OutputUnwritable
from msd.files.publication import complete
from tests.kills import files
from tests.other_user import nobody
from tests.test_files_publication import names, place

__all__ = ["place"]


def cut_off(folder: Path, moves: tuple[str, ...] = ("a.txt", "list.txt")) -> Path:
    """Leave a publication cut off before its first move; return its output."""
    out = folder / "out"
    out.mkdir()
    (out / "list.txt").write_text("old")
    left = out / ".msd-part"
    (left / "new").mkdir(parents=True)
    (left / "msd-staging").touch()
    for name in moves:
        (left / "new" / Path(name).name).write_text("new")
    (left / "journal.json").write_text(json.dumps({"format": 1, "moves": moves, "removals": []}))
    return out


def test_who_may_not_write_is_told_why_a_folder_is_not_complete(place: Path) -> None:
    out = cut_off(place)
    for folder in (out, out / ".msd-part", out / ".msd-part" / "new"):
        folder.chmod(0o555)
    with nobody(), pytest.raises(OutputUnwritable, match=r"was cut off, and what it left .*\(Permission den"):
        complete(out)
    for folder in (out, out / ".msd-part", out / ".msd-part" / "new"):
        folder.chmod(0o755)
    complete(out)
    assert files(out) == {"a.txt": b"new", "list.txt": b"new"}
    assert names(out) == ["a.txt", "list.txt"]


@pytest.mark.parametrize("name", ["../evil.txt", "/etc/evil.txt", "", "a/../../evil.txt", "link/evil.txt"])
def test_a_journal_of_others_leads_nowhere(name: str, tmp_path: Path) -> None:
    """A bundle from elsewhere may hold a journal."""
    out = cut_off(tmp_path, ("evil.txt", "list.txt"))
    (out / "link").symlink_to(tmp_path)
    journal = out / ".msd-part" / "journal.json"
    (out / ".msd-part" / "new" / "link").mkdir()
    (out / ".msd-part" / "new" / "link" / "evil.txt").write_text("new")
    journal.write_text(json.dumps({"format": 1, "moves": [name, "list.txt"], "removals": [name]}))
    with pytest.raises(OutputUnwritable, match=r"was cut off.*(which is not a file in the folder|is a link)"):
        open_bundle(out)
    assert not (tmp_path / "evil.txt").exists()
    journal.write_bytes(b" " * (1 << 20) + b"{}")
    with pytest.raises(OutputUnwritable, match="is no journal of msd"):
        open_bundle(out)


def test_a_journal_without_our_mark_is_not_ours(tmp_path: Path) -> None:
    out = cut_off(tmp_path)
    (out / ".msd-part" / "msd-staging").unlink()
    with pytest.raises(BadBundle):
        open_bundle(out)
    assert (out / "list.txt").read_text() == "old"
