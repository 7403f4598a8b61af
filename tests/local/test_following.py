"""`elf run --follow`: files are read on at their end, with a parser for each."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

from elfmesh.ingest.parsers import StreamFormat
from elfmesh.local.embedded import LogRun
from elfmesh.local.following import follow
from elfmesh.local.log_source import LogSource
from elfmesh.ql import parse
from tests.e2e.fleet import eventually
from tests.local.test_live_windows import QUERIES, line, shown


def test_a_followed_file_is_read_on_also_across_rotation(tmp_path: Path) -> None:
    path, query = tmp_path / "a.log", QUERIES["tumbling"]
    rows = [line(second, "ab"[second % 2], second) for second in range(40)]
    path.write_bytes(b"".join(rows[:12]))
    stop, live = threading.Event(), []
    job = LogRun(
        parse(query), [str(path)], format="json", follow=stop, on_window=lambda each: live.append(shown(each))
    )
    final: list[dict[str, Any]] = []
    thread = threading.Thread(target=lambda: final.extend(map(shown, job.results())))
    thread.start()
    try:
        eventually(lambda: len(live) == 2, what="the windows of the first lines")
        path.rename(tmp_path / "a.log.1")
        path.write_bytes(b"".join(rows[12:30]))
        eventually(lambda: len(live) == 5, what="the windows of the new file")
        with path.open("ab") as log:
            log.write(b"".join(rows[30:]))
        eventually(lambda: len(live) == 7, what="the windows of the appended lines")
    finally:
        stop.set()
        thread.join()
    everything = tmp_path / "all"
    everything.write_bytes(b"".join(rows))
    assert final == [shown(each) for each in LogRun(parse(query), [str(everything)], format="json").results()]
    assert job.stats.gaps == []


def test_the_header_of_a_file_is_that_of_this_file_alone(tmp_path: Path) -> None:
    path, stop = tmp_path / "a.csv", threading.Event()
    path.write_text("b,a\n1,2\n")
    blocks = follow([("log", str(path), StreamFormat("csv"))], stop, 1 << 20, print)
    first, block = next(blocks)
    assert first.parser.parse(block.data, ["a", "b"]).rows == 1
    path.rename(tmp_path / "a.csv.1")
    path.write_text("a,b\n3,4\n")
    second, block = next(blocks)
    assert isinstance(second, LogSource)
    parsed = second.parser.parse(block.data, ["a", "b"])
    assert [each.to_pylist() for each in (parsed.arrays["a"], parsed.arrays["b"])] == [["3"], ["4"]]
    assert first.parser is not second.parser
    blocks.close()


def test_a_loss_of_lines_is_reported(tmp_path: Path) -> None:
    path, stop = tmp_path / "a.log", threading.Event()
    path.write_bytes(line(0, "a", 1) * 3)
    reported: list[str] = []
    blocks = follow([("log", str(path), StreamFormat("json"))], stop, 1 << 20, reported.append)
    next(blocks)
    path.write_bytes(line(1, "b", 2))
    _, block = next(blocks)
    assert block.data == line(1, "b", 2)
    stop.set()
    assert list(blocks) == []
    assert len(reported) == 1
    assert "truncated" in reported[0]
