from __future__ import annotations

import copy
from pathlib import Path

import pyarrow as pa
import pytest

from elfmesh.agent.cli.entry import run as elf
from elfmesh.agent.embedded import run
from elfmesh.control.web.live import LiveAnswer
from tests.agent import app_log
from tests.agent.app_log import PER_WINDOW


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return app_log.write(tmp_path)


def test_a_result_is_used_as_the_table_that_it_holds(log: Path) -> None:
    first, second = run(PER_WINDOW, [str(log)], format="json")
    assert first.to_pylist() == first.table.to_pylist()
    assert (first.column_names, first["s"].to_pylist(), second.num_rows) == (["k", "s"], [6, 4], 2)
    assert pa.concat_tables([pa.table(first), pa.table(second)]).num_rows == 4
    assert copy.deepcopy(first).record == first.record
    assert not hasattr(first, "nosuch")
    answer = LiveAnswer(first.table, ())
    assert (answer.to_pylist(), answer.of) == (first.to_pylist(), ())


@pytest.mark.parametrize("window", ["TUMBLE(ts, INTERVAL '5' MINUTE)", "SESSION(ts, INTERVAL '5' MINUTE)"])
def test_records_without_a_usable_time_make_no_interval(
    window: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "x.ndjson").write_text('{"ts": "soon", "k": 1}\n{"k": 2}\n')
    query = f"SELECT count(*) AS n FROM log GROUP BY {window}"
    code = elf(["run", "-o", "json", query, str(tmp_path / "x.ndjson")])
    out, err = capfd.readouterr()
    assert (code, out) == (65, "")
    assert "2 records, 2 parse errors" in err
    assert "no usable time in ts" in err
