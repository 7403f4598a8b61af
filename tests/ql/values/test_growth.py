"""What an expression makes of a block is bounded before memory is taken."""

from __future__ import annotations

import pyarrow as pa
import pytest

from elfmesh.ql import Query, parse
from elfmesh.ql.engine.block import BlockRows
from elfmesh.ql.values.growth import VALUE_BYTES_MAX, TooLarge

ROWS = 64
BLOCK = pa.record_batch({"x": ["ab" * 8_000] * ROWS, "n": [1_000_000] * ROWS})  # a megabyte of texts


def doubled(levels: int) -> str:
    text = "x"
    for _ in range(levels):
        text = f"concat({text}, {text})"
    return text


@pytest.mark.parametrize(
    "expression",
    [
        doubled(10),
        f"concat_ws('-'{', x' * 34})",
        f"regexp_replace(x, 'a', '{'y' * 500}')",
        f"regexp_replace(x, '', '{'y' * 500}')",
        f"replace(x, 'a', '{'y' * 500}')",
        "repeat(x, 60)",
        "repeat('x', n)",
        "lpad(x, n, 'z')",
        "rpad('', 1000000 + length(x) * 0, 'z')",
        "space(n)",
        "format_string('%s%s%s%s', repeat(x, 9), repeat(x, 9), repeat(x, 9), repeat(x, 9))",
        "array_join(array(repeat(x, 9), repeat(x, 9), repeat(x, 9), repeat(x, 9)), '-')",
    ],
    ids=lambda given: given[:30],
)
def test_a_value_that_unfolds_a_block_is_refused(expression: str) -> None:
    query = Query(parse(f"SELECT max(length({expression})) AS y FROM s"))
    before = pa.total_allocated_bytes()
    with pytest.raises(TooLarge, match="from one block"):
        query.prepare(BlockRows.of(BLOCK))
    assert pa.total_allocated_bytes() - before < 4 * VALUE_BYTES_MAX


@pytest.mark.parametrize(
    "expression",
    [
        "upper(x)",
        doubled(4),
        "regexp_replace(x, 'a', 'bb')",
        f"regexp_replace(x, 'nothing', '{'y' * 500}')",
        "repeat(x, 20)",
    ],
    ids=lambda given: given[:30],
)
def test_usual_values_are_made(expression: str) -> None:
    query = Query(parse(f"SELECT max(length({expression})) AS y FROM s"))
    assert query.prepare(BlockRows.of(BLOCK)).passed == ROWS


def test_the_rows_in_halves_give_what_all_of_them_are_too_many_for() -> None:
    query = Query(parse(f"SELECT max(length({doubled(6)})) AS y FROM s"))
    rows = BlockRows.of(BLOCK)
    with pytest.raises(TooLarge):
        query.prepare(rows)
    halves = rows.halves()
    assert [query.prepare(half).passed for half in halves] == [ROWS // 2, ROWS // 2]


def test_finished_rows_may_be_larger_than_a_block() -> None:
    query = Query(parse(f"SELECT max(length({doubled(6)})) AS y FROM s"))
    columns = dict(zip(BLOCK.schema.names, BLOCK.columns, strict=True))
    assert query.prepare(BlockRows(columns, ROWS, bounded=False)).passed == ROWS
