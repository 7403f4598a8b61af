"""A backup holds what may be old, a restore writes what a backup of ours holds; and nothing else."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pyarrow as pa
import pytest

from elfmesh.agent.data_directory.backup import backup
from elfmesh.agent.data_directory.restore import restore
from elfmesh.control.jobs import row_pages
from elfmesh.control.jobs.pages import decode_page, encode_frame
from elfmesh.control.protocol.events import Append, ReadLog
from elfmesh.errors import ConfigError, DataError
from elfmesh.storage import framescan
from elfmesh.storage.durable import Durable
from elfmesh.storage.identity import load_identity
from elfmesh.storage.results.log import ResultsLog
from elfmesh.storage.results.logs import ResultsLogs
from elfmesh.storage.results.page_files import PageFiles
from elfmesh.storage.statelog import StateLog
from elfmesh.storage.storage import DiskStorage, MemoryStorage
from tests.agent.data_directory.directories import JOB, agent_directory, records_in, result
from tests.storage.results.records import record


def test_what_is_restored_is_results_and_memory_without_votes_contributions_and_secrets(
    tmp_path: Path,
) -> None:
    agent = agent_directory(tmp_path / "data")
    head, _ = backup(tmp_path / "data", tmp_path / "b.tar.zst", 1)
    assert (head.votes, head.contributions) == (1, 3)
    assert {"frames.log", "api.token", "tls", "id", "spool"} <= head.left_out.keys()
    assert (tmp_path / "b.tar.zst").stat().st_mode & 0o777 == 0o600
    restore(tmp_path / "b.tar.zst", tmp_path / "new")
    names = {
        str(path.relative_to(tmp_path / "new")) for path in (tmp_path / "new").rglob("*") if path.is_file()
    }
    assert "restored" in names
    assert not {"id", "frames.log", "api.token", "tls/key.pem", "spool/net/spool.log"} & names
    assert b"secret" not in b"".join(
        path.read_bytes() for path in (tmp_path / "new").rglob("*") if path.is_file()
    )
    storage = DiskStorage(tmp_path / "new")
    assert [(kind, key) for kind, key, _ in StateLog(storage).items()] == [
        ("epoch", JOB),
        ("stopped", b"x" * 20),
    ]
    assert records_in(tmp_path / "new") == [0, 1, 2, 3, 4]
    assert storage.read("dead-letter/a.b/7.inc.partial") == b"letter"
    assert load_identity(storage).id != agent


def durable_of(root: Path) -> Durable:
    return Durable(StateLog(DiskStorage(root)), ResultsLogs(root / "results"))


def test_a_certificate_of_the_agent_as_it_was_is_refused_also_after_a_second_restore(tmp_path: Path) -> None:
    agent = agent_directory(tmp_path / "data")
    backup(tmp_path / "data", tmp_path / "one", 1)
    restore(tmp_path / "one", tmp_path / "second")
    storage = DiskStorage(tmp_path / "second")
    with pytest.raises(ConfigError, match="restored from a backup"):
        load_identity(storage, agent)
    assert storage.read("id") is None
    another = load_identity(storage, b"n" * 20)
    storage.close()
    backup(tmp_path / "second", tmp_path / "two", 2)
    restore(tmp_path / "two", tmp_path / "third")
    for old in (agent, another.id):
        with pytest.raises(ConfigError, match="restored from a backup"):
            load_identity(storage_of(tmp_path / "third"), old)


def storage_of(root: Path) -> MemoryStorage:
    storage = MemoryStorage()
    storage.write("restored", (root / "restored").read_bytes())
    return storage


def test_records_that_come_while_the_backup_reads_leave_no_hole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One record goes to its segment only, several to the state log as well: in the copy none is missing."""
    agent_directory(tmp_path / "data")
    durable = durable_of(tmp_path / "data")
    durable.write([Append(JOB, "inc", *result(5))])
    following = [6]
    read = Path.read_bytes

    def busy(path: Path) -> bytes:
        data = read(path)
        if path.suffix in ("", ".seg", ".log"):
            at = following[0]
            following[0] += 3
            durable.write([Append(JOB, "inc", *result(at))])
            durable.write([Append(JOB, "inc", *result(index)) for index in (at + 1, at + 2)])
        return data

    monkeypatch.setattr(Path, "read_bytes", busy)
    backup(tmp_path / "data", tmp_path / "b", 1)
    monkeypatch.undo()
    restore(tmp_path / "b", tmp_path / "new")
    durable_of(tmp_path / "new")
    found = records_in(tmp_path / "new")
    assert found == list(range(len(found)))
    assert len(found) >= 8


