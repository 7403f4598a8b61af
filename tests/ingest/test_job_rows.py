"""A job reads another job of the same file: in order, by interval, with its columns and no others."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from elfmesh.control.jobs.plan import read_job
from elfmesh.errors import QueryError
from tests.e2e.zygote import elf

LINES: list[dict[str, Any]] = [
    {"ts": f"2015-05-17T10:{at // 60:02}:{at % 60:02}Z", "u": at % 5, "n": at % 7} for at in range(180)
]
FIRST = "CREATE JOB shop.per_user EVERY '10 s' AS SELECT u, sum(n) AS n FROM c GROUP BY u;\n"


def run(tmp_path: Path, text: str) -> subprocess.CompletedProcess[str]:
    (tmp_path / "jobs.elfql").write_text(text)
    (tmp_path / "c.log").write_text("".join(json.dumps(line) + "\n" for line in LINES))
    return elf("run", "-f", tmp_path / "jobs.elfql", "-o", "json", tmp_path / "c.log")


def last_job(done: subprocess.CompletedProcess[str]) -> list[list[dict[str, Any]]]:
    """The rows by interval of the second job: its intervals begin again."""
    assert done.returncode == 0, done.stderr
    results = [json.loads(line) for line in done.stdout.splitlines()]
    starts = [result["interval"]["start"] for result in results]
    second = next(at for at in range(1, len(starts)) if starts[at] <= starts[at - 1])
    return [result["rows"] for result in results[second:]]


def test_a_job_reads_the_finished_intervals_of_another(tmp_path: Path) -> None:
    text = FIRST + (
        "CREATE JOB shop.minute EVERY '60 s' AS SELECT u, max(n) AS best, count(*) AS k FROM shop.per_user "
        "GROUP BY u ORDER BY u"
    )
    sums: dict[tuple[int, int], int] = {}
    for at, line in enumerate(LINES):
        key = at // 10, line["u"]
        sums[key] = sums.get(key, 0) + line["n"]
    expected = []
    for minute in range(3):
        mine = {key: value for key, value in sums.items() if key[0] // 6 == minute}
        expected.append(
            [
                {
                    "u": user,
                    "best": max(value for key, value in mine.items() if key[1] == user),
                    "k": sum(key[1] == user for key in mine),
                }
                for user in range(5)
            ]
        )
    assert last_job(run(tmp_path, text)) == expected


def test_a_stream_is_joined_with_the_results_of_its_interval(tmp_path: Path) -> None:
    text = FIRST + (
        "CREATE JOB shop.share EVERY '10 s' AS SELECT c.u, sum(c.n) AS n, max(r.n) AS total "
        "FROM c JOIN shop.per_user r ON c.u = r.u GROUP BY c.u"
    )
    intervals = last_job(run(tmp_path, text))
    assert len(intervals) == 18
    assert all(row["n"] == row["total"] for rows in intervals for row in rows)


@pytest.mark.parametrize(("size", "slide"), [(10, 10), (20, 5), (30, 30)])
def test_an_interval_sees_the_newest_result_that_had_ended_when_it_began(
    tmp_path: Path, size: int, slide: int
) -> None:
    quiet = FIRST.replace("GROUP BY u", "WHERE n > 5 GROUP BY u")  # some intervals have no rows
    text = quiet + (
        "CREATE JOB shop.change AS SELECT c.u, count(*) AS k, max(l.n) AS before "
        "FROM c LEFT JOIN LATEST shop.per_user l ON c.u = l.u "
        f"GROUP BY HOP(ts, INTERVAL {slide} SECONDS, INTERVAL {size} SECONDS), c.u ORDER BY c.u"
    )
    sums: dict[int, dict[int, int]] = {}
    for at, line in enumerate(LINES):
        if line["n"] > 5:
            mine = sums.setdefault(at // 10, {})
            mine[line["u"]] = mine.get(line["u"], 0) + line["n"]
    expected = []
    for start in range(slide - size, len(LINES), slide):
        inside = [line["u"] for at, line in enumerate(LINES) if start <= at < start + size]
        seen = max((index for index in sums if index * 10 + 10 <= start), default=None)
        before = {} if seen is None else sums[seen]
        expected.append(
            [{"u": u, "k": inside.count(u), "before": before.get(u)} for u in sorted(set(inside))]
        )
    assert last_job(run(tmp_path, text)) == expected


@pytest.mark.parametrize(("size", "slide"), [(10, 10), (20, 10), (30, 30), (4, 4)])
def test_an_interval_sees_the_result_of_the_interval_that_ends_with_it(
    tmp_path: Path, size: int, slide: int
) -> None:
    quiet = FIRST.replace("GROUP BY u", "WHERE n > 5 GROUP BY u")  # some intervals have no rows
    text = quiet + (
        "CREATE JOB shop.share AS SELECT c.u, count(*) AS k, max(l.n) AS same "
        "FROM c LEFT JOIN SAME shop.per_user l ON c.u = l.u "
        f"GROUP BY HOP(ts, INTERVAL {slide} SECONDS, INTERVAL {size} SECONDS), c.u ORDER BY c.u"
    )
    sums: dict[int, dict[int, int]] = {}
    for at, line in enumerate(LINES):
        if line["n"] > 5:
            mine = sums.setdefault(at // 10 * 10 + 10, {})
            mine[line["u"]] = mine.get(line["u"], 0) + line["n"]
    expected = []
    for start in range((slide - size) // slide * slide, len(LINES), slide):
        inside = [line["u"] for at, line in enumerate(LINES) if start <= at < start + size]
        same = sums.get(start + size, {})
        if inside:
            expected.append(
                [{"u": u, "k": inside.count(u), "same": same.get(u)} for u in sorted(set(inside))]
            )
    assert last_job(run(tmp_path, text)) == expected


@pytest.mark.parametrize(
    ("second", "message"),
    [
        ("SELECT u FROM shop.nobody", "no job shop.nobody is defined before this one"),
        ("SELECT uu FROM shop.per_user", "has no column uu"),
    ],
)
def test_what_is_not_there_is_refused(tmp_path: Path, second: str, message: str) -> None:
    done = run(tmp_path, FIRST + second)
    assert done.returncode == 65
    assert message in done.stderr


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "CREATE JOB a.b EVERY '5 s' AS SELECT c.x FROM c JOIN shop.other o ON c.x = o.x",
            "streams or other jobs",
        ),
        ("CREATE JOB a.b EVERY '5 s' AS SELECT x FROM a.b", "its own results"),
        (
            "CREATE JOB a.b EVERY '5 s' AS SELECT c.x FROM c JOIN LATEST a.b o ON c.x = o.x",
            "its own results",
        ),
        ("CREATE JOB a.b EVERY '5 s' PARTITIONS 2 AS SELECT x FROM shop.other", "PARTITIONS and REPLICAS"),
        ("CREATE JOB a.b EVERY '5 s' REPLICAS 1 AS SELECT x FROM shop.other", "PARTITIONS and REPLICAS"),
        ("CREATE JOB a.b EVERY '5 s' ON STRAGGLER SKIP AS SELECT x FROM shop.other", "ON STRAGGLER SKIP"),
        ("CREATE JOB a.b AS SELECT x FROM shop.other GROUP BY TUMBLE(at, '5 s'), x", "dated by `ts`"),
        (
            "CREATE JOB a.b EVERY '5 s' AS SELECT o.x FROM shop.other o JOIN lookup.t ON o.x = t.x",
            "no lookup tables",
        ),
    ],
)
def test_agents_refuse_what_a_job_that_reads_another_cannot_have(text: str, message: str) -> None:
    with pytest.raises(QueryError, match=message) as caught:
        read_job("\n  " + text)
    assert (caught.value.line, caught.value.column) == (2, 3)
    assert caught.value.hint


def test_agents_take_a_stream_beside_a_result() -> None:
    text = (
        "CREATE JOB a.b EVERY '5 s' AS SELECT c.x, o.y FROM c JOIN LATEST shop.p o ON c.x = o.x "
        "WHERE c.x > (SELECT avg(x) FROM LATEST shop.q)"
    )
    _, plan = read_job(text)
    assert (plan.reads, plan.streams, plan.shape.inputs) == ((), ("c",), (1,))
    assert sorted(plan.latest) == ["latest shop/p", "latest shop/q"]
    assert sorted(plan.jobs) == ["shop/p", "shop/q"]


def test_agents_take_a_job_that_reads_others() -> None:
    text = "CREATE JOB a.b EVERY '5 s' AS SELECT p.x, q.y FROM shop.p p JOIN q.q q ON p.x = q.x"
    _, plan = read_job(text)
    assert (plan.reads, plan.streams, plan.columns) == (("shop/p", "q/q"), (), ("x", "y"))
