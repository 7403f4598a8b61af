"""What landlock alone keeps from a function."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from typing import Any

from elfmesh.ingest.functions import landlock
from tests.ingest.functions import as_agent, escaping


@cache
def attacked(*without: str) -> Mapping[str, Any]:
    """What the functions said, and what became of what they attacked."""
    with as_agent.directory() as home:
        done = as_agent.run(escaping.__name__, str(home), *without)
    assert done.returncode == 0, done.stderr
    reported: dict[str, Any] = json.loads(done.stdout)
    return reported


def outcomes(reported: str) -> dict[str, str]:
    found = dict(each.split("=") for each in reported.split(";"))
    assert len(found) > 50
    return found


def test_landlock_alone_keeps_files_memory_and_processes() -> None:
    found = outcomes(attacked("seccomp")["load"])
    names = ["unlink", "rename", "write", "create", "mkdir", "rmdir", "link", "read a key", "list the data"]
    names += [
        "read /etc",
        "read /proc",
        "read memory by /proc",
        "read memory",
        "write memory",
        "ptrace",
        "seize",
    ]
    if landlock.abi() >= 3:
        names.append("truncate")
    if landlock.abi() >= 4:
        names.append("tcp")
    if landlock.abi() >= 6:
        names += ["abstract", "stop", "stop by thread"]
    assert {name: found[name] for name in names if found[name] not in {"EPERM", "EACCES"}} == {}
