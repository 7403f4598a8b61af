"""Room: ql. ELF-QL, from text to a plan and from batches to rows.

Public names are imported when they are first used, so an agent is ready before it loads the SQL parser, and
commands that only ask do not load it.
"""

from typing import TYPE_CHECKING

from elfmesh.lazy import lazy_names

if TYPE_CHECKING:
    from elfmesh.ql.engine.changes import RESET, compare, same_records
    from elfmesh.ql.engine.open_groups import due_us, lacking_after
    from elfmesh.ql.engine.query import Prepared
    from elfmesh.ql.engine.whole import Query
    from elfmesh.ql.plan.early import growing_columns, stable_columns
    from elfmesh.ql.plan.fidelity_shape import FidelityShape
    from elfmesh.ql.plan.relation import fidelity_shape, key_columns
    from elfmesh.ql.plan.statement import (
        LOOKED_UP,
        ONE_INTERVAL_US,
        SAME,
        JobClause,
        Statement,
        TableSpec,
        WindowSpec,
        job_read,
    )
    from elfmesh.ql.plan.windows import TIME_COLUMN
    from elfmesh.ql.text.parsing import declare, expand, parse, parse_many, within
    from elfmesh.ql.values.times import to_timestamp_us
else:
    __getattr__ = lazy_names(
        __name__,
        {
            "engine.changes": "RESET compare same_records",
            "text.parsing": "declare expand parse parse_many within",
            "engine.query": "Prepared",
            "plan.fidelity_shape": "FidelityShape",
            "plan.relation": "fidelity_shape key_columns",
            "engine.open_groups": "due_us lacking_after",
            "plan.early": "growing_columns stable_columns",
            "plan.statement": (
                "LOOKED_UP ONE_INTERVAL_US SAME JobClause Statement TableSpec WindowSpec job_read"
            ),
            "values.times": "to_timestamp_us",
            "engine.whole": "Query",
            "plan.windows": "TIME_COLUMN",
        },
    )

__all__ = [
    "LOOKED_UP",
    "ONE_INTERVAL_US",
    "RESET",
    "SAME",
    "TIME_COLUMN",
    "FidelityShape",
    "JobClause",
    "Prepared",
    "Query",
    "Statement",
    "TableSpec",
    "WindowSpec",
    "compare",
    "declare",
    "due_us",
    "expand",
    "fidelity_shape",
    "growing_columns",
    "job_read",
    "key_columns",
    "lacking_after",
    "parse",
    "parse_many",
    "same_records",
    "stable_columns",
    "to_timestamp_us",
    "within",
]
