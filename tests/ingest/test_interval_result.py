from __future__ import annotations

import copy
import json
from pathlib import Path

import pyarrow as pa
import pytest

import elfmesh
from elfmesh.api.client.live import LiveAnswer
from elfmesh.cli.entry import run as elf
from elfmesh.control.jobs.records import to_json
from elfmesh.local.embedded import answers
from tests.agent import app_log
from tests.agent.app_log import PER_WINDOW


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return app_log.write(tmp_path)


def test_run_answers_a_pyarrow_table_per_interval_that_names_its_interval(log: Path) -> None:
    first, second = tables = elfmesh.run(PER_WINDOW, [str(log)], format="json")
    assert all(type(each) is pa.Table for each in tables)
    assert (first.column_names, first["s"].to_pylist(), second.num_rows) == (["k", "s"], [6, 4], 2)
    assert pa.concat_tables(tables).num_rows == 4
    whole = [to_json(each.record, each.table) for each in answers(PER_WINDOW, [str(log)], format="json")]
    for table, expected in zip(tables, whole, strict=True):
        assert {**json.loads(table.schema.metadata[b"elf"]), "rows": table.to_pylist()} == expected
    (plain,) = elfmesh.run("SELECT v FROM log", str(log))
    assert json.loads(plain.schema.metadata[b"elf"])["interval"] == {"index": 0, "start": None, "end": None}


def test_a_live_answer_is_used_as_the_table_that_it_holds() -> None:
    table = pa.table({"k": ["a", "b"], "s": [6, 4]})
    answer = LiveAnswer(table, ())
    assert (answer.to_pylist(), answer.of) == (table.to_pylist(), ())
    assert (answer.column_names, answer["s"].to_pylist(), pa.table(answer)) == (["k", "s"], [6, 4], table)
    assert copy.deepcopy(answer).table == table
    assert not hasattr(answer, "nosuch")


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
