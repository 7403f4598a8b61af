"""Room: control/ql. ELF-QL, from text to a plan and from batches to rows."""

from elfmesh.control.ql.parse import expand, parse, parse_many
from elfmesh.control.ql.query import Prepared
from elfmesh.control.ql.statement import JobClause, Statement, TableSpec, Window
from elfmesh.control.ql.times import to_timestamp_us
from elfmesh.control.ql.whole import Query

__all__ = [
    "JobClause", "Prepared", "Query", "Statement", "TableSpec", "Window", "expand", "parse", "parse_many",
    "to_timestamp_us",
]  # fmt: skip
