"""A data directory with something of everything, recorded once; damage to its files; a start on what is left.

The stores are the agent's own, opened as an agent opens them; no agent runs.
"""

from __future__ import annotations

import asyncio
import io
import logging
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pyarrow as pa

from elfmesh.agent.sinks.base import LogName, Position, Unavailable
from elfmesh.agent.sinks.config import WebhookSink
from elfmesh.agent.sinks.webhook import Webhook
from elfmesh.api import savepoint
from elfmesh.control.consensus.rules import Ballot
from elfmesh.control.jobs.manifest import Manifest
from elfmesh.control.jobs.records import ResultRecord
from elfmesh.control.jobs.register_value import RegisterValue
from elfmesh.control.protocol.events import Append, DeadLetter, Persist
from elfmesh.errors import DataError, StorageError
from elfmesh.ingest.inputs.spool import Spool
from elfmesh.machine import Contact
from elfmesh.ql.values.plain_ipc import table_to_ipc
from elfmesh.storage import framescan
from elfmesh.storage.deadletters import DeadLetters
from elfmesh.storage.framelog import FrameLog
from elfmesh.storage.frames import Released, Sealed, SealedInterval
from elfmesh.storage.identity import load_identity, rewritten_by, state_rewritten
from elfmesh.storage.results.logs import ResultsLogs
from elfmesh.storage.statelog import StateLog
from elfmesh.storage.storage import DiskStorage, MemoryFile
from elfmesh.sums import json_with_sum
from tests.storage.rot.small import AUDIT, KAFKA, SMALL, start_small, write_small

JOB = b"\x07" * 20
RESULTS = f"results/{JOB.hex()}"
LETTER = "dead-letter/shop.top/7.a.partial"
POSITIONS = "spool/net/positions.log"
HOOK = "sinks/hook.positions/shop.top/a"
SAVEPOINT = "top.savepoint"
TEXT = "CREATE JOB shop.top AS SELECT k, COUNT(*) AS n FROM s GROUP BY TUMBLE(ts, INTERVAL '1' SECOND), k"


MANIFEST = Manifest(
    namespace="shop", name="top", creator="me", text=TEXT, version=1, job_id=JOB, incarnation="a"
)


@dataclass(slots=True)
class Stores:
    """What an agent has open."""

    storage: DiskStorage
    state: StateLog
    frames: FrameLog
    results: ResultsLogs
    letters: DeadLetters
    spool: Spool


@contextmanager
def started(root: Path) -> Iterator[Stores]:
    """Open everything, as an agent does when it starts."""
    storage = DiskStorage(root)
    try:
        identity = load_identity(storage)
        boot = identity.incarnation
        rewritten = rewritten_by(storage)
        frames = FrameLog(storage, owner=identity.id, expected=bool(rewritten))
        state = StateLog(storage, identity.id, boot, rewritten)
        state_rewritten(storage, boot)
        results = ResultsLogs(root / "results")
        letters = DeadLetters(storage, "web1")
        spool = Spool(root / "spool" / "net", 1 << 20, positioned=True)
        yield Stores(storage, state, frames, results, letters, spool)
        spool.close()
        frames.close()
        state.close()
    finally:
        storage.close()


def record(root: Path, older: Path | None = None, first: int = 0) -> None:
    """Fill a data directory; `older`: gets a copy of it as it was before the last start."""
    with started(root) as stores:
        write(stores, first)
    write_beside(root, first + 4)
    if older is not None:
        shutil.copytree(root, older)
    with started(root) as stores:
        write(stores, first + 4)
    write_beside(root, first + 8)


def write_beside(root: Path, following: int) -> None:
    """A sink's position, a savepoint, and what is replaced whole."""
    storage = DiskStorage(root / "sinks")
    storage.write(HOOK.removeprefix("sinks/"), json_with_sum(msgspec.json.encode(Position(following, 1))))
    storage.close()
    head = savepoint.SavepointHeader(
        elf="0", job="shop/top", creator="me", text=TEXT, version=1, incarnation="a", size="1 s", slide="1 s",
        first=following, agents=(), made_us=1,
    )  # fmt: skip
    savepoint.write(root / SAVEPOINT, head, [b'{"interval":{"index":%d}}' % (following - 1)])
    write_small(root, following)


def write(stores: Stores, first: int) -> None:
    """Four of everything."""
    stores.state.apply([Persist("vote", JOB, vote(first + 3))])
    for index in range(first, first + 4):
        stores.state.apply([Persist("vote", bytes([100 + index]) * 20, b"promised %d" % index)])
        entry = SealedInterval(index, [1], [b"payload %d" % index])
        stores.frames.append(Sealed("j", 1, index, index + 1, [entry]))
        rows = table_to_ipc(pa.table({"k": [index], f"from_{first}": [1]}))
        before = index - 1 if index else None
        record = ResultRecord(job="shop/top", index=index, epoch=1, before=before)
        stores.results.append(Append(JOB, "a", record, rows))
        stores.spool.append(b"line %d\n" % index, [("p", index)])
    stores.frames.append(Released("j", first))
    stores.frames.sync()
    stores.letters.write(DeadLetter(MANIFEST, 7, (1,) * 9, (b"partial",)))


