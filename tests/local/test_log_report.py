"""Reports of logs against counts over the same lines, and logs without times, columns or lines."""

from __future__ import annotations

import datetime
import json
import os
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from elfmesh.errors import DataError, UsageError
from elfmesh.ingest.parsers import StreamFormat
from elfmesh.local import log_report
from elfmesh.local.log_report import LogSummary, report

LINE = '{host} - - [10/Oct/2025:{hour:02}:00:00 +0000] "GET {path} HTTP/1.1" {status} {size} "-" "curl"\n'


def reports(*paths: Path, spec: str = "auto") -> list[LogSummary]:
    return list(report([str(path) for path in paths], StreamFormat(spec, host="h")))


LINES = st.fixed_dictionaries(
    {
        "host": st.sampled_from(["10.0.0.1", "10.0.0.2"]),
        "hour": st.integers(0, 23),
        "path": st.sampled_from(["/", "/a", "/<script>", "/`", "/'"]),
        "status": st.sampled_from([200, 404]),
        "size": st.integers(0, 10**6),
    }
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=20)
@given(lines=st.lists(LINES, min_size=1, max_size=30), cut=st.integers(0, 30))
def test_a_report_counts_what_is_in_the_lines(
    lines: list[dict[str, str | int]], cut: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    place = tmp_path_factory.mktemp("logs")
    files = [part for part in (lines[:cut], lines[cut:]) if part]
    for number, part in enumerate(files):
        (place / str(number)).write_text("".join(LINE.format(**line) for line in part))
    (found,) = reports(*(place / str(number) for number in range(len(files))))
    assert (found.format, found.lines, found.bad) == ("combined", len(lines), 0)
    top = {each.column: dict(each.values) for each in found.frequent}
    for column in ("host", "path", "status"):
        assert top[column] == Counter(line[column] for line in lines)
    assert [each.column for each in found.frequent][:3] == ["path", "host", "status"]
    assert top.keys().isdisjoint({"referer", "ident", "request"})
    sizes = [int(line["size"]) for line in lines]
    (numbers,) = found.numbers
    assert (numbers.least, numbers.largest, numbers.sum) == (min(sizes), max(sizes), sum(sizes))
    assert numbers.mean == pytest.approx(sum(sizes) / len(sizes))
    assert sum(each.lines for each in found.times) == len(lines)
    assert sum(each.bytes or 0 for each in found.times) == sum(sizes)
    hours = Counter(line["hour"] for line in lines)
    assert {each.start.hour: each.lines for each in found.times} == hours


def test_json_with_odd_names_and_types(tmp_path: Path) -> None:
    path = tmp_path / "a"
    rows = [
        {"level": "info", "odd `name`": "x", "n": 1.5, "id": f"u{number}", "mixed": number, "deep": {"k": 1}}
        for number in range(50)
    ]
    rows[3]["mixed"] = "text"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    (found,) = reports(path)
    assert {each.column for each in found.frequent} >= {"level", "odd `name`"}
    assert "id" not in {each.column for each in found.frequent}, "each value is another one"
    assert [each.column for each in found.numbers if each.column == "n"] == ["n"]
    assert (found.unit, found.times, found.first, found.lines_per_second) == ("", [], None, None)


def test_files_of_two_formats_are_two_reports(tmp_path: Path) -> None:
    (tmp_path / "a").write_text('{"a": 1}\n')
    (tmp_path / "b").write_text(LINE.format(host="h", hour=1, path="/", status=200, size=1) + "bad\n")
    found = reports(tmp_path / "b", tmp_path / "a", tmp_path / "b")
    assert [(each.format, len(each.files), each.lines, each.bad) for each in found] == [
        ("combined", 2, 4, 2),
        ("json", 1, 1, 0),
    ]


def test_many_values_have_estimated_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_report, "COUNTERS", 16)
    path = tmp_path / "a"
    path.write_text("".join(json.dumps({"k": f"k{number % 40}"}) + "\n" for number in range(200)))
    (found,) = reports(path)
    assert [each.is_exact for each in found.frequent] == [False]


@pytest.mark.parametrize(
    ("span", "unit"),
    [
        (datetime.timedelta(minutes=59), "MINUTE"),
        (datetime.timedelta(hours=2), "HOUR"),
        (datetime.timedelta(days=4), "DAY"),
        (datetime.timedelta(days=400), "MONTH"),
        (datetime.timedelta(days=4000), "YEAR"),
    ],
)
def test_the_unit_of_time(span: datetime.timedelta, unit: str, tmp_path: Path) -> None:
    first = datetime.datetime(2000, 1, 1, tzinfo=datetime.UTC)
    path = tmp_path / "a"
    path.write_text("".join(json.dumps({"ts": each.isoformat()}) + "\n" for each in (first, first + span)))
    (found,) = reports(path)
    assert (found.unit, len(found.times)) == (unit, 2)


def test_logs_that_cannot_be_reported(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UsageError, match="several times"):
        reports(tmp_path / "pipe")
    with pytest.raises(UsageError, match="several times"):
        reports(Path("-"))
    (tmp_path / "bad").write_text("x\n")
    with pytest.raises(DataError, match="no line is of the format json"):
        reports(tmp_path / "bad", spec="json")
    (tmp_path / "empty").write_text("")
    (found,) = reports(tmp_path / "empty")
    assert (found.lines, found.frequent, found.numbers) == (0, [], [])
