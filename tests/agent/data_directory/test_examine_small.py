"""Small files of a data directory: what is wrong with each, what the agent does, what a repair would do."""

from __future__ import annotations

from pathlib import Path

import pytest

from elfmesh.agent.data_directory.examine_small import audit_log, small_files
from elfmesh.ingest.authority import audit, audit_chain, signatures
from elfmesh.ingest.inputs.kafka_place import PLACE
from elfmesh.storage import crashes
from elfmesh.storage.storage import DiskStorage

FILES = {
    "sinks/hook.positions/shop/top": "the sink waits, and reports the damage",
    "sinks/hook/shop/top/1.json": "leaves it unchanged",
    f"spool/app/{PLACE}": "does not read the topic, and reports the damage",
    signatures.FILE: "does not start if signatures are checked",
    crashes.DEATHS_FILE: "counts deaths from now on",
}


@pytest.mark.parametrize("name", FILES)
def test_a_damaged_file_is_found_and_can_be_moved_aside(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"\xff damaged")
    (finding,) = small_files(tmp_path)
    assert (finding.path, finding.offset, finding.agent) == (path, 0, FILES[name])
    assert finding.repair is not None
    finding.repair.do()
    assert not path.exists()
    assert list(small_files(tmp_path)) == []


@pytest.mark.parametrize("suffix", [".new", ".damaged"])
def test_what_is_being_written_and_what_was_moved_aside_is_no_finding(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"sinks/hook.positions/shop/top{suffix}"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"\xff damaged")
    assert list(small_files(tmp_path)) == []


def test_without_an_audit_log_nothing_is_wrong_with_it(tmp_path: Path) -> None:
    assert list(audit_log(tmp_path)) == []


@pytest.mark.parametrize(
    ("name", "agent"),
    [(audit_chain.HEAD, "does not start"), (audit_chain.NAME, "does not start")],
)
def test_a_damaged_audit_log_keeps_the_agent_from_starting(name: str, agent: str, tmp_path: Path) -> None:
    storage = DiskStorage(tmp_path)
    audit.AuditLog(storage, lambda: 1).close()
    storage.close()
    (tmp_path / name).write_bytes(b"\xff damaged\n")
    (finding,) = audit_log(tmp_path)
    assert (finding.path, finding.offset, finding.agent) == (tmp_path / name, 0, agent)
    assert finding.repair is not None
    finding.repair.do()
    assert not (tmp_path / name).exists()
