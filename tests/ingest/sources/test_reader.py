from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from elfmesh.ingest.parsers import StreamFormat
from elfmesh.ingest.parsers.base import ParsedColumns
from elfmesh.ingest.parsers.json_lines import JsonParser
from elfmesh.ingest.parsers.lines import Lines
from elfmesh.ingest.sources import BlockDelivery, StreamReader, Tail


def append(path: Path, *values: int) -> None:
    with path.open("a") as file:
        file.writelines(f'{{"v":{value},"w":"x"}}\n' for value in values)


def seen(deliveries: list[BlockDelivery], job: str) -> list[int]:
    return [
        value
        for delivery in deliveries
        if job in delivery.jobs
        for value in delivery.parsed.batch.column("v").to_pylist()
    ]


def reader(path: Path, block_bytes: int = 40) -> StreamReader:
    return StreamReader(str(path), StreamFormat("json"), block_bytes=block_bytes)


def test_jobs_at_the_same_place_share_one_read_and_one_parse(tmp_path: Path) -> None:
    log = tmp_path / "log"
    append(log, 1, 2, 3)
    stream = reader(log, 1 << 20)
    stream.add("a", ["v"])
    stream.add("b", ["w", "v"])
    (delivery,) = stream.poll()
    assert delivery.jobs == ("a", "b")
    assert delivery.parsed.batch.schema.names == ["v", "w"]
    assert stream.groups == 1
    assert stream.at_end("a")
    stream.close()


def test_a_new_job_catches_up_and_is_united(tmp_path: Path) -> None:
    log = tmp_path / "log"
    append(log, *range(10))
    stream = reader(log)
    stream.add("old", ["v"])
    assert seen(stream.poll(), "old") == list(range(10))
    stream.add("new", ["v"])
    append(log, 10)
    first = stream.poll(bytes_max=40)
    assert stream.groups == 2
    assert seen(first, "old") == [10]
    assert seen(first, "new") != [10]
    got = seen(first, "new")
    while stream.groups > 1:
        got += seen(stream.poll(bytes_max=40), "new")
    assert got == list(range(11))
    append(log, 11)
    (delivery,) = stream.poll()
    assert delivery.jobs == ("old", "new")
    stream.close()


def test_a_follower_catches_up_while_the_log_grows_and_no_reader_misses_a_record(tmp_path: Path) -> None:
    log = tmp_path / "log"
    append(log, *range(50))
    stream = reader(log)
    stream.add("old", ["v"])
    deliveries = stream.poll()
    stream.add("new", ["v"])
    for step in range(40):
        append(log, 50 + step)
        deliveries += stream.poll(bytes_max=80)
    assert stream.groups == 1
    assert seen(deliveries, "old") == seen(deliveries, "new") == list(range(90))
    stream.close()


def test_jobs_that_begin_one_after_the_other_on_a_backlog_share_the_rest_of_it(tmp_path: Path) -> None:
    log = tmp_path / "log"
    append(log, *range(2_000))
    stream = reader(log)
    parsed = 0
    got: dict[str, list[int]] = {}
    for step in range(300):
        if step < 5:
            stream.add(f"job{step}", ["v"])
        for delivery in stream.poll(bytes_max=400):
            parsed += delivery.parsed.lines
            for job in delivery.jobs:
                got.setdefault(job, []).extend(seen([delivery], job))
    assert got == {f"job{number}": list(range(2_000)) for number in range(5)}
    assert stream.groups == 1
    assert parsed < 2_000 * 1.5
    stream.close()


def test_a_leader_does_not_wait_for_a_reader_that_cannot_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "log"
    append(log, *range(100))
    stream = reader(log)
    stream.add("old", ["v"])
    stream.poll(bytes_max=100)
    stream.add("stuck", ["v"])
    group, poll = stream._group("stuck"), Tail.poll
    assert group is not None
    stuck = group.tail
    monkeypatch.setattr(Tail, "poll", lambda self, *args: [] if self is stuck else poll(self, *args))
    deliveries = [delivery for _ in range(30) for delivery in stream.poll(bytes_max=100)]
    assert seen(deliveries, "old")[-1] == 99
    stream.close()


def test_a_job_that_begins_at_the_end_leads_and_the_others_join_it(tmp_path: Path) -> None:
    log = tmp_path / "log"
    append(log, *range(10))
    stream = reader(log)
    stream.add("history", ["v"])
    stream.add("now", ["v"], read_from="end")
    append(log, 10)
    deliveries = [delivery for _ in range(30) for delivery in stream.poll(bytes_max=40)]
    assert seen(deliveries, "history") == list(range(11))
    assert seen(deliveries, "now") == [10]
    assert stream.groups == 1
    stream.close()


