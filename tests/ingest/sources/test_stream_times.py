"""Readers of a range of times: they find the records that a reader without an index finds, in any log."""

from __future__ import annotations

import gzip
import json
import logging
import os
import random
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from elfmesh.ingest.parsers import StreamFormat
from elfmesh.ingest.sources import StreamReader, stream_times
from elfmesh.ingest.sources.time_index import WantedTimes
from elfmesh.ql.engine.block import BlockRows
from tests.ingest.sources.stretches import SECOND, Host, log_of, short_stretches, times_of, wanted


@pytest.fixture(autouse=True)
def in_short_stretches() -> Iterator[None]:
    with short_stretches():
        yield


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


RANGES = [wanted(500), wanted(None, 300), wanted(200, 260), wanted(5000)]


def test_a_reader_of_the_end_of_a_log_reads_little_more(host: Host) -> None:
    host.log.write_text(log_of(range(1000)))
    assert host.read() == list(range(1000))
    whole = host.bytes_read
    host.same(*RANGES)
    host.read(wanted(980))
    assert host.bytes_read < whole / 5
    host.read(wanted(100, 120))
    assert host.bytes_read < whole / 3


def test_the_first_read_of_a_range_makes_the_index_of_the_second(host: Host) -> None:
    host.log.write_text(log_of(range(1000)))
    assert host.read(wanted(990)) == list(range(990, 1000))
    whole = host.bytes_read
    assert host.read(wanted(990)) == list(range(990, 1000))
    assert host.bytes_read < whole / 5


def test_an_index_is_used_after_a_restart_and_grows_on(host: Host) -> None:
    host.log.write_text(log_of(range(1000)))
    host.read()
    host.restart()
    with host.log.open("a") as file:
        file.write(log_of(range(1000, 2000), 1000))
    host.same(*RANGES)
    host.read(wanted(1990))
    assert host.bytes_read < 5000


def test_a_late_record_among_earlier_ones_is_read() -> None:
    with short_stretches(), tempfile.TemporaryDirectory() as root:
        host, seconds = Host(Path(root)), list(range(500))
        seconds[250] = 2000
        host.log.write_text(log_of(seconds))
        host.read()
        assert host.read(wanted(1000)) == [250]


def test_the_index_of_a_file_that_begins_in_the_same_way_is_not_followed() -> None:
    with short_stretches(), tempfile.TemporaryDirectory() as root:
        host = Host(Path(root))
        host.log.write_text(HEAD + log_of(range(1000), 100))
        host.read()
        replaced(host.log, HEAD + log_of([*range(500), 2000, *range(1000)], 100))
        assert host.read(wanted(1999)) == [600]


LOG = st.lists(st.one_of(st.none(), st.integers(0, 1000), st.integers(0, 20)), max_size=120)
EDGE = st.one_of(st.none(), st.integers(0, 1001))


@settings(max_examples=60, deadline=None)
@given(LOG, LOG, EDGE, EDGE, st.sampled_from([60, 150, 1000]), st.booleans(), st.integers(0, 3))
@example([5] * 60, [900], 900, None, 150, True, 0)
def test_rows_with_an_index_are_those_without_in_any_order_of_times(
    tmp_path_factory: pytest.TempPathFactory,
    first: list[int | None],
    second: list[int | None],
    since: int | None,
    until: int | None,
    block: int,
    restarts: bool,
    seed: int,
) -> None:
    host = Host(tmp_path_factory.mktemp("log"))
    host.log.write_text(log_of(first))
    host.read(block=block)
    with host.log.open("a") as file:
        file.write(log_of(second, len(first)))
    if restarts:
        host.restart()
    ranges = [wanted(since, until), wanted(since), wanted(None, until)]
    random.Random(seed).shuffle(ranges)
    host.same(*ranges, block=block)
    host.same(*ranges, block=block)


@settings(max_examples=60, deadline=None)
@given(LOG, st.sampled_from([0, 500]), EDGE, EDGE, st.sampled_from([60, 150, 1000]))
def test_no_reader_of_a_range_reads_more_than_was_predicted(
    tmp_path_factory: pytest.TempPathFactory,
    times: list[int | None],
    before: int,
    since: int | None,
    until: int | None,
    block: int,
) -> None:
    host = Host(tmp_path_factory.mktemp("log"))
    host.log.write_text(log_of([*range(before), *times]))
    for each in (wanted(since, until), wanted(since), wanted(None, until)) * 2:
        predicted = host.predicted(each, block=block)
        host.read(each, block=block)
        assert host.bytes_read <= predicted <= host.log.stat().st_size


