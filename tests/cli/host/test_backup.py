"""A backup holds what may be old, a restore writes what a backup of ours holds; and nothing else."""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest
import zstandard

from elfmesh.agent.data_directory.backup import FORMAT, HEAD_NAME, SUMS_NAME, backup
from elfmesh.agent.data_directory.restore import restore
from elfmesh.cli.entry import run as main
from elfmesh.control.jobs import row_pages
from elfmesh.control.jobs.pages import decode_page, encode_frame
from elfmesh.control.jobs.records import ResultRecord
from elfmesh.control.protocol.events import Append, Persist, ReadLog
from elfmesh.errors import ConfigError, DataError
from elfmesh.storage import framescan
from elfmesh.storage.durable import Durable
from elfmesh.storage.framelog import FrameLog
from elfmesh.storage.frames import Released, Sealed, SealedInterval
from elfmesh.storage.identity import load_identity
from elfmesh.storage.results.log import ResultsLog
from elfmesh.storage.results.logs import ResultsLogs
from elfmesh.storage.results.page_files import PageFiles
from elfmesh.storage.statelog import StateLog
from elfmesh.storage.storage import DiskStorage, MemoryStorage
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


def packed(entries: list[tuple[tarfile.TarInfo, bytes]], behind: bytes = b"") -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for entry, data in entries:
            archive.addfile(entry, io.BytesIO(data))
    return zstandard.ZstdCompressor().compress(out.getvalue() + behind)


def entry(name: str, data: bytes = b"x", **fields: Any) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.size = len(data)
    for field, value in fields.items():
        setattr(info, field, value)
    return info, data


def head(form: int = FORMAT) -> tuple[tarfile.TarInfo, bytes]:
    reported: dict[str, Any] = {"format": form, "elf": "x", "agent": "ab" * 20, "made_us": 1}
    reported |= {"votes": 0, "contributions": 0, "left_out": {}}
    return entry(HEAD_NAME, json.dumps(reported).encode())


def sealed(*entries: tuple[tarfile.TarInfo, bytes], behind: bytes = b"") -> bytes:
    sums = {info.name: hashlib.sha256(data).hexdigest() for info, data in entries}
    return packed([*entries, entry(SUMS_NAME, json.dumps(sums).encode())], behind)


