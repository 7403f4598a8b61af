"""Prints findings: lines for people, plain values for JSON, SARIF 2.1.0, and annotations of GitHub.

Texts in findings are hostile: every format escapes them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from elfmesh.control.coordination.findings import CODES, Level, LintFinding
from elfmesh.text import printable
from elfmesh.version import VERSION

SARIF_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_SARIF = {Level.INFO: "note", Level.WARNING: "warning", Level.ERROR: "error"}
_GITHUB = {Level.INFO: "notice", Level.WARNING: "warning", Level.ERROR: "error"}


def lines(found: Sequence[LintFinding]) -> Iterator[str]:
    """Yield each finding with its remedy, and the number of findings by level."""
    shown = [each for each in found if not each.allowed]
    for each in shown:
        yield f"{each.at}: {each.level} {each.code}: {each.message}"
        yield f"  {each.remedy}"
    counts = Counter(each.level for each in shown)
    words = [
        f"{counts[level]} {level}{'' if counts[level] == 1 else 's'}" for level in Level if counts[level]
    ]
    allowed = len(found) - len(shown)
    yield ", ".join([*(words or ["no findings"]), *([f"{allowed} allowed"] if allowed else [])])


def values(each: LintFinding) -> dict[str, Any]:
    """Return a finding as plain values, as `elf lint -o json` prints it."""
    return {
        "code": each.code,
        "level": str(each.level),
        "at": {"file": each.at.file, "line": each.at.line or None, "column": each.at.column or None},
        "message": each.message,
        "remedy": each.remedy,
        "allowed": each.allowed or None,
    }


def sarif(found: Sequence[LintFinding]) -> dict[str, Any]:
    """Return findings as a SARIF 2.1.0 log. Findings that a comment allows are suppressed results."""
    codes = sorted({each.code for each in found})
    rules = [
        {"id": code, "shortDescription": {"text": CODES[code][1]},
         "defaultConfiguration": {"level": _SARIF[CODES[code][0]]}}
        for code in codes
    ]  # fmt: skip
    return {
        "$schema": SARIF_SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {"driver": {"name": "elf lint", "version": VERSION, "rules": rules}},
                "columnKind": "unicodeCodePoints",
                "results": [_result(each, codes.index(each.code)) for each in found],
            }
        ],
    }


def _result(each: LintFinding, rule: int) -> dict[str, Any]:
    location: dict[str, Any] = {"artifactLocation": {"uri": each.at.file.replace("\\", "/")}}
    if each.at.line:
        location["region"] = {"startLine": each.at.line}
        if each.at.column:
            location["region"]["startColumn"] = each.at.column
    suppressions = [{"kind": "inSource", "justification": each.allowed}] if each.allowed else []
    return {
        "ruleId": each.code,
        "ruleIndex": rule,
        "level": _SARIF[each.level],
        "message": {"text": f"{each.message}. Remedy: {each.remedy}"},
        "locations": [{"physicalLocation": location}] if each.at.file else [],
        "suppressions": suppressions,
    }


def github(found: Sequence[LintFinding]) -> Iterator[str]:
    """Yield findings as workflow commands of GitHub Actions."""
    for each in found:
        if not each.allowed:
            place = [("file", each.at.file), ("line", each.at.line), ("col", each.at.column)]
            shown = [*((key, value) for key, value in place if value), ("title", each.code)]
            properties = ",".join(f"{key}={_property(str(value))}" for key, value in shown)
            yield f"::{_GITHUB[each.level]} {properties}::{_data(f'{each.message}. Remedy: {each.remedy}')}"


def _data(text: str) -> str:
    return printable(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