def test_the_prediction_for_a_range_spares_what_its_reader_passes_over(host: Host) -> None:
    host.log.write_text(log_of(range(1000)))
    whole = host.log.stat().st_size
    assert [host.predicted(each) for each in RANGES] == [whole] * 4, "there is no index yet"
    host.read()
    for each in (wanted(980), wanted(None, 20), wanted(500, 520)):
        assert host.predicted(each) < whole / 3
    packed = host.log.with_name("log.1.gz")
    packed.write_bytes(gzip.compress(host.log.read_bytes()))
    host.log.unlink()
    host.log = packed
    assert host.predicted(wanted(500)) == whole, "its end is wanted, and it is read from its beginning"
    assert host.predicted(wanted(5000)) < whole / 3


def test_an_index_of_other_content_spares_nothing(host: Host) -> None:
    host.log.write_text(log_of(range(1000)))
    host.read()
    rewritten(host.log, log_of([*range(500), *range(999, 499, -1)]))
    assert host.predicted(wanted(980)) == host.log.stat().st_size


def rewritten(log: Path, other: str) -> None:
    with log.open("r+") as file:
        file.write(other)
        file.truncate()


def replaced(log: Path, other: str) -> None:
    beside = log.with_name("new")
    beside.write_text(other)
    beside.rename(log)


def truncated(log: Path, other: str) -> None:
    shutil.copy(log, log.with_name("log.1"))
    rewritten(log, other)


def rotated(log: Path, other: str) -> None:
    log.rename(log.with_name("log.1"))
    log.write_text(other)


def compressed(log: Path, other: str) -> None:
    with gzip.open(log.with_name("log.1.gz"), "wb") as file:
        file.write(log.read_bytes())
    log.unlink()
    log.write_text(other)


HEAD = log_of([None] * 60)  # two files begin with the same KiB


@pytest.mark.parametrize("change", [rewritten, replaced, truncated, rotated, compressed])
@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize(
    "other",
    [
        HEAD + log_of(range(900, 1000), 2000),  # shorter
        HEAD + log_of(range(900, 2600), 2000),  # longer
        HEAD + log_of([None] * 7 + [*range(1000)], 4000),  # shifted
        log_of(range(100), 9000),
        "",
    ],
)
def test_a_file_that_takes_the_place_of_another_is_read(
    host: Host, change: Callable[[Path, str], None], restarts: bool, other: str
) -> None:
    host.log.write_text(HEAD + log_of(range(1000), 100))
    host.read()
    change(host.log, other)
    if restarts:
        host.restart()
    host.same(*RANGES[:2])
    host.same(*RANGES[1:])
    with host.log.open("a") as file:
        file.write(log_of(range(980, 1100), 20_000))
    host.same(*RANGES[::2])


def test_a_new_file_under_an_old_inode_does_not_continue_the_old_index(
    host: Host, caplog: pytest.LogCaptureFixture
) -> None:
    host.log.write_text(HEAD + log_of(range(1000), 100))
    host.read()
    rewritten(host.log, HEAD + log_of([2000, *range(1500)], 100))
    with caplog.at_level(logging.INFO, "elf.worker"):
        host.read()
    assert [record.message for record in caplog.records if "index" in record.message] == [
        f"{host.log}: its time index is of other content, and is made again"
    ]
    host.same(*RANGES, wanted(1999))


@pytest.mark.parametrize("restarts", [False, True])
def test_rotation_keeps_the_index_and_a_compressed_file_out_of_range_is_not_read(
    host: Host, restarts: bool
) -> None:
    host.log.write_text(log_of(range(1000)))
    host.read()
    rotated(host.log, log_of(range(1000, 1500), 1000))
    host.read()
    if restarts:
        host.restart()
    assert host.read(wanted(1490)) == list(range(1490, 1500))
    assert host.bytes_read < 8000
    old = host.log.with_name("log.1")
    with gzip.open(f"{old}.gz", "wb") as file:
        file.write(old.read_bytes())
    old.unlink()
    assert host.read(wanted(1490)) == list(range(1490, 1500))
    assert host.bytes_read < 8000
    host.same(*RANGES)


def test_a_compressed_file_is_indexed_too(host: Host) -> None:
    with gzip.open(host.log.with_name("log.1.gz"), "wb") as file:
        file.write(log_of(range(1000)).encode())
    host.log.write_text(log_of(range(1000, 1100), 1000))
    host.read(wanted(1050))
    host.read(wanted(1050))
    assert host.bytes_read < 8000
    host.same(*RANGES)


def test_a_damaged_index_costs_time_and_no_record(host: Host, caplog: pytest.LogCaptureFixture) -> None:
    host.log.write_text(log_of(random.Random(1).choices(range(1000), k=1000)))
    host.read()
    (path,) = host.directory.iterdir()
    whole = path.read_bytes()
    for size in (0, 10, 100, len(whole) - 1):
        path.write_bytes(whole[:size])
        host.restart()
        host.same(*RANGES)
    path.write_bytes(os.urandom(len(whole)))
    host.restart()
    host.same(*RANGES)
    path.write_bytes(whole)
    path.rename(path.with_name("1-2-3"))
    host.restart()
    host.same(*RANGES)
    assert len([each for each in caplog.records if "is damaged" in each.message]) == 4


