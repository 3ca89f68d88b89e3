"""A regression as JUnit XML, which GitHub, GitLab and Jenkins read.

One test case for each image, and one for each threshold of all images. Elements, their order and attributes
are those of JUnit.xsd (github.com/windyroad/JUnit-Schema).
"""

from __future__ import annotations

import platform
import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from xml.etree import ElementTree as Xml

from msd.measure.regress.compare import ImageComparison, Result, decibels

FORBIDDEN = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""The characters that XML 1.0 cannot represent (section 2.2)."""


def to_junit(result: Result) -> str:
    """Return the XML text, ending in a newline; the time of each case is an equal share of all seconds."""
    cases = list(_cases(result))
    root = Xml.Element("testsuites")
    suite = Xml.SubElement(root, "testsuite", _attributes(result, cases))
    properties = Xml.SubElement(suite, "properties")
    for name, value in _properties(result):
        Xml.SubElement(properties, "property", {"name": name, "value": _plain(value)})
    suite.extend(cases)
    Xml.SubElement(suite, "system-out").text = _plain("\n".join(result.notes))
    Xml.SubElement(suite, "system-err").text = _plain("\n".join(result.broken))
    Xml.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + Xml.tostring(root, "unicode") + "\n"


def is_junit_of(path: Path, result: Result) -> bool:
    """Whether a file is the JUnit XML of a result and nothing else, whenever and wherever it was written."""
    try:
        root = Xml.parse(path).getroot()
    except (OSError, Xml.ParseError, LookupError, ValueError):
        return False
    wanted = _attributes(result, list(_cases(result)))
    same = ("name", "package", "tests", "failures", "time")
    return len(root) == 1 and all(root[0].get(key) == wanted[key] for key in same)


def _attributes(result: Result, cases: Sequence[Xml.Element]) -> dict[str, str]:
    return {
        "name": _plain(result.suite),
        "package": "msd.measure.regress",
        "id": "0",
        "timestamp": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S"),
        "hostname": platform.node() or "localhost",
        "tests": str(len(cases)),
        "failures": str(sum(case.find("failure") is not None for case in cases)),
        "errors": "0",
        "time": f"{result.seconds:.3f}",
    }


def _properties(result: Result) -> Iterator[tuple[str, str]]:
    yield "goldens", result.goldens.model
    yield "model", result.new.model
    yield "recipe", result.new.recipe
    yield "msd", result.msd


def _cases(result: Result) -> Iterator[Xml.Element]:
    share = result.seconds / len(result.pictures)
    for picture in result.pictures:
        yield _case(result, picture.name, share, picture.broken, _figures(picture))
    for check in result.checks:
        broken = {check.threshold: check.broken} if check.broken else {}
        yield _case(result, f"all pictures: {check.threshold}", 0, broken, "")


def _case(result: Result, name: str, seconds: float, broken: dict[str, str], more: str) -> Xml.Element:
    case = Xml.Element(
        "testcase",
        {
            "classname": f"msd.measure.regress.{_plain(result.suite)}",
            "name": _plain(name),
            "time": f"{seconds:.3f}",
        },
    )
    if broken:
        message = "; ".join(broken.values())
        failure = Xml.SubElement(case, "failure", {"message": _plain(message), "type": next(iter(broken))})
        failure.text = _plain("\n".join([*broken.values(), more]).strip())
    return case


def _figures(picture: ImageComparison) -> str:
    figures = f"{decibels(picture.psnr_db)}, SSIM {picture.ssim:.4f}, {picture.hash_distance} hash bits apart"
    return f"{picture.prompt!r}, seed {picture.seed}: {figures}"


def _plain(text: str) -> str:
    """Return text without the characters that XML cannot hold."""
    return FORBIDDEN.sub("", text)
