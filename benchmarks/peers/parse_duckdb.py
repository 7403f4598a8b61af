"""DuckDB's readers over the whole file: it reads files, not blocks."""

from __future__ import annotations

from collections.abc import Callable

import duckdb
import pyarrow as pa

from benchmarks import meter
from benchmarks.peers.columns import COMBINED_WORDS, CSV_HEADER

JSON = """SELECT product, clicks_count, price, "user".location
FROM read_json('{}', format = 'newline_delimited', columns = {{product: 'VARCHAR', clicks_count: 'BIGINT',
    price: 'DOUBLE', "user": 'STRUCT(location VARCHAR)'}})"""
CSV = "SELECT product, clicks_count::BIGINT, price::DOUBLE, location FROM read_csv('{}', {})"
COMBINED = """SELECT host, split_part(request, ' ', 2), status::BIGINT, nullif(bytes, '-')::BIGINT
FROM read_csv('{}', {})"""


def _options(names: tuple[str, ...], rest: str) -> str:
    columns = ", ".join(f"\"{name}\": 'VARCHAR'" for name in names)
    return f"auto_detect = false, quote = '\"', columns = {{{columns}}}, {rest}"


def make(_variant: str, form: str) -> meter.WholeFile:
    connection = duckdb.connect()
    connection.execute("SET threads = 1")
    options = _options(CSV_HEADER, "header = true, delim = ','")
    if form == "combined":
        options = _options(COMBINED_WORDS, "header = false, delim = ' '")
    query: Callable[..., str] = {"json": JSON, "csv": CSV, "combined": COMBINED}[form].format

    def parse(path: str) -> pa.Table:
        out = connection.sql(query(path, options)).to_arrow_table()
        return out if isinstance(out, pa.Table) else out.read_all()

    return meter.WholeFile(parse)


if __name__ == "__main__":
    meter.parse_main(make)
