"""`python -m tests.compat.golden.ask`: what a real Spark answers to the statements of own.sql, as own.jsonl.

Written in the notation of the golden queries (`data`), with ANSI off and in UTC, so that both are run alike.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

from pyspark.sql import Row

from elfmesh import spark_bridge
from tests.spark_tests import SESSION

STATEMENTS, ANSWERS = Path(__file__).with_name("own.sql"), Path(__file__).with_name("own.jsonl")


def main() -> None:
    """The command."""
    spark = spark_bridge.local_session("elfmesh golden queries", **SESSION)
    lines: list[str] = []
    for kind, name, text, number in parts(STATEMENTS.read_text(encoding="utf-8")):
        if kind == "view":
            spark.sql(text).createOrReplaceTempView(name)
            lines.append(json.dumps({"view": name, **answer(spark.table(name))}, ensure_ascii=False))
            continue
        case: dict[str, Any] = {"file": name, "n": number, "sql": text, "esql": text}
        try:
            case |= {"ok": True, **answer(spark.sql(text))}
        except Exception as error:  # whatever Spark refuses it with is the answer
            case |= {"ok": False, "err": str(error).splitlines()[0][:200]}
        lines.append(json.dumps(case, ensure_ascii=False))
    ANSWERS.write_text("\n".join(lines) + "\n", encoding="utf-8")
    spark.stop()


def parts(text: str) -> Iterator[tuple[str, str, str, int]]:
    """Kind, name, statement and number of each part: of views those of a file are its statements."""
    for block in re.split(r"(?m)^-- (?=view |file )", text)[1:]:
        head, _, body = block.partition("\n")
        kind, name = head.split()
        texts = [body] if kind == "view" else body.split(";\n")
        for number, each in enumerate((each.strip() for each in texts if each.strip()), 1):
            yield kind, name, each, number


def answer(frame: Any) -> dict[str, Any]:
    """Columns and rows of a frame."""
    columns = [[field.name, field.dataType.simpleString()] for field in frame.schema]
    return {"cols": columns, "rows": [[written(value) for value in row] for row in frame.collect()]}


def written(value: Any) -> Any:
    """A value in the notation of the file."""
    if isinstance(value, Decimal):
        return {"dec": str(value)}
    if isinstance(value, bytes | bytearray):
        return {"hex": value.hex()}
    if isinstance(value, float) and not math.isfinite(value):
        return {"f": str(value)}
    if isinstance(value, timedelta):
        return {"other": str(value)}
    if isinstance(value, date | datetime):
        return value.isoformat()
    if isinstance(value, dict):
        return {"map": [[written(key), written(item)] for key, item in value.items()]}
    if isinstance(value, Row):
        return {"struct": [[name, written(item)] for name, item in zip(value.__fields__, value, strict=True)]}
    return [written(each) for each in value] if isinstance(value, list | tuple) else value


if __name__ == "__main__":
    main()
