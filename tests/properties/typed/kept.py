"""Kept cases over typed columns, in kept.jsonl: what a generator found once, and what was new once.

A case is a line of JSON: `why`, `statement`, `views` (columns with types and rows, in the notation of the
golden queries), and the answer of a real Spark as `cols` and `rows`, or `refused`, a part of our message.
`spark` is the statement as Spark spells it, if it does otherwise. `python -m tests.properties.typed --answer`
asks again.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from elfmesh.errors import QueryError
from tests.compat.golden.ask import answer
from tests.compat.golden.compare import wrong_with
from tests.compat.golden.data import Golden, View
from tests.compat.golden.run import answer_of
from tests.properties.typed.rows import spark_view

PATH = Path(__file__).with_name("kept.jsonl")

Case = dict[str, Any]


def cases() -> list[Case]:
    """All of them."""
    return [json.loads(line) for line in PATH.read_text(encoding="utf-8").splitlines()]


def views_of(case: Case) -> dict[str, View]:
    """The streams of a case."""
    return {
        name: View(tuple(map(tuple, each["cols"])), tuple(map(tuple, each["rows"])))
        for name, each in case["views"].items()
    }


def wrong(case: Case) -> str:
    """What is wrong with the answer now; "" is nothing."""
    views = views_of(case)
    try:
        found = answer_of(case["statement"], {name: view.table() for name, view in views.items()})
    except QueryError as error:
        if case.get("refused") and case["refused"] in str(error) and error.line and error.hint:
            return ""
        return f"refused: {error}"
    if case.get("refused"):
        return f"answered {found.to_pylist()[:5]}, and is to be refused"
    columns, rows = tuple(map(tuple, case["cols"])), tuple(map(tuple, case["rows"]))
    return wrong_with(Golden("typed", 0, case["statement"], views, columns, rows, True, ""), found)


def ask_again(spark: Any) -> None:
    """Write the file with what a real Spark answers now."""
    lines = []
    for case in cases():
        for name, view in views_of(case).items():
            spark.sql(spark_view(view)).createOrReplaceTempView(name)
        if not case.get("refused"):
            try:
                case.update(answer(spark.sql(case.get("spark") or case["statement"])))
            except Exception as error:
                raise SystemExit(f"{case['statement']}\n{str(error)[:500]}") from None
        lines.append(json.dumps(case, ensure_ascii=False) + "\n")
    PATH.write_text("".join(lines), encoding="utf-8")
