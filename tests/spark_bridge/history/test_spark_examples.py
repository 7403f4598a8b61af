"""Every script of examples/spark runs over a shop's log and shows what it says."""

from __future__ import annotations

import re
import runpy
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from elfmesh import spark_bridge
from elfmesh.cli.demo.traffic import ShopTraffic, write_bulk
from tests.spark_tests import long_spark

SCRIPTS = Path(__file__).parents[3] / "examples" / "spark"
SHOWN = {
    "dashboard_table.py": r"\|interval_index\|.*\| *product\|clicks\|users\|(?s:.*)2026-01-01",
    "join_dimensions.py": r"\| *(Ada|Grace)\|",
    "user_features.py": r"\d+ rows of 10 columns",
    "growing_history.py": r"[1-9]\d* rows",
}
SMALL = {"join_dimensions.py", "growing_history.py"}
"""Run each time; the others by `make test-spark`."""

ON_AGENTS = {"feed_back.py"}
"""Run by tests/spark_bridge/test_feed_back.py, over agents."""


def test_every_script_is_run() -> None:
    assert {path.name for path in SCRIPTS.glob("*.py")} == {*SHOWN, *ON_AGENTS}


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in SMALL else long_spark) for name in SHOWN]
)
def test_a_script_runs(
    name: str,
    spark: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    write_bulk(logs / "web1.ndjson", 4_000, ShopTraffic(), start_us=1_767_225_600_000_000, rate_per_s=20)
    given = {
        "dashboard_table.py": [f"{logs}/*.ndjson", str(tmp_path / "table")],
        "join_dimensions.py": [str(logs)],
        "user_features.py": [str(logs), str(tmp_path / "table")],
        "growing_history.py": [str(logs), str(tmp_path / "table"), str(tmp_path / "checkpoint")],
    }
    monkeypatch.setattr(sys, "argv", [name, *given[name]])
    monkeypatch.setattr(type(spark), "stop", lambda _session: None)  # the session is shared by all tests
    runpy.run_path(str(SCRIPTS / name), run_name="__main__")
    assert re.search(SHOWN[name], capsys.readouterr().out)
    if (tmp_path / "table").exists():
        assert pq.read_table(tmp_path / "table").num_rows > 0


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # those packages' own
@pytest.mark.parametrize(("table", "package"), [("delta", "deltalake"), ("iceberg", "pyiceberg")])
@long_spark
def test_a_dashboard_is_a_table_of_other_formats(
    table: str, package: str, spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twice: what is there is replaced. Read by the format's own package, it has the rows of the query."""
    pytest.importorskip(package, reason="pip install -r examples/spark/requirements.txt")
    write_bulk(tmp_path / "web1.ndjson", 400, ShopTraffic(), start_us=1_767_225_600_000_000, rate_per_s=5)
    place = tmp_path / "table"
    words = ["dashboard_table.py", str(tmp_path / "web1.ndjson"), str(place), "--table", table]
    monkeypatch.setattr(sys, "argv", [*words, "--writer", "arrow"])
    monkeypatch.setattr(type(spark), "stop", lambda _session: None)
    for _ in range(2):
        main = runpy.run_path(str(SCRIPTS / "dashboard_table.py"), run_name="__main__")
    rows = spark_bridge.sql(spark, main["TOP"], {"clicks": (str(tmp_path / "web1.ndjson"), "json")}).toArrow()
    assert rows.num_rows == 10
    if table == "delta":
        import deltalake

        found = deltalake.DeltaTable(str(place)).to_pyarrow_table()
    else:
        from pyiceberg.catalog.sql import SqlCatalog

        catalog = SqlCatalog("dashboard", uri=f"sqlite:///{place}/catalog.db", warehouse=place.as_uri())
        found = catalog.load_table("shop.top").scan().to_arrow()
    found = found.select(rows.column_names).sort_by(
        [("interval_index", "ascending"), ("product", "ascending")]
    )
    rows = rows.sort_by([("interval_index", "ascending"), ("product", "ascending")])
    assert found.to_pylist() == rows.to_pylist()
