"""The report as JUnit XML, which continuous integration shows by itself."""

from __future__ import annotations

import re
from typing import Any
from xml.etree import ElementTree as ET

from mindlab.book.report import Report, word

_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def as_junit(report: Report) -> str:
    """One suite a chapter: one case for its run, one for each check."""
    top = ET.Element("testsuites", name="mindlab")
    for chapter in report["chapters"]:
        top.append(_suite(chapter))
    ET.indent(top)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ET.tostring(top, encoding="unicode") + "\n"


def _suite(chapter: dict[str, Any]) -> ET.Element:
    checks = chapter["checks"]
    failures = sum(row["passed"] is False for row in checks) + (chapter["status"] != "passed")
    suite = ET.Element(
        "testsuite",
        name=chapter["chapter"],
        tests=str(len(checks) + 1),
        failures=str(failures),
        skipped=str(sum(row["passed"] is None for row in checks)),
        time=str(chapter["seconds"]),
    )
    whole = ET.SubElement(
        suite, "testcase", classname=chapter["chapter"], name="runs to its end", time=str(chapter["seconds"])
    )
    if chapter["status"] != "passed":
        _failure(whole, str(chapter["error"]))
    for number, row in enumerate(checks, 1):
        case = ET.SubElement(
            suite, "testcase", classname=chapter["chapter"], name=_clean(f"{number}. {row['claim']}")
        )
        if row["passed"] is False:
            _failure(case, f"predicted {row['predicted']}, measured {row['measured']} {row['unit'] or ''}")
        elif row["passed"] is None:
            ET.SubElement(case, "skipped", message=word(row))
    return suite


def _failure(case: ET.Element, text: str) -> None:
    failure = ET.SubElement(case, "failure", message=_clean(text.splitlines()[0]))
    failure.text = _clean(text)


def _clean(text: str) -> str:
    return _NOT_XML.sub("", text)
