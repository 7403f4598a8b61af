"""The file of a savepoint is whole or refused."""

from __future__ import annotations

import json
import zlib
from pathlib import Path
from typing import Any

import pytest
import zstandard

from elfmesh.api import savepoint
from elfmesh.api.savepoint import SavepointHeader, read_head, read_results, write
from elfmesh.cli.entry import run as elf
from elfmesh.errors import DataError

TEXT = "CREATE JOB shop.top AS SELECT count(*) AS n FROM log GROUP BY TUMBLE(ts, INTERVAL '10' SECOND)"

HEAD = SavepointHeader(
    elf="1",
    job="shop/top",
    creator="local",
    text=TEXT,
    version=3,
    incarnation="ab",
    size="10 s",
    slide="10 s",
    first=7,
    agents=("a", "b"),
    made_us=1,
)


def line(index: int) -> bytes:
    return json.dumps({"interval": {"index": index}, "rows": [{"n": index}], "pad": "x" * 5000}).encode()


def test_what_is_written_is_read_again_in_several_blocks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "s"
    assert write(path, HEAD, map(line, range(500))) == 500
    assert path.stat().st_mode & 0o777 == 0o600
    assert [each.name for each in tmp_path.iterdir()] == ["s"]
    assert read_head(path) == HEAD
    assert list(read_results(path)) == [(index, line(index)) for index in range(500)]
    assert elf(["savepoint", "show", str(path)]) == 0
    assert json.loads(capsys.readouterr().out)["first"] == 7
    assert elf(["savepoint", "results", str(path), "--from", "498"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 2


def test_a_file_that_is_not_finished_leaves_the_earlier_one(tmp_path: Path) -> None:
    path = tmp_path / "s"
    write(path, HEAD, [])

    def failing() -> Any:
        yield line(1)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write(path, HEAD, failing())
    assert list(read_results(path)) == []
    assert [each.name for each in tmp_path.iterdir()] == ["s"]


def test_every_byte_counts(tmp_path: Path) -> None:
    path, bad = tmp_path / "s", tmp_path / "bad"
    write(path, HEAD, map(line, range(3)))
    whole = path.read_bytes()
    for at in range(len(whole)):
        changed = whole[:at] + bytes([whole[at] ^ 0x20]) + whole[at + 1 :]
        for data in (whole[:at], changed, whole[:at] + whole[at + 1 :]):
            bad.write_bytes(data)
            with pytest.raises(DataError):
                read_head(bad)
    bad.write_bytes(whole + b"x")
    with pytest.raises(DataError, match="data after its end"):
        read_head(bad)


def part(body: bytes) -> bytes:
    return savepoint._PART.pack(len(body), zlib.crc32(body)) + body


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"ELFSAVE",
        b"something else",
        b"ELFSAVE\x02",
        b"ELFSAVE\x01" + part(b"no zstd"),
        b"ELFSAVE\x01\xff\xff\xff\xff" + b"\0" * 4,
        b"ELFSAVE\x01" + part(zstandard.ZstdCompressor().compress(b"\x90")) + savepoint._packed(b""),
        b"ELFSAVE\x01" + part(zstandard.ZstdCompressor().compress(bytes(savepoint.PART_BYTES_MAX + 1))),
        b"ELFSAVE\x01" + savepoint._packed(b""),
    ],
    ids=["empty", "mark", "other", "newer", "no zstd", "long", "no head", "bomb", "nothing"],
)
def test_what_is_no_savepoint_is_refused_in_one_line(
    data: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "s").write_bytes(data)
    for verb in ("show", "results", "restore"):
        assert elf(["savepoint", verb, str(tmp_path / "s")]) == 65
        reported = capsys.readouterr()
        assert not reported.out
        assert "Traceback" not in reported.err
