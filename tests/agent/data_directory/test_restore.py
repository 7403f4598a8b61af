"""A restore writes what a backup of ours holds, and nothing else; damage of any kind is noticed."""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import zstandard

from elfmesh.agent.data_directory.backup import FORMAT, HEAD_NAME, SUMS_NAME, backup
from elfmesh.agent.data_directory.restore import restore
from elfmesh.cli.entry import run as main
from elfmesh.errors import DataError
from tests.agent.data_directory.directories import JOB, agent_directory, records_in


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


@pytest.mark.parametrize("blocks", range(21))
def test_a_backup_of_any_size_is_restored(tmp_path: Path, blocks: int) -> None:
    """Tar's end is two blocks and zeros up to a record of 20: one of the two may be in the next record."""
    agent_directory(tmp_path / "data", records=0)
    (tmp_path / "data" / "dead-letter" / "a.b" / "8.inc.partial").write_bytes(b"x" * 512 * blocks)
    backup(tmp_path / "data", tmp_path / "b", 1)
    restore(tmp_path / "b", tmp_path / "new")
    found = tmp_path / "new" / "dead-letter" / "a.b" / "8.inc.partial"
    assert found.read_bytes() == b"x" * 512 * blocks
