"""Blocks that several threads parse: the same rows, errors and samples as with one thread."""

from __future__ import annotations

import gzip
import json
import os
import random
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import zstandard
from msgspec.structs import asdict

from elfmesh.errors import DataError
from elfmesh.ingest.parsers import StreamFormat
from elfmesh.ingest.parsers.kinds import KINDS
from elfmesh.ingest.sources.blocks import Block
from elfmesh.ingest.sources.parsing import parse_block
from elfmesh.ingest.stream_formats import run_format
from elfmesh.local import log_input, side_by_side
from elfmesh.local.embedded import LogRun
from elfmesh.local.log_source import LogSource, Turn
from elfmesh.local.side_by_side import default_threads
from elfmesh.ql import parse
from elfmesh.ql.values import growth
from elfmesh.ql.values.growth import Growth
from tests.e2e.zygote import elf

BLOCK_BYTES = 1 << 12
SETTINGS: dict[str, Any] = {"host": "h", "timezone": "UTC", "year": 2015, "patterns": {}}
QUERIES = (
    "SELECT k, count(*) AS n, sum(v) AS s, avg(v) AS a FROM log GROUP BY k",
    "SELECT k, count(*) AS n FROM log GROUP BY k ORDER BY n % 2 DESC LIMIT 5",
    "SELECT k, v FROM log WHERE v > 10 LIMIT 700",
    "SELECT * FROM log",
    "SELECT k, first(v) AS f, last(v) AS l FROM log GROUP BY k",
    "SELECT k, count(*) AS n FROM log GROUP BY SESSION(ts, INTERVAL '2' SECOND), k",
    "SELECT k, max(v) AS m FROM log GROUP BY HOP(ts, INTERVAL '5' SECOND, INTERVAL '9' SECOND), k ORDER BY m",
    "SELECT approx_count_distinct(v) AS d, approx_percentile(v, 0.5) AS p FROM log",
    "SELECT k, count(DISTINCT v) AS d FROM log GROUP BY k HAVING count(*) > 10",
)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_input, "BLOCK_BYTES", BLOCK_BYTES)
    monkeypatch.setattr(os, "urandom", lambda count: b"\1" * count)


