"""`elf run` gives exactly the answers that Python and DuckDB agreed on, over real logs."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

import pytest

from elfmesh.local.embedded import answers
from tests.tooling.shared_data import DATA

ORACLES = DATA / "cases/oracles"

ACCESS = {
    "count_by_status": "SELECT status, count(*) FROM t GROUP BY status ORDER BY status",
    "top10_hosts": "SELECT host, count(*) c FROM t GROUP BY host ORDER BY c DESC, host LIMIT 10",
    "top10_paths": "SELECT path, count(*) c FROM t GROUP BY path ORDER BY c DESC, path LIMIT 10",
    "top100_paths": "SELECT path, count(*) c FROM t GROUP BY path ORDER BY c DESC, path LIMIT 100",
    "top10_hosts_by_bytes": "SELECT host, coalesce(sum(bytes), 0) b FROM t GROUP BY host "
    "ORDER BY b DESC, host LIMIT 10",
    "count_by_method": "SELECT method, count(*) FROM t GROUP BY method ORDER BY method",
    "distinct_hosts": "SELECT count(DISTINCT host) FROM t",
    "hosts_with_5plus_errors": "SELECT host, count(*) c FROM t WHERE status >= 400 GROUP BY host "
    "HAVING count(*) >= 5 ORDER BY c DESC, host",
}
TUMBLING = {
    "count": "SELECT window_start, count(*) FROM t GROUP BY TUMBLE(ts, INTERVAL '{size}' SECOND)",
    "top3_paths": "SELECT window_start, path, count(*) c FROM t "
    "GROUP BY TUMBLE(ts, INTERVAL '{size}' SECOND), path ORDER BY c DESC, path LIMIT 3",
}
HOPPING = (
    "SELECT window_start, count(*) FROM t "
    "GROUP BY HOP(ts, INTERVAL '{slide}' SECOND, INTERVAL '{size}' SECOND)"
)
GITHUB = {
    "count_by_type": "SELECT type, count(*) c FROM t GROUP BY type ORDER BY c DESC, type",
    "top10_repos": "SELECT repo.name, count(*) c FROM t GROUP BY repo.name "
    "ORDER BY c DESC, repo.name LIMIT 10",
    "top10_actors_push": "SELECT actor.login, count(*) c FROM t WHERE type = 'PushEvent' "
    "GROUP BY actor.login ORDER BY c DESC, actor.login LIMIT 10",
    "sum_commits": "SELECT sum(size), max(size), min(size), count(size) FROM t".replace(
        "size", "CASE WHEN type = 'PushEvent' THEN payload.size END"
    ),
    "tumbling_300s_by_type": "SELECT window_start, type, count(*) FROM t "
    "GROUP BY TUMBLE(created_at, INTERVAL '300' SECOND), type ORDER BY type",
    "having_20plus": "SELECT repo.name, count(*) c FROM t GROUP BY repo.name HAVING count(*) >= 20 "
    "ORDER BY c DESC, repo.name",
}
CLOUDTRAIL = {
    "top10_eventName": "SELECT eventName, count(*) c FROM t GROUP BY eventName "
    "ORDER BY c DESC, eventName LIMIT 10",
    "errors": "SELECT errorCode, count(*) c FROM t WHERE errorCode IS NOT NULL GROUP BY errorCode "
    "ORDER BY c DESC, errorCode",
    "tumbling_300s": "SELECT window_start, count(*) FROM t GROUP BY TUMBLE(ts, INTERVAL '5 minutes')",
    "by_source": "SELECT eventSource, count(*) c FROM t GROUP BY eventSource ORDER BY c DESC, eventSource",
}
FILES = {
    "elastic_apache": ("combined", {}),
    "nasa_19950701_head": ("common", {}),
    "lnav_shop": ("combined", {}),
    "gharchive_h0": ("json", GITHUB),
    "cloudtrail": ("json", CLOUDTRAIL),
}


def translated(case: str, table: dict[str, str]) -> str:
    if case in table:
        return table[case]
    if case in ACCESS:
        return ACCESS[case]
    words = case.split("_")
    size = words[1].removesuffix("s")
    if words[0] == "hopping":
        return HOPPING.format(size=size, slide=words[3].removesuffix("s"))
    return TUMBLING["_".join(words[2:])].format(size=size)


def plain(value: Any) -> Any:
    return int(value.timestamp()) if isinstance(value, datetime) else value


def cases() -> list[Any]:
    if not ORACLES.is_dir():
        return []
    return [
        pytest.param(name, case, id=f"{name}-{case['name']}")
        for name in FILES
        for case in json.loads((ORACLES / f"{name}.json").read_text())["cases"]
    ]


@pytest.mark.skipif(not ORACLES.is_dir(), reason="the shared oracles are not beside this checkout")
@pytest.mark.parametrize("declared", [True, False], ids=["declared", "auto"])
@pytest.mark.parametrize(("name", "case"), cases())
def test_every_oracle_is_matched_exactly(name: str, case: dict[str, Any], declared: bool) -> None:
    log = DATA / json.loads((ORACLES / f"{name}.json").read_text())["input"]
    kind, table = FILES[name]
    results = answers(translated(case["name"], table), [str(log)], format=kind if declared else "auto")
    rows = [[plain(value) for value in row.values()] for one in results for row in one.table.to_pylist()]
    assert rows == case["expected"]
    assert sum(one.record.counts["parse_error"] for one in results) == 0
