"""Room: control/ql. ELF-QL, from text to a plan and from batches to rows.

The names that others need are loaded when they are first used: an agent without jobs parses no SQL.
"""

from typing import TYPE_CHECKING

from elfmesh.lazy import lazy_names

if TYPE_CHECKING:
    from elfmesh.control.ql.changes import RESET, compare, same_records
    from elfmesh.control.ql.parsing import declare, expand, parse, parse_many
    from elfmesh.control.ql.query import Prepared
    from elfmesh.control.ql.relation import joined_inputs
    from elfmesh.control.ql.sessions import left_out
    from elfmesh.control.ql.statement import (
        LOOKED_UP,
        SAME,
        JobClause,
        Statement,
        TableSpec,
        Window,
        job_read,
    )
    from elfmesh.control.ql.times import to_timestamp_us
    from elfmesh.control.ql.whole import Query
    from elfmesh.control.ql.windows import TIME_COLUMN
else:
    __getattr__ = lazy_names(
        __name__,
        {
            "changes": "RESET compare same_records",
            "parsing": "declare expand parse parse_many",
            "query": "Prepared",
            "relation": "joined_inputs",
            "sessions": "left_out",
            "statement": "LOOKED_UP SAME JobClause Statement TableSpec Window job_read",
            "times": "to_timestamp_us",
            "whole": "Query",
            "windows": "TIME_COLUMN",
        },
    )

__all__ = [
    "LOOKED_UP",
    "RESET",
    "SAME",
    "TIME_COLUMN",
    "JobClause",
    "Prepared",
    "Query",
    "Statement",
    "TableSpec",
    "Window",
    "compare",
    "declare",
    "expand",
    "job_read",
    "joined_inputs",
    "left_out",
    "parse",
    "parse_many",
    "same_records",
    "to_timestamp_us",
]  # fmt: skip
