"""Entry of the parser: text to statements.

    text -> tokens (sqlglot's Spark tokenizer) -> ELF-QL's clauses removed (clauses) -> sqlglot's Spark parser
         -> drafts (drafts, translate) -> parts and relations (lowering, analysis) -> Statement

No class of sqlglot is subclassed. Its errors are translated to one line with the position in the text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType

import sqlglot
from msgspec.structs import replace
from sqlglot import exp
from sqlglot.errors import ParseError, TokenError
from sqlglot.tokenizer_core import Token, TokenType

from elfmesh.errors import QueryError
from elfmesh.ql.expressions.nodes import Star, WindowCall
from elfmesh.ql.expressions.refusals import FOREIGN_STATEMENTS
from elfmesh.ql.expressions.text_source import SourceText
from elfmesh.ql.lowering.alerts import check_alerts
from elfmesh.ql.lowering.analysis import analyse
from elfmesh.ql.lowering.assembling import relational
from elfmesh.ql.lowering.assumptions import with_assumptions
from elfmesh.ql.lowering.bands import check_within
from elfmesh.ql.lowering.lowering import is_part
from elfmesh.ql.lowering.planning import Planner
from elfmesh.ql.lowering.resampling import looked_back
from elfmesh.ql.lowering.standby import check_standby
from elfmesh.ql.plan.declared import masked
from elfmesh.ql.plan.draft_types import Draft, SelectDraft, StreamRead
from elfmesh.ql.plan.early import check_early
from elfmesh.ql.plan.inline import check_uses
from elfmesh.ql.plan.scope import NO_FROM
from elfmesh.ql.plan.statement import (
    ONE_INTERVAL_US,
    ROWS,
    Statement,
    WindowSpec,
    job_read,
)
from elfmesh.ql.plan.waiting import Listed, streams_read, waiting
from elfmesh.ql.plan.windowing import Times, window_of
from elfmesh.ql.plan.windows import TIME_COLUMN
from elfmesh.ql.text.clause_order import check_order
from elfmesh.ql.text.clauses.cutter import Cut, cut_clauses
from elfmesh.ql.text.drafts import Drafter
from elfmesh.ql.text.literals import place_keywords
from elfmesh.ql.text.parsing_errors import translated, unreadable
from elfmesh.ql.text.precedence import regrouped
from elfmesh.ql.text.tokens import refuse_deep
from elfmesh.units import format_duration

TEXT_CHARS_MAX = 256 << 10
"""Maximum number of characters of a text. Longer texts are not written by people, and the parser is
recursive."""

PARSED_MAX = 64
"""Statements in the cache, because an agent parses the text of a new job about six times."""

NUMBER_CHARS_MAX = 1_000
"""Maximum number of digits of a number. Python refuses much longer ones, and no type can hold them."""

_DIALECT = "spark"

DEPTH_MAX = 200
"""Maximum depth of expressions. Later steps are recursive and run on agents with a deeper stack than here. A
text that one agent accepts must be readable for all."""


JOINS_MAX = 8
"""Maximum number of joins in a row without a condition between them."""


def parse(text: str, *, source: str = "query", declared: Listed = MappingProxyType({})) -> Statement:
    """Parse exactly one statement, SELECT or CREATE JOB. Results are cached by text. Cost: 1 to 2 ms.

    `declared` has the columns that the formats of streams declare, by stream. A name that several inputs
    might have is then a column of the only one that declares it.

    Raises:
        QueryError: The text is invalid. The error has line and column, and a hint if there is one.
    """
    return _parse(text, source, tuple(declared.items()))


@lru_cache(maxsize=PARSED_MAX)  # lru_cache distinguishes spellings of a call, so this function has only one
def _parse(text: str, source: str, declared: tuple[tuple[str, tuple[str, ...]], ...]) -> Statement:
    origin = SourceText(text, source)
    groups = list(_split(origin))
    if len(groups) > 1:
        raise origin.error(
            "there is a second statement here", groups[1][0].start, "Give one statement at a time."
        )
    return _statement(origin, groups[0], None, dict(declared))


def parse_many(
    text: str, *, source: str = "query", declared: Listed = MappingProxyType({})
) -> list[Statement]:
    """Parse statements separated by semicolons; positions count from the start of the text.

    `declared` is as in `parse`. Raises QueryError.
    """
    origin = SourceText(text, source)
    return [_statement(origin, tokens, None, declared) for tokens in _split(origin)]


def parse_each(
    text: str, *, source: str = "query", declared: Listed = MappingProxyType({})
) -> Iterator[Statement | QueryError]:
    """As `parse_many`, but yield an error in place of an invalid statement and continue with the next one."""
    origin = SourceText(text, source)
    for tokens in list(_split(origin)):
        try:
            yield _statement(origin, tokens, None, declared)
        except QueryError as error:
            yield error


def within(text: str, clause: str) -> str:
    """Return the text of a query with HISTORY and UNTIL written behind its first input.

    Raises:
        QueryError: the text is invalid, or it has no FROM.
    """
    origin = SourceText(text, "query")
    tokens = next(_split(origin))
    end = cut_clauses(origin, tokens).source_end
    if not end:
        raise origin.error(NO_FROM, tokens[0].start, "Add FROM stream.")
    return f"{text[:end]} {clause}{text[end:]}"


def expand(statement: Statement, columns: Sequence[str], stream: str | None = None) -> Statement:
    """Replace the `*` of a stream by the named columns. Returns the same object if there is no `*`.

    Raises:
        QueryError: A column of `*` has the name of another output column; or another fault that can be found
            only when the columns of all streams are known.
    """
    if not statement.star:
        return statement
    known: Sequence[str] | Listed = columns
    if statement.parts:
        if stream is None and len(statement.streams) > 1:
            message = "* beside several streams needs the columns of each of them"
            raise statement.origin.error(message, statement.offset, "Name the fields after SELECT.")
        known = {**dict(statement.listed), stream or statement.streams[0]: tuple(columns)}
    return _again(statement, known, dict(statement.declared))


def declare(statement: Statement, columns: Listed) -> Statement:
    """Apply the columns that formats of streams declare. Returns the same object if they change nothing.

    An unqualified name in a subquery that is not a column of its streams then refers to the outer query.
    """
    if not columns or not (statement.bare or (statement.star and statement.parts)):
        return statement
    return _again(statement, dict(statement.listed) or None, columns)


def _again(statement: Statement, columns: Sequence[str] | Listed | None, declared: Listed) -> Statement:
    for tokens in _split(statement.origin):
        if tokens[0].start == statement.offset:
            return _statement(statement.origin, tokens, columns, declared)
    raise AssertionError("a statement begins at its own offset")


def _split(origin: SourceText) -> Iterator[list[Token]]:
    if len(origin.text) > TEXT_CHARS_MAX:
        raise origin.error(
            f"the text is longer than {TEXT_CHARS_MAX} characters", 0, "Split it into several files."
        )
    refuse_deep(origin)
    try:
        tokens = sqlglot.Dialect.get_or_raise(_DIALECT).tokenize(masked(origin.text))
    except TokenError:
        raise unreadable(origin) from None
    group: list[Token] = []
    empty = True
    for token in tokens:
        if token.token_type == TokenType.NUMBER and len(token.text) > NUMBER_CHARS_MAX:
            message = f"this number has {len(token.text)} characters; a number has at most {NUMBER_CHARS_MAX}"
            raise origin.error(message, token.start, "Write a shorter one, or a double: 1e30.")
        if token.token_type != TokenType.SEMICOLON:
            group.append(token)
        elif group:
            yield group
            group, empty = [], False
    if group:
        yield group
    elif empty:
        raise origin.error("there is no query in the text", 0, "Write SELECT ... FROM stream.")


def _statement(
    origin: SourceText,
    tokens: list[Token],
    columns: Sequence[str] | Listed | None,
    declared: Listed = MappingProxyType({}),
) -> Statement:
    cut = cut_clauses(origin, tokens)
    tree = _parse_sql(origin, cut.tokens)
    start = origin.place(cut.tokens[0].start)
    listed = columns if isinstance(columns, Mapping) else {}
    drafter = Drafter(
        origin,
        cut.labels,
        cut.beside,
        start,
        functions=cut.functions,
        within=cut.within,
        resamples=cut.resamples,
        listed=listed,
        declared=declared,
    )
    try:
        draft: Draft | None = drafter.draft(tree)
    except QueryError as error:
        unlisted = cut.job is not None and error is drafter.unlisted
        if not drafter.stars or unlisted or streams_read(tree) <= {*listed}:
            raise
        draft = None  # names may be columns of `*`
    if draft is None or (drafter.stars and not is_part(draft)):
        if cut.job is not None:
            raise origin.error("a job cannot SELECT *", drafter.stars[0], "Name the fields it returns.")
        done = waiting(origin, tree, cut.labels, listed, drafter.stars[0])
        text = origin.text[tokens[0].start : tokens[-1].end + 1]
        return replace(
            done, text=text, offset=tokens[0].start, functions=tuple(cut.functions.values()),
            declared=tuple(declared.items()),
        )  # fmt: skip
    star_columns = None if columns is None or isinstance(columns, Mapping) else columns
    times: Times = {}
    drafts = [draft, *(each for _, each in drafter.scalars)]
    window = looked_back(origin, drafts, window_of(origin, drafts, _every(cut), times), times)
    check_within(origin, drafts, window)
    if window is not None and window.spans_intervals:
        _check_spans(origin, cut, draft, window)
    if is_part(draft) and (window is None or window.kind != ROWS):
        done = _one_part(origin, cut, draft, star_columns)
    else:
        done = relational(origin, draft, drafter.scalars, Planner(origin, window, times))
    done = with_assumptions(origin, done, cut.assumes)
    if cut.job is not None:
        _check_job(origin, cut, draft, done)
    return replace(
        done, text=origin.text[tokens[0].start : tokens[-1].end + 1], job=cut.job, offset=tokens[0].start,
        functions=tuple(cut.functions.values()), declared=tuple(declared.items()),
        bare=tuple(dict.fromkeys(replace(each, unclear=each.at in drafter.unclear) for each in drafter.bare)),
    )  # fmt: skip


def _check_spans(origin: SourceText, cut: Cut, draft: Draft, window: WindowSpec) -> None:
    """Raise QueryError for a query that cannot have windows that span intervals."""
    if not is_part(draft):
        raise origin.error(
            f"{window.kind.upper()} is for a query over one stream alone", draft.at,
            "Leave joins, subqueries, UNION, OVER and ROLLUP out, or write TUMBLE(ts, '30 s').",
        )  # fmt: skip
    if window.kind == ROWS and cut.job is not None and _every(cut) is None:
        call = next(each for each in draft.select.group or [] if isinstance(each, WindowCall))
        hint = "Write CREATE JOB namespace.name EVERY '1 s' AS before SELECT."
        raise origin.error("ROWS needs EVERY, which publishes the windows that are full", call.at, hint)


def _every(cut: Cut) -> WindowSpec | None:
    every_us = None if cut.job is None else cut.job.every_us
    if every_us is None and cut.job is not None and cut.job.until_us is not None:
        every_us = ONE_INTERVAL_US
    return None if every_us is None else WindowSpec("tumble", TIME_COLUMN, every_us, every_us)


def _one_part(
    origin: SourceText, cut: Cut, draft: SelectDraft, star_columns: Sequence[str] | None
) -> Statement:
    (read,) = draft.reads
    assert isinstance(read, StreamRead)
    done = analyse(origin, replace(draft.select, window=_every(cut)), star_columns)
    return Statement(
        "", origin.name, None, read.stream, read.labels, done.window, done.fields, done.tables, done.star,
        done.plan, origin,
    )  # fmt: skip


def _check_job(origin: SourceText, cut: Cut, draft: Draft, done: Statement) -> None:
    if done.window is None:
        hint = "Add EVERY '30 s' after the job's name, or GROUP BY TUMBLE(ts, INTERVAL '30' SECOND)."
        raise origin.error("a job needs an interval, and this one has none", cut.job_at, hint)
    if done.star:
        assert isinstance(draft, SelectDraft)
        select = draft.select
        at = next((expr.at for _, expr in select.items if isinstance(expr, Star)), select.start)
        raise origin.error("a job cannot SELECT *", at, "Name the fields it returns.")
    if cut.job is not None and cut.job.partials and (done.relation is not None or done.spans_intervals):
        raise origin.error(
            "KEEP PARTIALS is for a SELECT over one stream, in windows of a fixed size", cut.job_at,
            "Leave joins, subqueries, UNION, OVER, ROLLUP, SESSION, SEALED, ROWS and WITHIN out.",
        )  # fmt: skip
    _check_tables(origin, cut, done)
    if cut.job is not None and cut.job.early_us is not None:
        check_early(replace(done, job=cut.job), cut.tokens, cut.early_at)
    if cut.job is not None and cut.job.standby_us is not None:
        check_standby(origin, done, cut.standby_at)
    _check_range(origin, cut, done)
    check_alerts(origin, () if cut.job is None else cut.job.alerts, done.columns, parse)
    every = _every(cut) if cut.job is not None and cut.job.every_us is not None else None
    if every is not None and every.slide_us != done.window.slide_us:
        raise origin.error(
            f"EVERY {format_duration(every.slide_us)} differs from the window, which closes every "
            f"{format_duration(done.window.slide_us)}",
            cut.every_at,
            "Leave EVERY out, or make it equal to the window's slide.",
        )


def _check_range(origin: SourceText, cut: Cut, done: Statement) -> None:
    """Raise QueryError for HISTORY or UNTIL on a job that they cannot be used with."""
    job, window = cut.job, done.window
    if job is None or window is None or (job.history_us is None and job.until_us is None):
        return
    if window.spans_intervals:
        hint = "Write TUMBLE or HOP."
        text = f"a group of {window.kind.upper()} may lie on both sides of the beginning or the end"
        raise origin.error(f"HISTORY and UNTIL are for windows of a fixed size: {text}", cut.history_at, hint)
    if window.size_us == ONE_INTERVAL_US and any(job_read(name) for name in done.streams):
        hint = "Write EVERY '1 min' after the job's name."
        raise origin.error("a job that reads results needs an interval", cut.history_at, hint)


def _check_tables(origin: SourceText, cut: Cut, done: Statement) -> None:
    """Raise QueryError for a table of the text that the query cannot join."""
    tables = {each.name: each for each in cut.job.tables} if cut.job is not None else {}
    for join in done.joined:
        if join.name in tables:
            problem = check_uses(tables[join.name], join.columns, [column for _, column in join.keys])
            if problem:
                raise origin.error(problem, cut.job_at)


# -- sqlglot's parser


def _check_joins(origin: SourceText, tokens: list[Token]) -> None:
    """Refuse many joins with later conditions, because sqlglot tries each nested and not nested: 2^n ways."""
    waiting = 0
    for token in tokens:
        if token.token_type in (TokenType.ON, TokenType.USING):
            waiting = 0
        elif token.token_type == TokenType.JOIN:
            waiting += 1
            if waiting > JOINS_MAX:
                hint = "Write each condition directly after its join: a JOIN b ON ... JOIN c ON ..."
                raise origin.error(f"more than {JOINS_MAX} joins follow without ON", token.start, hint)


def _parse_sql(origin: SourceText, tokens: list[Token]) -> exp.Query:
    _check_joins(origin, tokens)
    check_order(origin, tokens)
    try:
        trees = sqlglot.Dialect.get_or_raise(_DIALECT).parser().parse(tokens, origin.text)
    except ParseError as error:
        raise translated(origin, error, tokens) from None
    except RecursionError:
        raise origin.error("the query is nested too deeply", tokens[0].start, "Reduce the nesting.") from None
    tree = trees[0] if len(trees) == 1 else None
    if isinstance(tree, exp.Insert):
        at = next(token.start for token in tokens if token.token_type == TokenType.INSERT)
        raise origin.error("ELF-QL has no statement INSERT", at, FOREIGN_STATEMENTS["INSERT"])
    if tree is None or not isinstance(tree, exp.Query):
        raise origin.error("this is not a SELECT", tokens[0].start, "Write SELECT ... FROM stream.")
    place_keywords(tree, tokens)
    if _depth(tree) > DEPTH_MAX:
        hint = "Reduce the nesting: `x IN (1, 2, ...)` for many comparisons, another SELECT for a long sum."
        raise origin.error(f"the query is nested more than {DEPTH_MAX} deep", tokens[0].start, hint)
    return regrouped(origin, tree)


def _depth(tree: exp.Query) -> int:
    deepest, rest = 0, [(tree, 1)]
    while rest:
        node, depth = rest.pop()
        deepest = max(deepest, depth)
        rest += [(inner, depth + 1) for inner in node.iter_expressions()]
    return deepest
