"""Spools and message cutting: what is durable, what is cut off, what may go."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elfmesh.errors import ConfigError
from elfmesh.ingest.inputs.address import parse_listen
from elfmesh.ingest.inputs.messages import MessageCutter, one_line
from elfmesh.ingest.inputs.spool import Spool, SpoolFull
from elfmesh.ingest.parsers import StreamFormat
from elfmesh.ingest.sources import FilePosition, StreamReader

MESSAGE = st.binary(max_size=12).filter(lambda m: not m[:1].isdigit())


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.booleans(), MESSAGE), max_size=8), st.lists(st.integers(1, 9), max_size=30))
def test_messages_are_the_same_however_the_bytes_come(
    messages: list[tuple[bool, bytes]], sizes: Sequence[int]
) -> None:
    data, expected = b"", []
    for counted, body in messages:
        if counted:
            marked = b"<1>" + body
            data += b"%d " % len(marked) + marked
            expected.append(one_line(marked))
        else:
            line = body.replace(b"\n", b"").replace(b"\0", b"")
            data += line + b"\n"
            expected.append(one_line(line))
    cutter, found, at = MessageCutter(), [], 0
    for size in [*sizes, len(data)]:
        found += cutter.push(data[at : at + size])
        at += size
    assert found + cutter.finish() == [line for line in expected if line]
    assert all(line.count(b"\n") == 1 for line in found)


def test_messages_that_are_too_long_are_left_out_and_cost_no_memory() -> None:
    cutter = MessageCutter(100)
    assert cutter.push(b"x" * 500) == []
    assert cutter.push(b"x" * 500 + b"\ngood\n") == [b"good\n"]
    assert cutter.push(b"300 <1>" + b"y" * 50) == []
    assert cutter.push(b"y" * 247 + b"8 <2>after") == [b"<2>after\n"]
    assert cutter.push(b"z" * 101 + b"\nlast") == []
    assert (cutter.overlong, cutter.finish()) == (3, [b"last\n"])


def test_a_newline_within_a_message_is_written_as_syslog_daemons_do() -> None:
    assert MessageCutter().push(b"11 <1>a\nb\nc 4\n") == [b"<1>a#012b#012c 4\n"]


@pytest.mark.parametrize(
    "text", ["udp://0.0.0.0:1", "tcp://10.0.0.1:5", "http://a.example:80", "unix://x", "ftp://127.0.0.1:1"]
)
def test_addresses_that_are_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        parse_listen(text, where="streams.x.listen")


def test_a_torn_line_is_cut_off_and_what_was_durable_stays(tmp_path: Path) -> None:
    spool = Spool(tmp_path, 1 << 20)
    spool.append(b"one\ntwo\n")
    spool.close()
    with spool.path.open("ab") as file:
        file.write(b"to" * 70_000)
    again = Spool(tmp_path, 1 << 20)
    assert again.path.read_bytes() == b"one\ntwo\n"
    assert again.last_line() == b"two"
    again.append(b"three\n")
    assert again.path.read_bytes() == b"one\ntwo\nthree\n"
    again.close()


@pytest.mark.parametrize("call", ["open", "rename"])
def test_without_a_descriptor_for_the_next_segment_this_one_grows_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    def refused(*args: object) -> None:
        raise OSError(24, "Too many open files")

    spool = Spool(tmp_path, 40)
    with monkeypatch.context() as patch:
        patch.setattr(*((os, "open", refused) if call == "open" else (Path, "rename", refused)))
        for line in (b"one 1 1 1\n", b"two\n"):
            spool.append(line)  # durable: its sender must hear of that
    assert spool.path.read_bytes() == b"one 1 1 1\ntwo\n"
    spool.append(b"three\n")
    spool.append(b"four\n")
    assert [path.read_bytes() for path in sorted(tmp_path.iterdir())] == [
        b"four\n",
        b"one 1 1 1\ntwo\nthree\n",
    ]
    spool.close()


def restarts(reader: StreamReader) -> list[tuple[FilePosition, ...]]:
    return [reader.positions("job")]


def test_what_a_job_has_not_read_stays_and_the_spool_refuses_more(tmp_path: Path) -> None:
    spool = Spool(tmp_path, 4000)
    reader = StreamReader(str(spool.path), StreamFormat("raw"))
    reader.add("job", ["_raw"])
    begin = restarts(reader)
    sent: list[str] = []
    while not spool.over:
        sent.append(f"{len(sent):09d}")
        spool.append(sent[-1].encode() + b"\n")
    with pytest.raises(SpoolFull):
        spool.append(b"one more\n")
    assert not spool.give_up_read(begin), "nothing was read: nothing may go"
    found: list[str] = []
    while blocks := reader.poll():
        found += [raw for each in blocks for raw in each.parsed.arrays["_raw"].to_pylist()]
    assert found == sent
    assert spool.give_up_read(restarts(reader))
    for number in range(1000, 1050):
        spool.append(b"%09d\n" % number)
        sent.append(f"{number:09d}")
    while blocks := reader.poll():
        found += [raw for each in blocks for raw in each.parsed.arrays["_raw"].to_pylist()]
    assert found == sent
    assert reader.gaps("job") == []
    reader.close()
    spool.close()


def test_without_a_job_the_oldest_goes_and_the_last_line_stays(tmp_path: Path) -> None:
    spool = Spool(tmp_path, 4000)
    for number in range(2000):
        while spool.over:
            assert spool.give_up_read([])
        spool.append(b"%09d\n" % number)
    assert spool.nbytes <= 5000
    assert spool.last_line() == b"000001999"
    spool.close()


def test_jobs_of_other_streams_hold_nothing(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "ours", 400)
    other = FilePosition("/var/log/x", 1, 2, b"", 0, 0)
    while not spool.over:
        spool.append(b"line\n")
    assert spool.give_up_read([(other,)])
    spool.close()
