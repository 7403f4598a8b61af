"""The operator's page knows what an agent may say, and every exit code there is."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from elfmesh import errors

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "docs" / "operations" / "runbook.md").read_text()
LEVELS = {"warning", "error", "exception", "critical"}
LOGGED = [path for path in (ROOT / "elfmesh").rglob("*.py") if "cli" not in path.parts]


def reported() -> set[str]:
    """Every warning and error that is logged, with ... for what differs."""
    found = set()
    for path in LOGGED:
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.Call(
                    func=ast.Attribute(value=ast.Name(id="log"), attr=level),
                    args=[ast.Constant(value=str(text)), *_],
                ) if level in LEVELS and re.search("[a-z]{3}", re.sub(r"%[-\d.]*[a-zA-Z]", "", text)):
                    found.add(re.sub(r"%[-\d.]*[a-zA-Z]", "...", text))
    return found


def test_every_warning_and_error_of_an_agent_has_a_documented_remedy() -> None:
    documented = set(re.findall(r"^\| `([^`]+)` \| [^|]{3,} \|$", TEXT, re.M))
    found = reported()
    assert len(found) > 20
    assert found - documented == set()


def test_every_exit_code_has_a_documented_remedy() -> None:
    codes = {0} | {
        kind.exit_code
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, errors.ElfError)
    }
    documented = {int(code) for code in re.findall(r"^\| (\d+) \| ", TEXT.split("## Exit codes")[1], re.M)}
    assert documented == codes