@pytest.fixture
def attempts(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each block that a branch has parsed was taken."""
    found: list[bool] = []
    taken = side_by_side._taken

    def counted(turn: Turn) -> Any:
        parsed = taken(turn)
        if turn.attempt is not None:
            found.append(parsed is not None)
        return parsed

    monkeypatch.setattr(side_by_side, "_taken", counted)
    return found


def records(count: int = 3_000, seed: int = 1) -> Iterator[dict[str, Any]]:
    rng = random.Random(seed)
    for number in range(count):
        yield {"ts": 1_431_857_100 + number // 20, "k": f"k{rng.randrange(9)}", "v": rng.randrange(50)}


def json_lines(count: int = 3_000, seed: int = 1, end: str = "\n") -> bytes:
    return "".join(json.dumps(each) + end for each in records(count, seed)).encode()


def outcome(text: str, paths: list[Path], threads: int, format: str | StreamFormat = "json") -> Any:
    run = LogRun(parse(text), list(map(str, paths)), format=format, threads=threads)
    answers = [(each.record, each.table.schema.names, each.table.to_pydict()) for each in run.answers()]
    stats = {name: value for name, value in asdict(run.stats).items() if name != "seconds"}
    return answers, stats


def same_for_all(text: str, paths: list[Path], format: str = "json", multiline: str = "") -> Any:
    """The outcome of one thread, which is that of 2 to 8."""

    def with_threads(threads: int) -> Any:
        return outcome(text, paths, threads, run_format(format, multiline=multiline, **SETTINGS))

    alone = with_threads(1)
    for threads in range(2, 9):
        assert with_threads(threads) == alone
    return alone


@pytest.mark.parametrize("text", QUERIES)
def test_the_rows_do_not_depend_on_the_number_of_threads(
    tmp_path: Path, text: str, attempts: list[bool]
) -> None:
    paths = [tmp_path / "a.json", tmp_path / "b.json"]
    paths[0].write_bytes(json_lines())
    paths[1].write_bytes(json_lines(seed=2, end="\r\n").removesuffix(b"\r\n"))
    same_for_all(text, paths)
    assert attempts.count(True) > 20


def test_compressed_files_and_their_members_are_the_input_in_order(
    tmp_path: Path, attempts: list[bool]
) -> None:
    lines = json_lines()
    whole, members, z = tmp_path / "log", tmp_path / "log.gz", tmp_path / "log.zst"
    whole.write_bytes(lines)
    members.write_bytes(gzip.compress(lines[:9_001]) + gzip.compress(lines[9_001:]))  # within a line
    z.write_bytes(zstandard.compress(lines[:5_000]) + zstandard.compress(lines[5_000:]))
    text = "SELECT k, v FROM log"
    rows = same_for_all(text, [whole])[0][0][2]
    assert all(same_for_all(text, [path])[0][0][2] == rows for path in (members, z))
    assert any(attempts)
    assert same_for_all(QUERIES[0], [members, z, whole])[1]["records"] == 9_000


@pytest.mark.parametrize("broken", [lambda whole: whole[:-9], lambda whole: whole[:4_000] + b"x" * 99])
def test_a_torn_archive_is_the_same_error_after_the_same_rows(tmp_path: Path, broken: Any) -> None:
    good, torn = tmp_path / "good", tmp_path / "torn.gz"
    good.write_bytes(json_lines(500))
    torn.write_bytes(broken(gzip.compress(json_lines())))
    found = []
    for threads in range(1, 5):
        run = LogRun(parse("SELECT k, v FROM log"), [str(good), str(torn)], format="json", threads=threads)
        rows: list[Any] = []
        with pytest.raises(DataError) as caught:
            rows += [each.to_pydict() for each in run.tables()]
        found.append((str(caught.value), run.stats.records, rows))
    assert found[1:] == found[:1] * 3
    assert found[0][1] > 500


def test_invalid_lines_are_counted_with_the_lines_at_which_they_stand(
    tmp_path: Path, attempts: list[bool]
) -> None:
    lines = json_lines().splitlines(keepends=True)
    lines[777], lines[1_400], lines[2_222] = b"no json\n", b'{"v": "text"}\n', b'{"k": \n'
    lines[1_000] = b'{"k": "' + b"x" * (1 << 21) + b'"}\n'  # longer than a line may be
    lines[2_000] = b'{"k": "\xff"}\n'
    log = tmp_path / "log"
    log.write_bytes(b"".join(lines))
    stats = same_for_all("SELECT k, sum(v) AS s FROM log GROUP BY k", [log])[1]
    assert any("log:778" in each for each in stats["samples"])
    assert (stats["parse_errors"], stats["field_errors"], stats["replaced"]) == (3, 1, 1)
    assert any(attempts)


EVALUATED = (
    "SELECT upper(k) AS u, sum(v * 2) AS s FROM log WHERE k LIKE '%3' OR v % 7 = 1 GROUP BY upper(k)",
    "SELECT k, sum(v) AS s FROM log WHERE length(k) = 2 GROUP BY TUMBLE(ts, INTERVAL '3' SECOND), k",
    "SELECT k, count(DISTINCT v) FILTER (WHERE v > 5) AS d, count(*) AS n FROM log GROUP BY k HAVING n > 3",
    "SELECT a.k, a.n, b.m FROM (SELECT k, count(*) AS n FROM log WHERE v > 3 GROUP BY k) a "
    "JOIN (SELECT k, max(v) AS m FROM log WHERE v < 40 GROUP BY k) b ON a.k = b.k",
)


@pytest.mark.parametrize("text", EVALUATED)
def test_filters_and_expressions_are_evaluated_before_the_turn(
    tmp_path: Path, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "log"
    log.write_bytes(json_lines())
    by_thread: dict[str, int] = {}
    run_once = Growth.measured

    def measured(self: Growth, run: Any, env: Any) -> Any:
        name = threading.current_thread().name.partition("_")[0]
        by_thread[name] = by_thread.get(name, 0) + 1
        return run_once(self, run, env)

    monkeypatch.setattr(Growth, "measured", measured)
    same_for_all(text, [log])
    by_thread.clear()
    outcome(text, [log], 2)
    assert by_thread.pop("elf-parse") > 20
    assert sum(by_thread.values()) <= 20, "the first block, and those that are parsed again"


def test_values_that_are_too_large_are_those_of_one_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(growth, "LARGE_BYTES", 100)
    monkeypatch.setattr(growth, "VALUE_BYTES_MAX", 2_000)
    monkeypatch.setattr(growth, "SUM_BYTES_MAX", 3_000)
    lines = json_lines(1_000).splitlines(keepends=True)
    lines[500] = b'{"k": "k1", "v": 2000}\n'
    log = tmp_path / "log"
    log.write_bytes(b"".join(lines))
    for text in ("repeat(k, v)", "concat(repeat(k, v), repeat(k, v + 1))"):
        query = f"SELECT {text} AS t, count(*) AS n FROM log GROUP BY {text}"
        assert same_for_all(query, [log])[1]["parse_errors"] > 0


@pytest.mark.parametrize("late", [b'{"v": 1.5}\n', b'{"w": 1}\n', b'{"k": {"a": 1}}\n', b'{"v": null}\n'])
def test_a_block_is_parsed_again_if_an_earlier_one_has_changed_the_types(
    tmp_path: Path, attempts: list[bool], late: bytes
) -> None:
    log = tmp_path / "log"
    begin = b"".join(b'{"k": null, "v": null, "ts": 1}\n' for _ in range(1_000))
    log.write_bytes(begin + json_lines(1_000) + late + json_lines(1_000, seed=3))
    for text in ("SELECT k, v, w FROM log", "SELECT k, sum(v) AS s, count(w) AS n FROM log GROUP BY k"):
        same_for_all(text, [log])
    assert attempts.count(False) > 0, "the first block with a value settles the types"
    assert attempts.count(True) > attempts.count(False)


LINES = {
    "combined": '10.0.0.{0} - k{0} [17/May/2015:10:05:{1:02d} +0000] "GET /p HTTP/1.1" 200 {1} "-" "a"\n',
    "logfmt": "ts=2015-05-17T10:05:{1:02d}Z k=k{0} v={1}\n",
    "csv": "2015-05-17T10:05:{1:02d}Z,k{0},{1}\n",
    "csv:ts,k,v": "2015-05-17T10:05:{1:02d}Z,k{0},{1}\n",
    "syslog": "<34>Oct 11 22:14:{1:02d} mymachine su: k{0} {1}\n",
    r"regex:(?P<k>k\d) (?P<v>\d+)": "k{0} {1}\n",
    "raw": "k{0} {1}\n",
    "docker": '{{"log":"k{0} {1}\\n","stream":"stdout","time":"2015-05-17T10:05:{1:02d}Z"}}\n',
    "cri": "2015-05-17T10:05:{1:02d}Z stdout P k{0}\n2015-05-17T10:05:{1:02d}Z stdout F {1}\n",
    "auto": '{{"ts":"2015-05-17T10:05:{1:02d}Z","k":"k{0}","v":{1}}}\n',
    "w3c": "2015-05-17 10:05:{1:02d} k{0} {1}\n",
}
HEADS = {"csv": "ts,k,v\n", "w3c": "#Fields: date time k v\n"}
IN_TURN = {"docker", "cri", "w3c"}
"""Formats whose blocks are parsed in their turn: records of several lines, or a header that may change."""


@pytest.mark.parametrize("format", LINES)
def test_formats_with_a_state_are_parsed_in_turn_and_all_give_the_rows_of_one_thread(
    tmp_path: Path, attempts: list[bool], format: str
) -> None:
    log = tmp_path / "log"
    rng = random.Random(4)
    body = "".join(LINES[format].format(rng.randrange(9), rng.randrange(60)) for _ in range(1_000))
    log.write_text(HEADS.get(format, "") + body + HEADS.get(format, "") + body)
    answers, stats = same_for_all("SELECT *, _raw FROM log", [log], format)
    assert stats["records"] > 1_900
    assert answers[0][2]
    assert bool(attempts) == (format not in IN_TURN)


ARGUMENTS = {"regex": ":(?P<a>x)", "grok": ":%{WORD:a}", "nginx": ":$host", "apache": ":%h", "kv": ":k=v;k=v"}


def test_the_guide_lists_the_formats_whose_blocks_are_parsed_in_turn() -> None:
    found = {
        name for name in KINDS if not StreamFormat(name + ARGUMENTS.get(name, "")).parser("log").side_by_side
    }
    assert found == {"csv", "tsv", "kv", "cef", "leef", "w3c", "cri", "docker", "journald_export"}
    lines = (Path(__file__).parents[2] / "docs" / "guide.md").read_text().partition("--threads N")[2][:700]
    assert all(f"`{name}`" in lines for name in found)


def test_records_of_several_lines_are_parsed_in_turn(tmp_path: Path, attempts: list[bool]) -> None:
    log = tmp_path / "log"
    log.write_text("".join(f"k{number} begin\n  more\n  and more\n" for number in range(900)))
    answers, _ = same_for_all("SELECT _raw FROM log", [log], "raw", "indent")
    assert len(answers[0][2]["_raw"]) == 900
    assert not attempts


def test_a_sample_is_read_in_turn(tmp_path: Path, attempts: list[bool]) -> None:
    log = tmp_path / "log"
    log.write_bytes(json_lines())
    run = LogRun(parse("SELECT k FROM log"), [str(log)], format="json", sample=777, threads=4)
    assert sum(len(each.table) for each in run.answers()) == 777
    assert not attempts


@pytest.mark.parametrize(
    "text", ["SELECT ts, k FROM log LIMIT 3", "SELECT w FROM log WHERE w = 'x' OR k = 1 LIMIT 3"]
)
def test_the_block_after_the_limit_is_not_in_the_statistics(tmp_path: Path, text: str) -> None:
    log = tmp_path / "log"
    log.write_bytes(b'{"ts": 1, "k": 1}\n' * 300 + b'{"ts": "bad", "k": 1, "w": 3}\n' * 3_000)
    stats = same_for_all(text, [log])[1]
    assert stats["records"] < 300
    assert (stats["undated"], stats["doubts"]) == (0, [])
    assert list(stats["unseen"]) == ["w"] * ("w" in text)


def turns(count: int, read: list[int], error: Exception | None = None) -> Iterator[Turn]:
    formats = StreamFormat("json")
    source = LogSource("log", "log", formats, formats.parser("log"))
    for number in range(count):
        read.append(number)
        yield Turn(source, Block(b'{"k": 1}\n', "log", stream="log"), number, 0)
    if error is not None:
        raise error


def in_turn(turn: Turn) -> Any:
    return parse_block(turn.source.parser, turn.block, ("k",), turn.lines)


def test_few_blocks_are_held_at_a_time_and_an_error_waits_for_its_turn() -> None:
    read: list[int] = []
    error = DataError("torn", where="log")
    done: list[int] = []

    def consume() -> None:
        rows = side_by_side.side_by_side(turns(50, read, error), 3, lambda stream: ("k",), in_turn)
        for turn, parsed in rows:
            assert (turn.lines, parsed.rows) == (len(done), 1)
            done.append(turn.lines)
            assert len(read) <= len(done) + 3

    with pytest.raises(DataError, match="torn"):
        consume()
    assert len(done) == 50


def test_an_interrupt_ends_all_threads(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(json_lines(20_000))
    before = set(threading.enumerate())
    seen = 0

    def interrupted(count: int) -> None:
        nonlocal seen
        seen += 1
        if seen == 5:
            raise KeyboardInterrupt

    run = LogRun(parse(QUERIES[0]), [str(log)], format="json", threads=4, on_bytes=interrupted)
    with pytest.raises(KeyboardInterrupt):
        run.answers()
    assert set(threading.enumerate()) <= before


@pytest.mark.parametrize("size", [0, 5_000, 40_000])
def test_a_file_that_is_truncated_or_grows_while_it_is_read_ends_where_it_ends(
    tmp_path: Path, size: int
) -> None:
    for threads in (1, 4):
        log = tmp_path / f"log{threads}"
        log.write_bytes(json_lines())
        with log.open("ab") as file:

            def change(count: int, file: Any = file) -> None:
                file.truncate(size) if size < 40_000 else file.write(b'{"k": "more"}\n')

            run = LogRun(
                parse("SELECT k FROM log"), [str(log)], format="json", threads=threads, on_bytes=change
            )
            rows = sum(len(each.table) for each in run.answers())
        assert rows == run.stats.records - run.stats.parse_errors > 0
        assert run.stats.parse_errors <= 1, "at most the line that the truncation has cut"


@pytest.mark.parametrize("given", ["0", "-1", "x", "1.5"])
def test_a_wrong_number_of_threads_is_wrong_usage(tmp_path: Path, given: str) -> None:
    log = tmp_path / "log"
    log.write_text('{"a":1}\n')
    done = elf("run", "--threads", given, "SELECT count(*) AS n FROM log", str(log))
    assert done.returncode == 2
    assert "--threads" in done.stderr
    for threads in ("1", "2", "99"):
        done = elf("run", "-o", "csv", "--threads", threads, "SELECT count(*) AS n FROM log", str(log))
        assert (done.returncode, done.stdout) == (0, "n\n1\n")
    assert 1 <= default_threads() <= side_by_side.THREADS_MAX
