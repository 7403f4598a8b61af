"""Converts Arrow batches to exactly the schema that Spark expects.

Spark does not convert the record batches of a Python data source. Another column order, `large_string`, a
dictionary, int32 for BIGINT, nanoseconds or a missing time zone for TIMESTAMP, or another nullability fails
inside the worker with a trace that does not name the column. Therefore each batch passes through `conform`
first.
"""

from __future__ import annotations

import inspect
from typing import Any

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema

from elfmesh.arrow_kernels import pc
from elfmesh.errors import DataError
from elfmesh.spark_bridge.joblog import SCHEMA_MISMATCH


def arrow_schema(schema: Any) -> pa.Schema:
    """Return the Arrow schema that Spark requires of batches for a Spark `StructType`."""
    # PySpark 4.2 made the zone an argument; earlier versions used UTC.
    zone = {"timezone": "UTC"} if "timezone" in inspect.signature(to_arrow_schema).parameters else {}
    return to_arrow_schema(schema, **zone)


def conform(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Convert `batch` to exactly the columns, order, types and nullability of `schema`.

    Raises:
        DataError: a column is missing, or contains a value that its declared type cannot hold.
    """
    if batch.schema.equals(schema, check_metadata=False):
        return batch
    return pa.RecordBatch.from_arrays([_column(batch, field) for field in schema], schema=schema)


def _column(batch: pa.RecordBatch, field: pa.Field) -> pa.Array:
    position = batch.schema.get_field_index(field.name)
    if position < 0:
        raise DataError(
            f"{SCHEMA_MISMATCH}: the results have no column {field.name!r}; they have "
            f"{', '.join(batch.schema.names)}. Read without a schema of your own, or correct it."
        )
    column = batch.column(position)
    if column.type == field.type:
        return column
    try:
        return pc.cast(column, options=pc.CastOptions(field.type, allow_time_truncate=True))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise DataError(
            f"{SCHEMA_MISMATCH}: column {field.name!r} was {field.type} when this DataFrame was made, and "
            f"now holds {column.type} ({str(error).splitlines()[0]}). CAST it in the query to one type."
        ) from None
