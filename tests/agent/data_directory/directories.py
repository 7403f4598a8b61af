"""A data directory with something of everything, and what its results log holds."""

from __future__ import annotations

from pathlib import Path

from elfmesh.control.jobs.pages import decode_page
from elfmesh.control.jobs.records import ResultRecord
from elfmesh.control.protocol.events import Append, Persist, ReadLog
from elfmesh.storage.framelog import FrameLog
from elfmesh.storage.frames import Released, Sealed, SealedInterval
from elfmesh.storage.identity import load_identity
from elfmesh.storage.results.logs import ResultsLogs
from elfmesh.storage.statelog import StateLog
from elfmesh.storage.storage import DiskStorage
from tests.storage.results.records import record, rows

JOB = bytes(range(20))


def result(index: int) -> tuple[ResultRecord, bytes]:
    return record(index), rows(index)


def agent_directory(root: Path, records: int = 5) -> bytes:
    """A directory with something of everything; the agent's id."""
    storage = DiskStorage(root)
    identity = load_identity(storage)
    state = StateLog(storage)
    state.apply(
        [
            Persist("epoch", JOB, b"\0" * 7 + b"\5"),
            Persist("vote", JOB, b"promised"),
            Persist("job", JOB, b"terms"),
            Persist("stopped", b"x" * 20, b"old"),
        ]
    )
    frames = FrameLog(storage)
    entries = [SealedInterval(index, [1], [b""]) for index in range(4)]
    frames.append(Sealed("j", 1, 0, 4, entries))
    frames.append(Released("j", 1))
    frames.close()
    logs = ResultsLogs(root / "results")
    logs.append(*(Append(JOB, "inc", *result(index)) for index in range(records)))
    storage.write("api.token", b"secret-token")
    storage.write("tls/key.pem", b"secret-key")
    storage.write("dead-letter/a.b/7.inc.partial", b"letter")
    storage.write("spool/net/spool.log", b"line\n")
    storage.close()
    return identity.id


def records_in(root: Path) -> list[int]:
    answer = ResultsLogs(root / "results").read(ReadLog(1, JOB, None, None, 1000))
    assert not answer.error
    return [record.index for record, _ in decode_page(answer.page)]
