"""One interval as typed fields, from a record of a client or from a table."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa
import pytest

from elfmesh.api.client.asyncio import AsyncClient
from elfmesh.api.client.client import connect
from elfmesh.api.client.live import LiveAnswer
from elfmesh.api.client.result_interval import ROWS_SHOWN, ResultInterval, html_of
from elfmesh.errors import DataError
from tests.cli.remote import api, backend

__all__ = ["api", "backend"]

RECORD = {
    "job": "shop/<top>",
    "interval": {"index": 3, "start": "2015-05-17T10:05:00Z", "end": "2015-05-17T10:05:30Z"},
    "state": "FINAL_PARTIAL",
    "rev": 2,
    "completeness": 0.5,
    "fidelity": 0.75,
    "agents": {"in": 1, "expected": 2, "missing": ["web2"]},
    "version": 4,
    "counts": {"contributed": 7},
    "rows": [{"path": "/<b>", "hits": 7}, {"path": None, "hits": 1}],
}


def test_the_fields_of_a_record() -> None:
    found = ResultInterval.of(RECORD)
    assert (found.job, found.index, found.state, found.rev, found.version) == (
        "shop/<top>",
        3,
        "FINAL_PARTIAL",
        2,
        4,
    )
    assert found.start == datetime(2015, 5, 17, 10, 5, tzinfo=UTC)
    assert found.end == datetime(2015, 5, 17, 10, 5, 30, tzinfo=UTC)
    assert (found.completeness, found.fidelity, found.agents_in, found.agents_expected) == (0.5, 0.75, 1, 2)
    assert (found.missing, found.counts) == (("web2",), {"contributed": 7})
    assert found.rows == RECORD["rows"]
    assert found.to_arrow().to_pylist() == RECORD["rows"]
    assert found.to_pandas()["hits"].tolist() == [7, 1]


def test_html_escapes_what_logs_and_users_wrote() -> None:
    text = ResultInterval.of(RECORD)._repr_html_()
    assert "shop/&lt;top&gt;: interval 3, 2015-05-17 10:05:00 .. 10:05:30 UTC, FINAL_PARTIAL" in text
    assert "<td>/&lt;b&gt;</td><td>7</td>" in text
    assert "<tr><td></td><td>1</td></tr>" in text


def test_a_notebook_shows_the_first_rows() -> None:
    text = html_of("x", pa.table({"n": range(ROWS_SHOWN + 5)}))
    assert text.count("<td>") == ROWS_SHOWN
    assert "x (20 of 25 rows)" in text


def test_an_interval_without_a_window_and_an_early_one() -> None:
    whole = RECORD | {"interval": {"index": 0, "start": None, "end": None}}
    found = ResultInterval.of(whole, pa.table({"n": [1]}))
    assert (found.start, found.end, found.rows) == (None, None, [{"n": 1}])
    assert "interval 0, FINAL_PARTIAL" in found._repr_html_()
    early = {key: value for key, value in RECORD.items() if key not in ("completeness", "fidelity", "counts")}
    found = ResultInterval.of(early | {"agents": {"in": 1, "expected": 2, "from": ["web1"]}})
    assert (found.completeness, found.missing) == (None, ())


def test_a_year_that_datetime_lacks_is_an_error() -> None:
    with pytest.raises(DataError, match="0000-01-01T00:00:00Z is outside"):
        ResultInterval.of(RECORD | {"interval": {"index": 0, "start": "0000-01-01T00:00:00Z", "end": None}})


def test_a_client_yields_the_intervals_of_a_job(api: str) -> None:
    found = list(connect(api).intervals("shop/top", start=3))
    assert [each.index for each in found] == [3, 4]
    assert found[0].start == datetime(1970, 1, 1, 0, 0, 30, tzinfo=UTC)
    assert found[0].rows[0] == {"product": "apple", "hits": 3}


async def test_a_client_of_asyncio_does_too(api: str) -> None:
    async with AsyncClient(api) as client:
        assert [each.index async for each in client.intervals("shop/top", start=3)] == [3, 4]


def test_an_answer_has_the_same_methods() -> None:
    answer = LiveAnswer(pa.table({"n": [1]}), ({"job": "a/b", "interval": {"index": 7}},))
    assert answer.to_arrow().to_pylist() == [{"n": 1}]
    assert answer.to_pandas()["n"].tolist() == [1]
    assert "<caption>a/b: interval 7</caption>" in answer._repr_html_()
