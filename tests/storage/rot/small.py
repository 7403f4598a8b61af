"""The files of a data directory that are replaced whole, and the audit log: recorded, and read again.

They are written and read by the code that an agent writes and reads them with.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from elfmesh.agent.archive.archive import Archive
from elfmesh.agent.sinks.base import LogName, SinkItem
from elfmesh.agent.sinks.dead_letters import SinkDeadLetters
from elfmesh.control.jobs import signing
from elfmesh.control.jobs.records import ResultRecord
from elfmesh.control.jobs.row_pages import digest_of
from elfmesh.errors import RuntimeFailure
from elfmesh.ingest.archive_settings import ArchiveConfig
from elfmesh.ingest.authority import audit, audit_chain, signatures
from elfmesh.ingest.inputs.kafka_place import BatchPosition, encode_place, read_place
from elfmesh.ingest.inputs.spool import FILE_NAME as SPOOL
from elfmesh.ingest.inputs.spool import whole_lines_of
from elfmesh.ingest.stream_formats import format_of
from elfmesh.ingest.stream_settings import StreamConfig
from elfmesh.storage.crashes import CrashGuard
from elfmesh.storage.results.page_files import PageFiles
from elfmesh.storage.storage import DiskStorage
from elfmesh.sums import json_with_sum

KAFKA = "spool/net/kafka.place"
ARCHIVE = "archive/log/host=web1/_state.json"
FUNCTIONS, DEATHS, AUDIT, HEAD = "functions", "deaths.json", audit_chain.NAME, audit_chain.HEAD
REFUSED = "sinks/hook/shop.top/a/3.json"
ROWS = b"rows of a page"
RESULTS = f"results/{'07' * 20}"
PAGE = f"{RESULTS}/pages/{3:+020d}-{digest_of(ROWS).hex()}.page"
SMALL = (KAFKA, ARCHIVE, FUNCTIONS, DEATHS, AUDIT, HEAD, REFUSED, PAGE)


def write_small(root: Path, following: int) -> None:
    """Everything as it is once what comes before interval `following` was done."""
    storage = DiskStorage(root)
    try:
        spool = root / "spool" / "net" / SPOOL
        end = whole_lines_of(spool)
        last = len(spool.read_bytes().splitlines(keepends=True)[-1])
        offsets = {0: following - 1}
        place = BatchPosition("in", offsets, spool.stat().st_ino, end - last, ((0, following - 1, last),))
        (root / KAFKA).write_bytes(encode_place(place))
        remembered = signing.Remembered(following)
        memory = {"jobs": {"shop/top": remembered}, "accepted": {}}
        storage.write(FUNCTIONS, json_with_sum(msgspec.json.encode(memory)))
        log = audit.AuditLog(storage, lambda: 1_000_000)
        for number in range(4):
            log.write(f"sam{following}", "token", "apply", allowed=True, job=f"shop/{number}")
        log.close()
        record = ResultRecord(job="shop/top", index=3, epoch=1)
        sinks = DiskStorage(root / "sinks")
        SinkDeadLetters(sinks, "hook").keep(LogName("shop/top", "a"), SinkItem(record, b""), "no")
        sinks.close()
        PageFiles(root / RESULTS).keep(3, ROWS)
    finally:
        storage.close()
    held = []
    for _ in range(2):
        guard = CrashGuard(root, lambda: 1000.0)
        held.append(guard.evaluating("shop/top:1", f"interval {following}"))
        held[-1].__enter__()  # and is killed
    CrashGuard(root, lambda: 1000.0).stop()
    with (root / "a.log").open("a") as file:
        file.writelines(f"line {number}\n" for number in range(following // 8 + 2))
    archive = open_archive(root)
    while archive.step():
        pass
    archive.flush()
    archive.close()


def open_archive(root: Path) -> Archive:
    """The archive of a stream, as an agent opens it."""
    stream = StreamConfig(path=str(root / "a.log"), format="json")
    formats = format_of(stream, name="log")
    return Archive("log", stream.path, formats, ArchiveConfig(), directory=root / "archive", host="web1")


def start_small(root: Path, name: str) -> str:
    """What an agent finds that starts on a damaged file.

    Raises:
        ElfError: it does not start.
    """
    if name == ARCHIVE:
        archive = open_archive(root)
        archive.close()
        return {5: "uses all", 2: "reads again"}.get(archive.state.rows, "uses what is there")
    if name == PAGE:
        found = PageFiles(root / RESULTS).read(3, digest_of(ROWS))
        return "uses all" if found == ROWS else "fetches it"
    if name == DEATHS:
        return _deaths(root)
    storage = DiskStorage((root / name).parent if name == KAFKA else root)
    try:
        return _stored(storage, name)
    finally:
        storage.close()


def _stored(storage: DiskStorage, name: str) -> str:
    root = storage.root
    if name == KAFKA:
        offsets = read_place(storage, "in", *_end(root / SPOOL))
        return "uses all" if offsets == {0: 8} else "uses what is there"
    if name == FUNCTIONS:
        signers = signatures.Signers((b"k" * 32,))
        signatures.Signatures(signatures.Trust("fleet", signers), storage, lambda: 0)
        memory = signatures.decode_memory((root / name).read_bytes())
        return "uses all" if memory.jobs["shop/top"].floor == 8 else "uses what is there"
    if name in (AUDIT, HEAD):
        log = audit.AuditLog(storage, lambda: 1_000_000)
        lines: Any = log.describe()["lines"]
        log.close()
        return "uses all" if lines == 8 else "uses what is there"
    assert name == REFUSED
    sinks = DiskStorage(root / "sinks")
    files = SinkDeadLetters(sinks, "hook").describe()["files"]
    sinks.close()
    return "leaves it alone" if files == 1 else "forgets"


def _end(spool: Path) -> tuple[int, int]:
    return spool.stat().st_ino, whole_lines_of(spool)


def _deaths(root: Path) -> str:
    guard = CrashGuard(root, lambda: 1000.0)
    try:
        guard.check("shop/top:1")
    except RuntimeFailure as held:
        return "uses all" if "interval 8" in str(held) else "uses what is there"
    finally:
        guard.stop()
    return "counts again"
