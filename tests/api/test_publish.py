"""Rows of a file as a table of a job: what fits, and what is refused by its name."""

from __future__ import annotations

import pyarrow as pa
import pytest

from elfmesh.errors import DataError
from tests.ql.plan.test_inline import with_rows


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (pa.table({"name": ["a"]}), "column weight of table suspects: is missing; there are name"),
        (pa.table({"name": ["a"], "weight": ["x"]}), "does not fit int64"),
        (
            pa.table({"name": [str(i * 7919**3) for i in range(90_000)], "weight": range(90_000)}),
            "a job carries",
        ),
    ],
)
def test_rows_that_do_not_fit_are_refused_by_name(table: pa.Table, message: str) -> None:
    with pytest.raises(DataError) as caught:
        with_rows(table)
    assert message in str(caught.value)