HOSTILE: dict[str, Callable[[], bytes]] = {
    "up": lambda: sealed(head(), entry("../evil")),
    "up inside": lambda: sealed(head(), entry("sinks/../../evil")),
    "absolute": lambda: sealed(head(), entry("/tmp/evil")),
    "hidden": lambda: sealed(head(), entry("sinks/.ssh")),
    "id": lambda: sealed(head(), entry("id")),
    "votes": lambda: sealed(head(), entry("frames.log")),
    "key": lambda: sealed(head(), entry("tls/key.pem")),
    "newline": lambda: sealed(head(), entry("functions\n")),
    "symbolic link": lambda: sealed(head(), entry("sinks/a", b"", type=tarfile.SYMTYPE, linkname="/etc")),
    "hard link": lambda: sealed(head(), entry("sinks/a", b"", type=tarfile.LNKTYPE, linkname="/etc/passwd")),
    "device": lambda: sealed(head(), entry("sinks/a", b"", type=tarfile.CHRTYPE)),
    "directory": lambda: sealed(head(), entry("sinks/a", b"", type=tarfile.DIRTYPE)),
    "twice": lambda: sealed(head(), entry("functions"), entry("functions")),
    "no head": lambda: sealed(entry("functions")),
    "no sums": lambda: packed([head(), entry("functions")]),
    "cut off": lambda: sealed(head(), entry("functions"))[:-1],
    "file and directory": lambda: sealed(head(), entry("sinks/a"), entry("sinks/a/b")),
    "wrong sums": lambda: packed([head(), entry("functions"), entry(SUMS_NAME, b'{"functions": "0"}')]),
    "behind sums": lambda: packed([head(), entry(SUMS_NAME, b"{}"), entry("functions")]),
    "behind the archive": lambda: sealed(head(), behind=b"more"),
    "a bomb": lambda: sealed(head(), entry("sinks/a", bytes(64 << 20))),
    "a bomb before a file": lambda: sealed(
        head(), entry("functions", pax_headers={"comment": "a" * (64 << 20)})
    ),
    "many files": lambda: sealed(head(), *(entry(f"sinks/{number}", b"") for number in range(50_000))),
    "newer": lambda: sealed(head(FORMAT + 1)),
    "no zstd": lambda: b"not a backup",
    "nothing": lambda: b"",
    "head of a list": lambda: sealed(entry(HEAD_NAME, b"[]")),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_what_is_no_backup_of_ours_is_refused_in_one_line_and_leaves_nothing(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = tmp_path / "in"
    root.mkdir()
    (root / "b").write_bytes(HOSTILE[name]())
    code = main(["restore", str(root / "b"), str(root / "new")])
    reported = capsys.readouterr().err
    assert code == (1 if name == "file and directory" else 65), reported
    assert "Traceback" not in reported
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["b", "in"]


def test_any_byte_that_is_changed_or_missing_is_noticed(tmp_path: Path) -> None:
    agent_directory(tmp_path / "data")
    backup(tmp_path / "data", tmp_path / "b", 1)
    whole = (tmp_path / "b").read_bytes()
    for at in range(0, len(whole), max(1, len(whole) // 60)):
        for bad in (whole[:at], whole[:at] + bytes([whole[at] ^ 0x55]) + whole[at + 1 :]):
            (tmp_path / "bad").write_bytes(bad)
            try:
                restore(tmp_path / "bad", tmp_path / "new")
            except DataError:
                assert not (tmp_path / "new").exists()
            else:  # a bit that says nothing of the content, such as one of the frame's own head
                assert records_in(tmp_path / "new") == [0, 1, 2, 3, 4]
                shutil.rmtree(tmp_path / "new")


def test_a_name_that_is_changed_wherever_it_stands_is_noticed(tmp_path: Path) -> None:
    """Damage can do that: compressed sums point to the names before them, and a swap keeps a header's sum."""
    agent_directory(tmp_path / "data")
    backup(tmp_path / "data", tmp_path / "b", 1)
    whole = (tmp_path / "b").read_bytes()
    assert zstandard.get_frame_parameters(whole).has_checksum
    content = zstandard.ZstdDecompressor().decompressobj().decompress(whole)
    renamed = content.replace(JOB.hex().encode(), JOB.hex().replace("0809", "0908").encode())
    assert renamed != content
    damaged = zstandard.ZstdCompressor(write_checksum=True).compress(renamed)
    (tmp_path / "b").write_bytes(damaged[:-4] + whole[-4:])
    with pytest.raises(DataError, match="checksum"):
        restore(tmp_path / "b", tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_directories_in_use_and_wrong_places_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    agent_directory(tmp_path / "data")
    assert main(["backup", str(tmp_path / "data"), "-o", str(tmp_path / "b")]) == 0
    assert "not included: 1 votes, 3 contributions" in capsys.readouterr().err
    assert main(["restore", str(tmp_path / "b"), str(tmp_path / "data")]) == 65
    assert "is not empty" in capsys.readouterr().err
    assert main(["backup", str(tmp_path / "data"), "-o", str(tmp_path / "data" / "b")]) == 65
    assert main(["backup", str(tmp_path), "-o", str(tmp_path / "c")]) == 65
    assert main(["restore", str(tmp_path / "none"), str(tmp_path / "new")]) == 1
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    assert main(["restore", str(tmp_path / "b"), str(tmp_path / "link")]) == 65
    (tmp_path / "empty").mkdir()
    assert main(["restore", str(tmp_path / "b"), str(tmp_path / "empty")]) == 0


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


@pytest.mark.parametrize("blocks", range(21))
def test_a_backup_of_any_size_is_restored(tmp_path: Path, blocks: int) -> None:
    """Tar's end is two blocks and zeros up to a record of 20: one of the two may be in the next record."""
    agent_directory(tmp_path / "data", records=0)
    (tmp_path / "data" / "dead-letter" / "a.b" / "8.inc.partial").write_bytes(b"x" * 512 * blocks)
    backup(tmp_path / "data", tmp_path / "b", 1)
    restore(tmp_path / "b", tmp_path / "new")
    found = tmp_path / "new" / "dead-letter" / "a.b" / "8.inc.partial"
    assert found.read_bytes() == b"x" * 512 * blocks
