"""Which logs each stream of a query means."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from elfmesh.errors import ConfigError, ElfError, QueryError, UsageError
from elfmesh.ingest.parsers import StreamFormat
from elfmesh.local.named_logs import Logs, declared_columns, logs_of, read_lookups, read_streams
from elfmesh.ql import parse

ONE = parse("SELECT a FROM clicks")
TWO = parse("SELECT c.a FROM clicks c JOIN orders o ON c.a = o.a")


def paths_of(given: Sequence[str]) -> list[str]:
    return list(given)


def some(*options: str) -> dict[str, Logs]:
    return read_streams(options, paths_of)


GIVEN: Logs = (["given.log"], some("x=x.log")["x"][1])


def test_the_one_stream_means_what_is_given_whatever_it_is_called() -> None:
    assert logs_of(ONE, [], {}, GIVEN) == {"clicks": GIVEN}
    assert logs_of(TWO, ["orders"], {}, GIVEN) == {"clicks": GIVEN}
    assert logs_of(TWO, ["orders", "clicks"], {}, GIVEN) == {}


def test_some_formats_declare_their_columns() -> None:
    named = some("a=a.log,format=regex:(?P<level>\\w+) (?P<text>.*)", "c=c.log,format=json", "d=d.log")
    declared = declared_columns(named)
    assert [*declared] == ["a"]
    assert {"level", "text", "ts", "_raw"} <= {*declared["a"]}


def test_streams_that_are_named_mean_their_own_logs() -> None:
    named = some("clicks=c.log,format=json", "orders=o.log", "more=m.log")
    assert logs_of(TWO, [], named, GIVEN) == {name: named[name] for name in ("clicks", "orders")}
    assert named["clicks"][0] == ["c.log"]
    assert all(isinstance(form, StreamFormat) for _, form in named.values())


@pytest.mark.parametrize(
    ("options", "message", "hint"),
    [
        ((), "the query reads several streams: clicks, orders", "--stream clicks=PATH[,format=FORMAT]"),
        (("clicks=c", "order=o"), "no stream is named orders, which the query reads", "order"),
        (("clicks=c", "z=z"), "no stream is named orders, which the query reads", "There are clicks, z."),
    ],
)
def test_a_stream_that_is_read_and_not_named_is_refused(
    options: Sequence[str], message: str, hint: str
) -> None:
    with pytest.raises(UsageError) as refused:
        logs_of(TWO, [], some(*options), GIVEN)
    assert message in refused.value.message
    assert hint in str(refused.value.hint)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        (("a=x", "a=y"), UsageError, "--stream: a is given twice"),
        (("a=udp://127.0.0.1:5514",), ConfigError, "a is not a file"),
        (("a=x,read_from=middle",), ConfigError, "Invalid enum value 'middle'"),
        (("a",), UsageError, "'a' is not NAME=PATH"),
    ],
)
def test_settings_that_make_no_sense_are_refused(
    options: Sequence[str], error: type[ElfError], message: str
) -> None:
    with pytest.raises(error) as refused:
        some(*options)
    assert message in str(refused.value)


def test_lookups_are_tables_by_their_names() -> None:
    assert sorted(read_lookups(["a=a.csv", "b=b.csv,format=json"]).names) == ["a", "b"]
    with pytest.raises(UsageError, match="--lookup: a is given twice"):
        read_lookups(["a=a.csv", "a=b.csv"])


def test_logs_of_a_query_without_from_are_refused() -> None:
    none = parse("SELECT count(*) AS n")
    with pytest.raises(QueryError, match="does not say FROM which stream it reads") as refused:
        logs_of(none, [], {}, GIVEN)
    assert (refused.value.line, refused.value.column) == (1, 1)
    assert "takes no LOG" in str(refused.value.hint)
    assert logs_of(none, [], {}, ([], GIVEN[1])) == {}
    assert logs_of(none, [], some("x=x.log"), GIVEN) == {}, "other statements of a file may read it"
