"""A function cannot reach its agent's files, memory, sockets and processes, neither loaded nor evaluated."""

from __future__ import annotations

import errno
import json
from collections.abc import Mapping
from functools import cache
from typing import Any

import pytest

from tests.ingest.functions import as_agent, escaping, working


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


@pytest.mark.parametrize("when", ["load", "evaluation"])
def test_no_attack_of_a_function_succeeds(when: str) -> None:
    refused = {"EPERM", "EACCES", "ENOSYS"}
    found = outcomes(attacked()[when])
    assert {name: what for name, what in found.items() if what not in refused} == {}


def test_what_was_attacked_is_as_it_was() -> None:
    reported = attacked()
    assert (reported["files"], reported["gone"]) == ({}, [])
    assert reported["memory"]
    assert reported["connections"] == 0
    assert reported["signals"] == []


def test_seccomp_alone_leaves_files_to_be_read_while_the_source_is_loaded_and_no_more() -> None:
    reported = attacked("landlock")
    reads = {"read a key", "list the data", "read /etc", "read /proc"}
    done = {name for name, what in outcomes(reported["load"]).items() if what == "done"}
    assert done == reads
    assert errno.errorcode[errno.EMFILE] in {outcomes(reported["evaluation"])[name] for name in reads}
    assert (reported["files"], reported["gone"], reported["connections"], reported["signals"]) == (
        {},
        [],
        0,
        [],
    )


def test_what_functions_are_for_works_also_when_it_is_imported_late() -> None:
    done = as_agent.run(working.__name__)
    assert done.returncode == 0, done.stderr
    early, late = json.loads(done.stdout)
    assert early == late
    found = dict(each.split("=") for each in early.split(";"))
    assert list(found) == list(working.SOURCES)
    assert found["re"] == "a<1>"
    assert found["zoneinfo"] == "Europe/Berlin"
    assert found["hashlib"] == "ca970cc18008"
    assert found["numpy"] == "10"