def vote(before: int) -> bytes:
    """A vote on the job: the log has every record up to this one."""
    me = Contact(b"m" * 20, "127.0.0.1", 1)
    value = RegisterValue(
        job=JOB, incarnation="a", version=1, plan=b"", epoch=1, master=me, closed=before + 1,
        latest=before, before=before, acceptors=(me,),
    )  # fmt: skip
    return msgspec.msgpack.encode((Ballot(), Ballot(), value, b""))


# -- damage ------------------------------------------------------------------------------------------------

Change = Callable[[bytes], bytes]


BITS = (4, 0x80)
"""Of text, the one gives another character, the other none."""


def flip(data: bytes, at: int, bit: int) -> bytes:
    return data[:at] + bytes([data[at] ^ bit]) + data[at + 1 :]


def frames_of(data: bytes, name: str) -> list[tuple[int, int]]:
    """Where the frames of a file lie: frames of the frame log's kind, records of results, or lines."""
    if name.endswith(".seg"):
        ends = []
        at = 0
        while at < len(data):
            at += 8 + int.from_bytes(data[at : at + 4])
            ends.append(at)
        return list(zip([0, *ends[:-1]], ends, strict=True))
    if name in ("state.log", "frames.log", LETTER):
        file = MemoryFile()
        file.append(data)
        found = framescan.scan(file, len(data))
        return [(each.offset, each.offset + each.size) for each in found if each.body is not None]
    if name in (POSITIONS, AUDIT):
        ends = [at + 1 for at, byte in enumerate(data) if byte == 10]
        return list(zip([0, *ends[:-1]], ends, strict=True))
    return [(0, len(data))]


PARTS = {"head": 0, "length": 6, "checksum": 13, "body": -3}
"""Places within a frame, in bytes behind its beginning or in front of its end."""


def in_frames(name: str, last: bool) -> Iterator[tuple[str, Change]]:
    """One bit in each part of the last frame, or of the first and of one in the middle."""
    for place in ("last",) if last else ("first", "middle"):
        for part, offset in PARTS.items():
            for bit in BITS:

                def change(data: bytes, place: str = place, offset: int = offset, bit: int = bit) -> bytes:
                    spans = frames_of(data, name)
                    start, end = spans[{"first": 0, "middle": len(spans) // 2, "last": -1}[place]]
                    return flip(data, start + offset if offset >= 0 else end + offset, bit)

                yield f"bit {bit} in the {part} of the {place} frame", change


# -- a start on what is left -------------------------------------------------------------------------------


@dataclass(slots=True)
class Found:
    """What an agent does that starts on a damaged directory.

    Attributes:
        refused: why it does not start, "" if it does.
        errors: what it logs as errors.
        outcome: in a few words, by the kind of file.
    """

    refused: str
    errors: str
    outcome: str


def start(root: Path, name: str) -> Found:
    """Start, look, end."""
    reported = io.StringIO()
    handler = logging.StreamHandler(reported)
    handler.setLevel(logging.WARNING)
    logging.getLogger().addHandler(handler)
    try:
        if name == SAVEPOINT:
            savepoint.read_head(root / name)
            return Found("", "", "uses all")
        if name == HOOK:
            return _position(root)
        if name in SMALL:
            outcome = start_small(root, name)
            return Found("", reported.getvalue(), outcome)
        with started(root) as stores:
            outcome = _outcome(stores, root, name)
    except DataError as error:
        return Found(str(error), reported.getvalue(), "is refused")
    except StorageError as error:
        return Found(str(error), reported.getvalue(), "waits" if name == KAFKA else "does not start")
    finally:
        logging.getLogger().removeHandler(handler)
    return Found("", reported.getvalue(), outcome)


def _position(root: Path) -> Found:
    """What a sink begins with."""
    storage = DiskStorage(root / "sinks")
    config = WebhookSink(jobs=("shop/top",), url="http://127.0.0.1:1/")

    async def read() -> Position | None:
        sink = Webhook("hook", config, storage)
        try:
            return await sink.position(LogName("shop/top", "a"))
        finally:
            await sink.close()

    try:
        position = asyncio.run(read())
    except Unavailable as error:
        return Found(str(error), "", "waits")
    finally:
        storage.close()
    assert position is not None
    return Found("", "", "uses all" if position.next == 8 else "uses what is there")


def _outcome(stores: Stores, root: Path, name: str) -> str:
    found = stores.results.found()
    if name in ("id", "state.log"):
        votes = sum(kind == "vote" for kind, _, _ in stores.state.items())
        if stores.state.loss is not None:
            return "does not vote"
        return "uses all" if votes == 9 else "uses what is left"
    if name == "frames.log":
        recovery = stores.frames.recovery
        if not stores.frames.jobs:
            return "begins again"
        if recovery.gaps or recovery.rotten:
            return "declares a gap"
        last = stores.frames.last("j")
        return (
            "uses all"
            if last and last.stop == 8 and stores.frames.released("j") == 4
            else "uses what is left"
        )
    if name.startswith("results"):
        if not found or found[0].latest is None:
            return "fetches all"
        holes, latest = found[0].holes, found[0].latest
        return "fetches what lacks" if holes or latest < 7 else "uses all"
    if name == LETTER:
        return "uses all" if stores.letters.describe()["files"] else "leaves it alone"
    return "uses all" if stores.spool.positions and stores.spool.positions.last("p") == 7 else "forgets"
