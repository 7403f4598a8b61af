"""Records of several lines: the same ones however they are read, and offsets only at their beginnings."""

from __future__ import annotations

from pathlib import Path

from elfmesh.ingest.parsers import StreamFormat
from elfmesh.ingest.parsers.framing import parse_framing
from elfmesh.ingest.sources import StreamReader


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def reader(log: Path, clock: Clock) -> StreamReader:
    framing = parse_framing("indent", timeout_s=1.0)
    return StreamReader(str(log), StreamFormat("raw", framing=framing), clock=clock)


def raws(stream: StreamReader) -> list[str]:
    return [raw for each in stream.poll() for raw in each.parsed.arrays["_raw"].to_pylist()]


def test_the_last_record_ends_when_nothing_follows_and_can_be_read_again(tmp_path: Path) -> None:
    log, clock = tmp_path / "log", Clock()
    stream = reader(log, clock)
    stream.add("job", ["_raw"])
    log.write_text("a\n b\nc\n")
    assert raws(stream) == ["a\n b"]
    (source,) = stream.sources("job")
    assert not source.at_end, "a record that may go on holds the watermark"
    (place,) = stream.positions("job")
    assert place.offset == 5
    with log.open("a") as file:
        file.write(" d\n")
    assert raws(stream) == []
    clock.now += 2
    assert raws(stream) == ["c\n d"]
    assert stream.sources("job")[0].at_end
    with log.open("a") as file:
        file.write(" late\ne\n")
    assert raws(stream) == [" late"]
    end = stream.positions("job")
    stream.close()

    again = reader(log, clock)
    again.add("job", ["_raw"], positions=[place], boundaries=[place.at(10), *end])
    assert raws(again) == ["c\n d", " late"], "where it was ended once it ends again"
    again.close()


def test_a_rotated_file_is_not_closed_with_a_record_that_may_go_on(tmp_path: Path) -> None:
    log, clock = tmp_path / "log", Clock()
    framing = parse_framing("indent", timeout_s=60.0)
    stream = StreamReader(str(log), StreamFormat("raw", framing=framing), clock=clock, grace_s=5.0)
    stream.add("job", ["_raw"])
    log.write_text("a\n b\nc\n")
    found = raws(stream)
    log.rename(tmp_path / "log.1")
    log.write_text("d\n")
    for _ in range(20):
        clock.now += 4
        found += raws(stream)
    assert found == ["a\n b", "c", "d"]
    assert stream.gaps("job") == []
    stream.close()


def test_a_second_job_catches_up_with_a_file_that_grows(tmp_path: Path) -> None:
    log, clock = tmp_path / "log", Clock()
    log.write_text("a\n b\nc\n")
    stream = reader(log, clock)
    stream.add("one", ["_raw"])
    assert raws(stream) == ["a\n b"]
    stream.add("two", ["_raw"])
    assert raws(stream) == ["a\n b"]
    assert stream.groups == 1
    stream.close()
