"""Spark's golden queries: the statements, their inputs as typed columns, and what a real Spark answered.

Owns the notation of the file: what `{dec}`, `{hex}`, `{f}`, `{map}`, `{struct}` and `{other}` stand for, and
which Arrow type a type of Spark is.
"""

from __future__ import annotations

import gzip
import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa

from tests.compat.cases import PEERS

CASES = PEERS / "spark_golden" / "cases.jsonl.gz"
OWN = Path(__file__).with_name("own.jsonl")
"""Statements of this repository, answered by a real Spark: see `ask`."""

STALE = frozenset({("postgreSQL/numeric", 475)})
"""Cases whose rows are those of another moment than their answer: a real Spark answers 96 rows over them."""

Columns: TypeAlias = tuple[tuple[str, str], ...]
"""Names with types, as Spark writes them."""

PLAIN: Mapping[str, pa.DataType] = {
    "void": pa.null(), "boolean": pa.bool_(), "tinyint": pa.int8(), "smallint": pa.int16(), "int": pa.int32(),
    "bigint": pa.int64(), "float": pa.float32(), "double": pa.float64(), "string": pa.string(),
    "binary": pa.binary(), "date": pa.date32(), "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}  # fmt: skip

_TYPE = re.compile(r"\s*([a-z_][\w ]*)")
_READS = re.compile(r"\b(FROM|JOIN)\s", re.IGNORECASE)
_DELTA = re.compile(r"(?:(-?\d+) days?, )?(\d+):(\d\d):(\d\d)(?:\.(\d+))?")


@dataclass(frozen=True, slots=True)
class View:
    """A named input.

    Attributes:
        columns: names and types.
        rows: values in the notation of the file.
    """

    columns: Columns
    rows: tuple[tuple[Any, ...], ...]

    def table(self) -> pa.Table:
        """The rows as typed columns."""
        arrays = [
            pa.array([value_of(row[at], kind) for row in self.rows], kind)
            for at, kind in enumerate(arrow_type(text) for _, text in self.columns)
        ]
        return pa.Table.from_arrays(arrays, names=[name for name, _ in self.columns])


@dataclass(frozen=True, slots=True)
class Golden:
    """One query.

    Attributes:
        file: of Spark's tests.
        number: in its file.
        text: the query over named streams; as it was printed where Spark refuses it.
        views: the streams.
        columns: names and types of the answer.
        rows: the answer, in the notation of the file.
        accepted: whether Spark answers it.
        error: what Spark says where it does not.
    """

    file: str
    number: int
    text: str
    views: Mapping[str, View]
    columns: Columns
    rows: tuple[tuple[Any, ...], ...]
    accepted: bool
    error: str

    @property
    def name(self) -> str:
        """Unique among all cases."""
        return f"{self.file}#{self.number}"

    @property
    def reads_unknown(self) -> bool:
        """Whether it may read what is not among the views."""
        stale = (self.file, self.number) in STALE
        return stale or (not self.views and bool(_READS.search(self.text)))


def _view(found: Mapping[str, Any]) -> View:
    return View(tuple(map(tuple, found["cols"])), tuple(map(tuple, found["rows"])))


@cache
def cases() -> tuple[Golden, ...]:
    """All cases, in the order of the file."""
    return tuple(_read())


def _read() -> Iterator[Golden]:
    own = [json.loads(line) for line in OWN.read_text(encoding="utf-8").splitlines()]
    given: list[dict[str, Any]] = []
    if CASES.is_file():
        with gzip.open(CASES, "rt", encoding="utf-8") as lines:
            given = [json.loads(line) for line in lines]
    views: dict[str, dict[str, Any]] = defaultdict(dict)
    for each in given:
        views[each["file"]].update(each.get("views") or {})
    of_own = {each["view"]: each for each in own if "view" in each}
    for each in own:
        if "file" in each:
            yield _case(each, of_own)
    for each in given:
        yield _case(each, {} if each["ok"] else views[each["file"]])


def _case(found: Mapping[str, Any], around: Mapping[str, Any]) -> Golden:
    """A case that reads its own views, or those around it that it names: with what is refused are none."""
    text, views = found.get("esql") or found["sql"], found.get("views") or {}
    if not views:
        words = set(re.findall(r"\w+", text.lower()))
        views = {name: view for name, view in around.items() if name.lower() in words}
    return Golden(
        found["file"],
        found["n"],
        text,
        {name: _view(view) for name, view in views.items()},
        tuple(map(tuple, found.get("cols") or ())),
        tuple(map(tuple, found.get("rows") or ())),
        bool(found["ok"] and found.get("esql")) and (found["file"], found["n"]) not in STALE,
        found.get("err", ""),
    )


# -- Types and values


@cache
def arrow_type(text: str) -> pa.DataType:
    """The Arrow type of a type as Spark writes it."""
    kind, rest = _type(text)
    if rest.strip():
        raise ValueError(f"{text!r} ends with {rest!r}")
    return kind


def _type(text: str) -> tuple[pa.DataType, str]:
    match = _TYPE.match(text)
    if match is None:
        raise ValueError(f"no type: {text!r}")
    name, rest = match[1].strip(), text[match.end() :]
    if name == "decimal":
        size, _, rest = rest[1:].partition(")")
        precision, scale = size.split(",")
        return pa.decimal128(int(precision), int(scale)), rest
    if name.startswith("interval"):
        return pa.duration("us"), rest
    if name == "array":
        element, rest = _type(rest[1:])
        return pa.list_(element), rest[1:]
    if name == "map":
        key, rest = _type(rest[1:])
        item, rest = _type(rest[1:])
        return pa.map_(key, item), rest[1:]
    if name == "struct":
        fields, rest = [], rest[1:]
        while not rest.startswith(">"):
            field, rest = rest.lstrip(",").split(":", 1)
            kind, rest = _type(rest)
            fields.append((field, kind))
        return pa.struct(fields), rest[1:]
    return PLAIN[name], rest


def value_of(value: Any, kind: pa.DataType) -> Any:
    """A value as Arrow takes it for a type."""
    if value is None:
        return None
    if isinstance(value, dict):
        ((mark, inner),) = value.items()
        return _READ[mark](inner, kind)
    if isinstance(value, list):
        return [value_of(each, kind.value_type) for each in value]
    if pa.types.is_date(kind):
        return date.fromisoformat(value)
    if pa.types.is_timestamp(kind):
        return datetime.fromisoformat(value).replace(tzinfo=kind.tz and UTC)
    return value


def _duration(text: str) -> timedelta:
    match = _DELTA.fullmatch(text)
    assert match is not None, text
    days, hours, minutes, seconds, fraction = match.groups()
    return timedelta(
        int(days or 0), int(seconds), int((fraction or "").ljust(6, "0")), 0, int(minutes), int(hours)
    )


_READ: Mapping[str, Callable[[Any, pa.DataType], Any]] = {
    "dec": lambda inner, _: Decimal(inner),
    "hex": lambda inner, _: bytes.fromhex(inner),
    "f": lambda inner, _: float(inner),
    "other": lambda inner, _: _duration(inner),
    "map": lambda inner, kind: [
        (value_of(key, kind.key_type), value_of(item, kind.item_type)) for key, item in inner
    ],
    "struct": lambda inner, kind: {name: value_of(part, kind.field(name).type) for name, part in inner},
}
"""By the mark of a value what reads it."""
