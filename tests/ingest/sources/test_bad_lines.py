from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elfmesh.cli.entry import run as elf
from elfmesh.ingest.parsers import StreamFormat
from elfmesh.ingest.parsers.base import sample
from elfmesh.ingest.sources.bad_lines import newlines, places, start_of
from elfmesh.ingest.sources.blocks import Block
from elfmesh.ingest.sources.parsing import parse_block
from elfmesh.ingest.sources.position import FilePosition

GOOD = b'{"ts": "2015-05-17T10:05:03Z", "k": 1}\n'


@given(st.lists(st.text(st.sampled_from("ab: .")), max_size=6), st.data(), st.sampled_from(["\n", "\r\n"]))
def test_a_line_is_found_by_what_its_sample_shows(lines: list[str], data: st.DataObject, end: str) -> None:
    bad = data.draw(st.sampled_from(["x", "x: y", "x: ", "x" * 200, "x" * 157 + "..."]))
    at = data.draw(st.integers(0, len(lines)))
    text = "".join(line + end for line in lines[:at])
    whole = (text + bad + end + "".join(line + end for line in lines[at:])).encode()
    for block in (whole, whole.removesuffix(end.encode()) if at == len(lines) else whole):
        assert start_of(sample("no: good (byte 4)", bad), block) == len(text.encode())
    assert newlines(whole) == whole.count(b"\n")


def test_what_is_not_there_has_its_file_alone() -> None:
    block = Block(b"one\ntwo\n", "app.log")
    assert places(["v is not int: 'x'", "no: ", "bad"], block, 7) == ["app.log"] * 3
    assert places(["bad: two", "bad: tw"], block, 7) == ["app.log:9", "app.log"]


def test_equal_lines_have_places_of_their_own() -> None:
    block = Block(b"bad\nworse\nbad\nbad", "app.log")
    assert places(["no: bad", "no: bad", "no: worse", "no: bad"], block, 0) == [
        "app.log:1", "app.log:3", "app.log:2", "app.log:4",
    ]  # fmt: skip


def test_an_agent_reports_at_which_byte_a_bad_line_stands() -> None:
    position = FilePosition("app.log", 1, 2, b"g" * 8, 3, 1000)
    block = Block(GOOD + b"nope\n", "/var/log/app.log", position=position, end=1000 + len(GOOD) + 5)
    parsed = parse_block(StreamFormat("json").parser("app.log"), block, ["k"])
    (reported,) = parsed.samples
    assert reported.startswith(f"/var/log/app.log byte {1000 + len(GOOD)}: JSON is malformed")


@pytest.mark.parametrize("packed", [False, True])
def test_run_reports_file_and_line_of_bad_lines_over_several_blocks(
    packed: bool, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / ("app.ndjson.gz" if packed else "app.ndjson")
    lines = (3 << 20) // len(GOOD)
    text = GOOD * lines + b"\n\nnope\n" + GOOD
    log.write_bytes(gzip.compress(text, 1) if packed else text)
    other = tmp_path / "other.ndjson"
    other.write_bytes(b"wrong\n" + GOOD)
    assert elf(["run", "SELECT count(*) FROM log", str(log), str(other), "--format", "json"]) == 0
    reported = capfd.readouterr().err
    assert f"  {log}:{lines + 3}: JSON is malformed" in reported
    assert f"  {other}:1: JSON is malformed" in reported