def test_a_record_that_only_the_state_log_has_is_in_the_copy(tmp_path: Path) -> None:
    agent_directory(tmp_path / "data")
    storage = DiskStorage(tmp_path / "data")
    durable = Durable(StateLog(storage), ResultsLogs(tmp_path / "data" / "results"))
    durable.write([Append(JOB, "inc", *result(index)) for index in (5, 6)])
    (segment,) = (tmp_path / "data" / "results" / JOB.hex()).glob("*.seg")
    segment.write_bytes(segment.read_bytes()[:-3])  # what a power cut took
    backup(tmp_path / "data", tmp_path / "b", 1)
    restore(tmp_path / "b", tmp_path / "new")
    assert records_in(tmp_path / "new") == [0, 1, 2, 3, 4, 5]
    durable_of(tmp_path / "new")
    assert records_in(tmp_path / "new") == [0, 1, 2, 3, 4, 5, 6]


def test_a_log_that_drops_its_oldest_records_meanwhile_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent_directory(tmp_path / "data", records=0)
    log = ResultsLog(tmp_path / "data" / "results" / JOB.hex(), "inc", intervals_max=12)
    for index in range(12):
        log.append(*result(index))
    read, left = Path.read_bytes, [4]

    def busy(path: Path) -> bytes:
        data = read(path)
        if path.suffix == ".seg" and left[0]:
            left[0] -= 1
            for _ in range(3):
                log.append(*result((log.latest or 0) + 1))
        return data

    monkeypatch.setattr(Path, "read_bytes", busy)
    backup(tmp_path / "data", tmp_path / "b", 1)
    monkeypatch.undo()
    restore(tmp_path / "b", tmp_path / "new")
    answer = ResultsLogs(tmp_path / "new" / "results").read(ReadLog(1, JOB, None, None, 1000))
    found = [record.index for record, _ in decode_page(answer.page)]
    assert found == list(range(found[0], found[-1] + 1))
    assert answer.expired == found[0] - 1


def test_a_torn_last_record_is_left_out_and_damage_before_it_is_refused(tmp_path: Path) -> None:
    agent_directory(tmp_path / "data")
    (segment,) = (tmp_path / "data" / "results" / JOB.hex()).glob("*.seg")
    (tmp_path / "data" / "results" / "journal").write_bytes(b"")
    segment.write_bytes(segment.read_bytes()[:-3])
    backup(tmp_path / "data", tmp_path / "b", 1)
    restore(tmp_path / "b", tmp_path / "new")
    assert records_in(tmp_path / "new") == [0, 1, 2, 3]
    later = segment.with_name(f"{9:+020d}.seg")
    later.write_bytes(encode_frame(*result(9)))
    with pytest.raises(DataError, match="damaged"):
        backup(tmp_path / "data", tmp_path / "c", 1)
    assert not (tmp_path / "c").exists()
    assert [path.name for path in tmp_path.iterdir() if path.name.endswith(".new")] == []


def test_rows_in_pages_are_in_the_backup_and_come_back(tmp_path: Path) -> None:
    root = tmp_path / "data"
    agent_directory(root, 1)
    table, pages = row_pages.packed(
        pa.table({"n": range(1000)}), b"", 0, row_pages.RowLimits(inline=1000, page=2000)
    )
    assert len(pages) > 2
    kept = PageFiles(root / "results" / JOB.hex())
    for page in pages:
        kept.keep(1, page)
    ResultsLogs(root / "results").append(Append(JOB, "inc", record(1), table))
    backup(root, tmp_path / "copy", 0)
    restore(tmp_path / "copy", tmp_path / "again")
    again = PageFiles(tmp_path / "again" / "results" / JOB.hex())
    assert [again.read(1, row_pages.digest_of(page)) for page in pages] == list(pages)
    assert records_in(tmp_path / "again") == [0, 1]


def test_what_elf_repair_has_kept_beside_is_in_no_backup(tmp_path: Path) -> None:
    root = tmp_path / "data"
    agent_directory(root)
    for name in ("audit.log", "audit.log.1", "audit.log.damaged"):
        (root / name).write_bytes(b"")
    backup(root, tmp_path / "copy", 0)
    restore(tmp_path / "copy", tmp_path / "again")
    assert sorted(path.name for path in (tmp_path / "again").glob("audit*")) == ["audit.log", "audit.log.1"]


def test_a_state_log_that_is_damaged_is_no_source_of_a_backup(tmp_path: Path) -> None:
    agent_directory(tmp_path / "data")
    path = tmp_path / "data" / "state.log"
    data = path.read_bytes()
    good = framescan.pack(msgspec.msgpack.encode([("epoch", JOB, b"1")]))
    path.write_bytes(data[:10] + b"?" + data[11:] + good)
    with pytest.raises(DataError, match="damaged"):
        backup(tmp_path / "data", tmp_path / "b", 1)