def test_a_job_resumes_at_its_own_position(tmp_path: Path) -> None:
    log = tmp_path / "log"
    append(log, 1, 2)
    stream = reader(log)
    stream.add("a", ["v"])
    stream.poll()
    at = stream.positions("a")
    stream.remove("a")
    append(log, 3)
    stream.add("a", ["v"], positions=at)
    assert seen(stream.poll(), "a") == [3]
    stream.close()


def test_a_paused_job_is_not_read_for(tmp_path: Path) -> None:
    log = tmp_path / "log"
    append(log, 1)
    stream = reader(log)
    stream.add("a", ["v"])
    assert stream.poll(paused=("a",)) == []
    assert seen(stream.poll(), "a") == [1]
    stream.close()


def test_removing_the_last_job_closes_the_files(tmp_path: Path) -> None:
    log = tmp_path / "log"
    append(log, 1)
    stream = reader(log)
    stream.add("a", ["v"])
    stream.poll()
    stream.remove("a")
    stream.remove("a")
    assert (stream.groups, stream.jobs, stream.poll(), stream.at_end("a")) == (0, (), [], True)


def test_truncation_does_not_keep_cursors_apart(tmp_path: Path) -> None:
    log = tmp_path / "log"
    append(log, *range(20))
    stream = reader(log)
    stream.add("a", ["v"])
    stream.poll()
    stream.add("b", ["v"])
    stream.poll(bytes_max=40)
    log.write_text('{"v":100}\n')
    for value in range(101, 105):
        stream.poll()
        append(log, value)
    stream.poll()
    assert stream.groups == 1
    stream.close()


def test_an_overlong_line_is_a_parse_error_with_a_sample(tmp_path: Path) -> None:
    log = tmp_path / "log"
    append(log, 1)
    with log.open("a") as file:
        file.write("y" * (2 << 20) + "\n")
    append(log, 2)
    stream = reader(log, 1 << 20)
    stream.add("a", ["v"])
    deliveries = stream.poll()
    assert seen(deliveries, "a") == [1, 2]
    assert sum(delivery.parsed.errors for delivery in deliveries) == 1
    samples = [sample for delivery in deliveries for sample in delivery.parsed.samples]
    assert ": longer than the limit on one line: yyy" in samples[0]
    stream.close()


def test_a_block_that_breaks_the_parser_is_errors_and_not_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "log"
    log.write_text('{"v": 1}\n{"v": 2}\n')
    reader = StreamReader(str(log), StreamFormat("json"))
    reader.add("job", ["v"])
    columns = JsonParser.columns

    def break_on_two(self: JsonParser, lines: Lines, wanted: Sequence[str]) -> ParsedColumns:
        if len(lines) == 2:
            raise ZeroDivisionError("a bug")
        return columns(self, lines, wanted)

    monkeypatch.setattr(JsonParser, "columns", break_on_two)
    (first,) = reader.poll()
    with log.open("a") as file:
        file.write('{"v": 3}\n')
    (second,) = reader.poll()
    assert (first.parsed.lines, first.parsed.errors, first.parsed.batch.num_rows) == (2, 2, 0)
    assert "a bug" in first.parsed.samples[0]
    assert (second.parsed.errors, second.parsed.batch.to_pydict()) == (0, {"v": [3]})


def test_a_reader_behind_in_a_rotated_file_is_not_united_with_one_that_has_finished_it(
    tmp_path: Path,
) -> None:
    """After a restart one job's frames reached further into a rotated file than another's."""
    log = tmp_path / "log"
    append(log, 1, 2, 3, 4)
    before = reader(log, 1 << 20)
    before.add("behind", ["v"])
    start = before.positions("behind")
    before.poll()
    end = before.positions("behind")
    before.close()
    log.rename(tmp_path / "log.1")
    append(log)
    stream = reader(log, 1 << 20)
    stream.add("finished", ["v"], positions=end)
    stream.poll()
    stream.add("behind", ["v"], positions=start)
    append(log, 5)
    deliveries = [delivery for _ in range(3) for delivery in stream.poll()]
    assert seen(deliveries, "behind") == [1, 2, 3, 4, 5]
    assert seen(deliveries, "finished") == [5]
    assert stream.groups == 1
    stream.close()
