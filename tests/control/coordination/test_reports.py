"""Findings as text, plain values, SARIF and workflow commands."""

from __future__ import annotations

import json

import jsonschema

from elfmesh.control.coordination.findings import LintFinding
from elfmesh.control.coordination.graph import Place
from elfmesh.control.coordination.reports import github, lines, sarif, values

FOUND = [
    LintFinding("B003", Place("a:b,c.elfql", 3, 7), "x is Diverge: 100 % of\n\x1b[2J", "do it"),
    LintFinding("B010", Place("f.yaml", 2), "a file", "a table", "it never changes"),
    LintFinding("B011", Place(), "a sketch", "percentile"),
]
LOCATION = {
    "type": "object",
    "required": ["physicalLocation"],
    "properties": {
        "physicalLocation": {
            "type": "object",
            "required": ["artifactLocation"],
            "properties": {
                "artifactLocation": {"required": ["uri"], "properties": {"uri": {"type": "string"}}},
                "region": {
                    "required": ["startLine"],
                    "additionalProperties": False,
                    "properties": {
                        "startLine": {"type": "integer", "minimum": 1},
                        "startColumn": {"type": "integer", "minimum": 1},
                    },
                },
            },
        }
    },
}
RESULT = {
    "type": "object",
    "required": ["ruleId", "ruleIndex", "level", "message", "locations"],
    "properties": {
        "level": {"enum": ["none", "note", "warning", "error"]},
        "ruleIndex": {"type": "integer", "minimum": 0},
        "message": {"required": ["text"], "properties": {"text": {"type": "string", "minLength": 1}}},
        "locations": {"type": "array", "items": LOCATION},
        "suppressions": {
            "type": "array",
            "items": {"required": ["kind"], "properties": {"kind": {"enum": ["inSource", "external"]}}},
        },
    },
}
SARIF = {
    "type": "object",
    "required": ["$schema", "version", "runs"],
    "properties": {
        "version": {"const": "2.1.0"},
        "runs": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["tool", "results"],
                "properties": {
                    "tool": {
                        "required": ["driver"],
                        "properties": {
                            "driver": {
                                "required": ["name", "rules"],
                                "properties": {
                                    "rules": {
                                        "items": {"required": ["id", "shortDescription"]},
                                        "uniqueItems": True,
                                    }
                                },
                            }
                        },
                    },
                    "results": {"type": "array", "items": RESULT},
                },
            },
        },
    },
}
"""The part of the schema of SARIF 2.1.0 that the log uses."""


def test_sarif_is_valid_and_names_its_rules() -> None:
    log = json.loads(json.dumps(sarif(FOUND)))
    jsonschema.validate(log, SARIF)
    run = log["runs"][0]
    rules = [each["id"] for each in run["tool"]["driver"]["rules"]]
    assert [rules[each["ruleIndex"]] for each in run["results"]] == ["B003", "B010", "B011"]
    assert [each["level"] for each in run["results"]] == ["error", "warning", "note"]
    assert run["results"][1]["suppressions"] == [{"kind": "inSource", "justification": "it never changes"}]
    assert [len(each["locations"]) for each in run["results"]] == [1, 1, 0]
    jsonschema.validate(sarif([]), SARIF)


def test_lines_leave_out_what_is_allowed() -> None:
    assert list(lines(FOUND[1:])) == [": info B011: a sketch", "  percentile", "1 info, 1 allowed"]
    assert list(lines([])) == ["no findings"]


def test_workflow_commands_escape_their_values() -> None:
    first, last = github(FOUND)
    assert first == (
        "::error file=a%3Ab%2Cc.elfql,line=3,col=7,title=B003::x is Diverge: 100 %25 of\\x0a\\x1b[2J. "
        "Remedy: do it"
    )
    assert last == "::notice title=B011::a sketch. Remedy: percentile"


def test_plain_values_have_all_members() -> None:
    assert values(FOUND[1]) == {
        "code": "B010",
        "level": "warning",
        "at": {"file": "f.yaml", "line": 2, "column": None},
        "message": "a file",
        "remedy": "a table",
        "allowed": "it never changes",
    }