def test_an_index_of_other_settings_is_made_again(host: Host) -> None:
    host.log.write_text(log_of(range(1000)))
    host.read()
    host.restart(b"other settings")
    host.same(*RANGES)
    host.read(wanted(990))
    assert host.bytes_read < 5000


def test_directives_are_not_passed_over(tmp_path: Path) -> None:
    fields = "#Fields: date time cs-uri-stem"
    host = Host(tmp_path, "w3c")
    at = "\n".join(f"2026-01-01 00:{second // 60:02}:{second % 60:02} /{second}" for second in range(900))
    host.log.write_text(f"{fields}\n{at}\n#Fields: cs-uri-stem date time\n/last 2026-01-01 01:00:00\n")
    reader = StreamReader(str(host.log), StreamFormat("w3c"), block_bytes=200, times=host.times)
    rows = 0
    for number in range(2):
        reader.add(f"{number}", ("ts",), wanted=WantedTimes("ts", 1_767_229_200 * SECOND))
        while deliveries := reader.poll(400):
            for delivery in deliveries:
                records = BlockRows(delivery.parsed.arrays, delivery.parsed.rows)
                records.times("ts")
                reader.note(delivery, records.dated)
                rows += records.within("ts", 1_767_229_200 * SECOND, 2**63 - 1).rows
        reader.remove(f"{number}")
    assert rows == 2


def test_a_time_that_another_type_of_its_column_would_have_is_not_passed_over(tmp_path: Path) -> None:
    """The first value of a column decides its type; a reader that begins elsewhere may learn another one."""
    host = Host(tmp_path)
    early = [{"at": 1, "n": number} for number in range(200)]
    text = [{"at": "2026-01-01T00:00:00Z", "n": 1000 + number} for number in range(30)]
    late = [{"at": 2, "n": number} for number in range(200)]
    host.log.write_text("".join(json.dumps(each) + "\n" for each in (*early, *text, *late)))
    reader = StreamReader(str(host.log), StreamFormat("json"), block_bytes=150, times=host.times)
    reader.add("first", ("at", "n"))
    while deliveries := reader.poll(400):
        for delivery in deliveries:
            records = BlockRows(delivery.parsed.arrays, delivery.parsed.rows)
            records.times("at")
            reader.note(delivery, records.dated)
    reader.close()
    later = StreamReader(str(host.log), StreamFormat("json"), block_bytes=150, times=host.times)
    later.add("second", ("at", "n"), wanted=WantedTimes("at", 1_000_000 * SECOND))
    read = b""
    while deliveries := later.poll(400):
        read += b"".join(delivery.block.data for delivery in deliveries)
    assert read.count(b"2026") == 30
    assert read.count(b'"at": 2,') < 100


def test_a_job_without_a_range_and_a_group_with_one_read_everything(host: Host) -> None:
    host.log.write_text(log_of(range(1000)))
    host.read()
    reader = StreamReader(str(host.log), StreamFormat("json"), times=host.times)
    reader.add("live", ("ts",))
    reader.add("history", ("ts",), wanted=wanted(990))
    assert reader.groups == 2
    deliveries = reader.poll()
    assert reader.groups == 1
    assert {job for delivery in deliveries for job in delivery.jobs} >= {"live", "history"}
    live = b"".join(each.block.data for each in deliveries if "live" in each.jobs)
    assert live == host.log.read_bytes()


def test_files_with_one_header_have_indexes_of_their_own(host: Host) -> None:
    host.log = host.log.with_name("log*")
    for number in range(12):
        path = host.log.with_name(f"log{number}")
        path.write_text(HEAD + log_of(range(number, number + 60 * (number + 2)), 1000 * number))
    host.read()
    whole = host.bytes_read
    host.same(*RANGES)
    host.read(wanted(5000))
    assert host.bytes_read < whole / 2


def test_old_indexes_are_deleted(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_times, "INDEXES_MAX", 3)
    for number in range(6):
        replaced(host.log, log_of(range(number, number + 100)))
        host.read()
        assert len(list(host.directory.iterdir())) == min(number + 1, 3)
    host.same(*RANGES)


def test_a_record_that_silence_has_cut_off_ends_no_stretch(tmp_path: Path) -> None:
    host = Host(tmp_path)
    host.log.write_text(log_of(range(100)))
    reader = StreamReader(str(host.log), StreamFormat("json"))
    reader.add("job", ("ts",))
    (block,) = (delivery.block for delivery in reader.poll())
    host.times.note(replace(block, cut=True), "ts", times_of(1, 2))
    host.times.flush()
    assert not host.directory.exists()
    host.times.note(block, "ts", times_of(1, 2))
    assert len(list(host.directory.iterdir())) == 1
