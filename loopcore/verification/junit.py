"""Verdicts as JUnit XML, for continuous integration servers.

Theory of operation: one test case a property. Broken is a failure, unknown and not exercised are
errors, not applicable is skipped.

Source: spec verification, section 1.
"""

from __future__ import annotations

import re
from xml.etree import ElementTree

from loopcore.results import PropertyResult, VerifyResult

ELEMENTS: dict[str, str] = {
    "broken": "failure",
    "unknown": "error",
    "not exercised": "error",
    "not applicable": "skipped",
}
# What XML 1.0 cannot hold, not even escaped.
_UNWRITABLE = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit(result: VerifyResult) -> bytes:
    """Return the result as one JUnit test suite."""
    elements = [ELEMENTS.get(each.verdict) for each in result.properties]
    suite = ElementTree.Element(
        "testsuite",
        name=_writable(f"loopcore verify {result.target.name}"),
        tests=str(len(elements)),
        failures=str(elements.count("failure")),
        errors=str(elements.count("error")),
        skipped=str(elements.count("skipped")),
        time=f"{sum(each.seconds for each in result.properties):.3f}",
    )
    for each in result.properties:
        suite.append(_case(each))
    root = ElementTree.Element("testsuites")
    root.append(suite)
    ElementTree.indent(root)
    text: str = ElementTree.tostring(root, encoding="unicode")
    return f"<?xml version='1.0' encoding='utf-8'?>\n{text}\n".encode()


def _case(result: PropertyResult) -> ElementTree.Element:
    case = ElementTree.Element(
        "testcase",
        classname="loopcore.verify",
        name=f"{result.id} {result.name}",
        time=f"{result.seconds:.3f}",
    )
    element = ELEMENTS.get(result.verdict)
    if element is not None:
        reason = _writable(result.reason or result.verdict)
        child = ElementTree.SubElement(case, element, message=reason.partition("\n")[0])
        if element != "skipped":
            child.set("type", result.verdict)
        file = f"\ncounterexamples/{result.counterexample}" if result.counterexample else ""
        child.text = f"{result.statement}\n{reason}{file}"
    return case


def _writable(text: str) -> str:
    return _UNWRITABLE.sub("\ufffd", text)
