from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from elfmesh.errors import QueryError, UsageError
from elfmesh.local.embedded import answers
from elfmesh.ql.engine.live import evaluate, parse_live
from elfmesh.ql.values.row_json import rows_to_json
from tests.api.client.test_live import api, backend
from tests.cli.remote import elf

__all__ = ["api", "backend"]


def test_output_of_the_command(api: str) -> None:
    text = "SELECT product, hits FROM shop.top ORDER BY hits DESC LIMIT 1"
    ran = elf("query", text, "--api", api, "-o", "json")
    found = json.loads(ran.stdout)
    assert found["rows"] == [{"product": "apple", "hits": 29}]
    assert (found["of"][0]["job"], found["of"][0]["interval"]["index"]) == ("shop/top", 29)
    assert elf("query", text, "--api", api, "-o", "csv").stdout == "product,hits\napple,29\n"
    ran = elf("query", text, "--api", api)
    assert "apple" in ran.stdout
    assert "shop/top: interval 29" in ran.stderr


def test_a_range_of_time(api: str) -> None:
    text = "SELECT max(hits) AS most, count(*) AS n FROM shop.top"
    times = ("--from", "1970-01-01T00:00:20", "--to", "1970-01-01T00:00:50")
    ran = elf("query", text, *times, "--api", api, "-o", "csv")
    assert (ran.exit_code, ran.stdout) == (0, "most,n\n7,9\n")
    noted = elf("query", text, *times, "--api", api).stderr
    assert (
        "shop/top: 3 intervals, 1970-01-01T00:00:20Z .. 1970-01-01T00:00:50Z, completeness at least 1"
        in noted
    )
    ran = elf("query", text, *times, "--wait", "1 s", "--api", api)
    assert (ran.exit_code, "are for one result of each job" in ran.stderr) == (2, True)


@pytest.mark.parametrize(
    ("text", "reported"),
    [
        ("SELECT nothing FROM shop.top", "nothing"),
        ("CREATE JOB a.b EVERY '1 s' AS SELECT count(*) FROM shop.top", "is no job"),
        ("SELECT count(*) FROM shop.top GROUP BY TUMBLE(ts, INTERVAL '1' SECOND)", "no window to make"),
        ("SELECT count(*) FROM top ON (role = 'web')", "belong to no agent"),
    ],
)
def test_what_results_cannot_answer_is_refused_with_its_place(api: str, text: str, reported: str) -> None:
    ran = elf("query", text, "--api", api)
    assert ran.exit_code == 65
    assert reported in ran.stderr
    assert "^" in ran.stderr


def test_wrong_use(api: str) -> None:
    assert elf("query", "--api", api).exit_code == UsageError.exit_code
    assert elf("query", "SELECT * FROM shop.top", "--wait", "soon", "--api", api).exit_code == 2
    assert elf("query", "SELECT * FROM shop.other", "--api", api).exit_code == 1
    assert elf("query", "SELECT * FROM shop.top", "--api", "127.0.0.1:1").exit_code == 69


def test_rows_of_no_result_are_no_rows() -> None:
    empty = pa.table({"a": pa.array([], pa.int64())})
    assert evaluate(parse_live("SELECT sum(a) AS s FROM j"), {"j": empty}).to_pylist() == [{"s": None}]
    assert evaluate(parse_live("SELECT a FROM j WHERE a > 1"), {"j": empty}).to_pylist() == []
    with pytest.raises(QueryError, match="b"):
        evaluate(parse_live("SELECT b FROM j"), {"j": empty})


VALUES = st.integers(-3, 3) | st.none()
ROWS = st.lists(st.fixed_dictionaries({"u": st.sampled_from("abc") | st.none(), "n": VALUES}), max_size=12)
QUERIES = [
    "SELECT * FROM j",
    "SELECT u, sum(n) AS s, count(DISTINCT n) AS d FROM j GROUP BY u HAVING count(*) > 1",
    "SELECT n, u FROM j WHERE n > 0 OR u = 'a' ORDER BY n DESC LIMIT 3",
    "SELECT DISTINCT u FROM j",
    "SELECT u, n FROM j WHERE n = (SELECT max(n) FROM j)",
    "SELECT a.u, b.s FROM j a JOIN (SELECT u, sum(n) AS s FROM j GROUP BY u) b ON a.u = b.u",
    "SELECT u, row_number() OVER (ORDER BY n DESC, u) AS r FROM j",
]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=15)
@given(found=ROWS, text=st.sampled_from(QUERIES))
def test_rows_of_results_answer_as_the_same_rows_in_a_log(
    found: list[dict[str, Any]], text: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    log = tmp_path_factory.mktemp("rows") / "log"
    log.write_text("".join(json.dumps(row) + "\n" for row in found) or "\n")
    (expected,) = answers(text.replace("SELECT *", "SELECT u, n"), str(log), format="json")
    schema = pa.schema([("u", pa.string()), ("n", pa.int64())])
    answer = evaluate(parse_live(text), {"j": pa.Table.from_pylist(found, schema)}, ["u", "n"])
    assert answer.column_names == expected.table.column_names

    def of(table: pa.Table) -> list[str]:
        lines = [json.dumps(row, default=str) for row in rows_to_json(table)]
        return lines if "ORDER BY n DESC L" in text else sorted(lines)

    assert of(answer) == of(expected.table)
