"""The answers that Python and DuckDB agree on, over real logs."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.tooling.shared_data import DATA

pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason="the shared data is not beside the checkout")

_LINE = re.compile(r'(\S+) \S+ \S+ \[([^\]]*)\] "(.*?)" (\d{3}) (\d+|-)')
ACCESS = {
    "count_by_status": "SELECT status, count(*) AS n FROM t GROUP BY status ORDER BY status",
    "top10_hosts": "SELECT host, count(*) AS c FROM t GROUP BY host ORDER BY c DESC LIMIT 10",
    "top10_paths": "SELECT path, count(*) AS c FROM t GROUP BY path ORDER BY c DESC LIMIT 10",
    "top100_paths": "SELECT path, count(*) AS c FROM t GROUP BY path ORDER BY c DESC LIMIT 100",
    "top10_hosts_by_bytes": (
        "SELECT host, coalesce(sum(bytes), 0) AS b FROM t GROUP BY host ORDER BY b DESC LIMIT 10"
    ),
    "count_by_method": "SELECT method, count(*) AS n FROM t GROUP BY method ORDER BY 1",
    "distinct_hosts": "SELECT count(DISTINCT host) AS n FROM t",
    "hosts_with_5plus_errors": (
        "SELECT host, count(*) AS c FROM t WHERE status >= 400 GROUP BY host HAVING c >= 5 ORDER BY c DESC"
    ),
    "tumbling_{}s_count": (
        "SELECT unix_seconds(window_start) AS w, count(*) AS n FROM t GROUP BY TUMBLE(ts, '{0} s')"
    ),
    "tumbling_{}s_top3_paths": (
        "SELECT unix_seconds(window_start) AS w, path, count(*) AS c FROM t "
        "GROUP BY window(ts, '{0} seconds'), path ORDER BY c DESC LIMIT 3"
    ),
    "hopping_{}s_every_{}s_count": (
        "SELECT unix_seconds(window_start) AS w, count(*) AS n FROM t GROUP BY HOP(ts, '{1} s', '{0} s')"
    ),
}
JSON = {
    "count_by_type": "SELECT type, count(*) AS c FROM t GROUP BY type ORDER BY c DESC",
    "top10_repos": "SELECT repo.name AS r, count(*) AS c FROM t GROUP BY repo.name ORDER BY c DESC LIMIT 10",
    "top10_actors_push": (
        "SELECT actor.login AS a, count(*) AS c FROM t WHERE type = 'PushEvent' "
        "GROUP BY a ORDER BY c DESC LIMIT 10"
    ),
    "sum_commits": "SELECT sum(payload.size) AS s, max(payload.size) AS a, min(payload.size) AS i, "
    "count(payload.size) AS n FROM t WHERE type = 'PushEvent'",
    "tumbling_300s_by_type": (
        "SELECT unix_seconds(window_start) AS w, type, count(*) AS n FROM t "
        "GROUP BY TUMBLE(created_at, '300 s'), type"
    ),
    "having_20plus": (
        "SELECT repo.name AS r, count(*) AS c FROM t GROUP BY 1 HAVING count(*) >= 20 ORDER BY c DESC"
    ),
    "top10_eventName": "SELECT eventName, count(*) AS c FROM t GROUP BY eventName ORDER BY c DESC LIMIT 10",
    "errors": (
        "SELECT errorCode, count(*) AS c FROM t WHERE errorCode IS NOT NULL "
        "GROUP BY errorCode ORDER BY c DESC"
    ),
    "tumbling_300s": (
        "SELECT unix_seconds(window_start) AS w, count(*) AS c FROM t GROUP BY TUMBLE(eventTime, '5 minutes')"
    ),
    "by_source": "SELECT eventSource, count(*) AS c FROM t GROUP BY eventSource ORDER BY c DESC",
}


def _cases() -> list[tuple[str, str, str]]:
    """(oracle file, case name, our query) of every case there is."""
    found = []
    for path in sorted((DATA / "cases/oracles").glob("*.json")):
        for case in json.loads(path.read_text())["cases"]:
            numbers = re.findall(r"(\d+)s", case["name"])
            shape = re.sub(r"\d+s", "{}s", case["name"])
            text = ACCESS.get(shape) or ACCESS.get(case["name"]) or JSON[case["name"]]
            found.append((path.stem, case["name"], text.format(*numbers)))
    return found


@lru_cache(maxsize=1)
def _oracle(name: str) -> tuple[dict[str, list[list[Any]]], pa.Table]:
    oracle = json.loads((DATA / f"cases/oracles/{name}.json").read_text())
    path = DATA / oracle["input"]
    expected = {case["name"]: case["expected"] for case in oracle["cases"]}
    if path.name.endswith(".gz"):
        return expected, _json_table(path)
    return expected, _access_table(path)


def _access_table(path: Path) -> pa.Table:
    rows = []
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        match = _LINE.match(line)
        assert match is not None
        host, stamp, request, status, size = match.groups()
        method, _, rest = request.partition(" ") if " " in request else ("", "", request)
        rows.append(
            (host, stamp, method, rest.partition(" ")[0], int(status), None if size == "-" else int(size))
        )
    columns = [list(column) for column in zip(*rows, strict=True)]
    return pa.table(columns, names=["host", "ts", "method", "path", "status", "bytes"])


def _json_table(path: Path) -> pa.Table:
    wanted = (
        "type", "repo.name", "actor.login", "payload.size", "created_at", "eventName", "errorCode",
        "eventTime", "eventSource",
    )  # fmt: skip
    columns: dict[str, list[Any]] = {name: [] for name in wanted}
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            record = json.loads(line)
            for name in wanted:
                value: Any = record
                for part in name.split("."):
                    value = value.get(part) if isinstance(value, dict) else None
                columns[name].append(value)
    return pa.table(columns)


@pytest.mark.parametrize(("oracle", "case", "text"), _cases() if DATA.is_dir() else [])
def test_real_logs_give_the_answers_others_gave(
    oracle: str, case: str, text: str, run_query: Callable[..., dict[int, pa.Table]]
) -> None:
    expected, table = _oracle(oracle)
    results = run_query(text, table, batch_rows=1500)
    rows = [list(row.values()) for result in results.values() for row in result.to_pylist()]
    wanted = expected[case]
    assert rows == [row if isinstance(row, list) else [row] for row in wanted]
