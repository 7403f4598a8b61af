"""ALERT: `ALERT name WHEN condition FOR n INTERVALS [RESOLVE AFTER n INTERVALS] [ON PARTIAL EVALUATE]`.

The condition reads the columns of the result; `control.jobs.alerts` evaluates it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot.tokenizer_core import Token, TokenType

from elfmesh import ids
from elfmesh.errors import QueryError
from elfmesh.ql.expressions.alert_clause import AlertClause
from elfmesh.ql.expressions.text_source import SourceText
from elfmesh.ql.plan.directions import Direction
from elfmesh.ql.plan.early import columns_by_direction
from elfmesh.ql.plan.statement import Statement

ALERT = "ALERT"
ALERTS_MAX = 16
"""Maximum number of alerts of a job; each is evaluated over every record."""

INTERVALS_MAX = 60
"""Maximum number after FOR and RESOLVE AFTER; the state is a function of a few times as many records."""

_SHAPE = "Write ALERT name WHEN errors > 100 FOR 3 INTERVALS."


def read_alert(source: SourceText, tokens: Sequence[Token], at: int) -> tuple[AlertClause, int]:
    """Read the clause behind its first word at a place; returns it and the place behind it.

    Raises:
        QueryError: it is not such a clause.
    """

    def word(place: int) -> str:
        return tokens[place].text.upper() if place < len(tokens) else ""

    def error(message: str, place: int) -> QueryError:
        offset = tokens[place].start if place < len(tokens) else tokens[-1].end + 1
        return source.error(message, offset, _SHAPE)

    def intervals(place: int, what: str) -> int:
        number = word(place)
        if not number.isdigit() or not 1 <= int(number) <= INTERVALS_MAX:
            raise error(f"{what} takes a number of intervals from 1 to {INTERVALS_MAX}", place)
        if word(place + 1) not in ("INTERVALS", "INTERVAL"):
            raise error(f"expected INTERVALS after {what} {number}", place + 1)
        return int(number)

    name = tokens[at + 1].text if at + 1 < len(tokens) else ""
    if not ids.JOB_NAME.fullmatch(name):
        raise error(f"`{name}` is not the name of an alert", at + 1)
    if word(at + 2) != "WHEN":
        raise error("expected WHEN after the name of the alert", at + 2)
    begin, depth = at + 3, 0
    end = begin
    while end < len(tokens) and depth >= 0 and not (not depth and tokens[end].token_type == TokenType.FOR):
        depth += {TokenType.L_PAREN: 1, TokenType.R_PAREN: -1}.get(tokens[end].token_type, 0)
        end += 1
    if begin == end or end == len(tokens) or depth < 0:
        raise error("ALERT needs a condition and FOR", end)
    lasting = intervals(end + 1, "FOR")
    resolve, partial, at = lasting, False, end + 3
    if (word(at), word(at + 1)) == ("RESOLVE", "AFTER"):
        resolve, at = intervals(at + 2, "RESOLVE AFTER"), at + 4
    if (word(at), word(at + 1), word(at + 2)) == ("ON", "PARTIAL", "EVALUATE"):
        partial, at = True, at + 3
    start = tokens[begin].start
    condition = source.text[start : tokens[end - 1].end + 1]
    return AlertClause(name, condition, lasting, resolve, partial, _compared(tokens[begin:end]), start), at


def check_alerts(
    origin: SourceText,
    alerts: Sequence[AlertClause],
    columns: Sequence[str],
    read: Callable[[str], Statement],
) -> None:
    """Raise QueryError for a condition that is none, or that reads no column of the result.

    `read` parses a query.
    """
    for alert in alerts:
        try:
            fields = read(alert.query(columns[:1])).fields
        except QueryError as error:
            raise origin.error(
                f"the condition of {alert.name}: {error.message}", alert.at, error.hint
            ) from None
        unknown = [name for name in fields if name.partition(".")[0] not in columns]
        if unknown:
            hint = f"The columns are {', '.join(columns)}."
            raise origin.error(f"{alert.name} reads {unknown[0]}, no column of the result", alert.at, hint)


def can_only_rise(statement: Statement, alert: AlertClause) -> bool:
    """Return whether further records of an interval cannot make a true condition false."""
    if alert.compared is None or statement.relation is not None or statement.spans_intervals:
        return False
    directions = columns_by_direction(statement)
    return all(directions.get(name) is Direction.RISING for name in alert.compared)


def _compared(tokens: Sequence[Token]) -> tuple[str, ...] | None:
    """Return the columns of `a > 1 AND b >= 2`; None if the condition has another form."""
    found = []
    for at in range(0, len(tokens), 4):
        name, compared, number = (*tokens[at : at + 3], None, None, None)[:3]
        if name is None or compared is None or number is None or name.token_type != TokenType.VAR:
            return None
        is_greater = compared.token_type in (TokenType.GT, TokenType.GTE)
        behind = tokens[at + 3].token_type if at + 3 < len(tokens) else TokenType.AND
        if not is_greater or number.token_type != TokenType.NUMBER or behind != TokenType.AND:
            return None
        found.append(name.text)
    return tuple(found)
