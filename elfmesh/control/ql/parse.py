"""From text to statements: the only entry into the language.

    text -> tokens (sqlglot's Spark tokenizer) -> our own words cut out (clauses) -> sqlglot's Spark parser
         -> our nodes (translate) -> plan (analysis) -> Statement

Nothing of sqlglot is subclassed. Its errors are translated into ours: one line, with the place in the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError, TokenError
from sqlglot.tokenizer_core import Token, TokenType

from elfmesh.control.ql.analysis import Select, analyse
from elfmesh.control.ql.clauses import Cut, Cutter
from elfmesh.control.ql.nodes import Expr, Literal, Star
from elfmesh.control.ql.statement import OrderItem, Statement
from elfmesh.control.ql.text_source import NOWHERE, Place, SourceText
from elfmesh.control.ql.translate import Translator
from elfmesh.errors import QueryError
from elfmesh.units import format_duration

TEXT_CHARS_MAX = 256 << 10
"""A query text: far longer ones are not written by people, and parsing recurses."""

_DIALECT = "spark"
_CLAUSES = {"expressions", "from_", "from", "where", "group", "having", "order", "limit", "distinct"}


def parse(text: str, *, source: str = "query") -> Statement:
    """Parse exactly one statement.

    Args:
        text: a SELECT, or CREATE JOB ... AS SELECT; a closing semicolon is fine.
        source: what the text was read from, for error messages.

    Raises:
        QueryError: with line, column and, where there is one, a hint.
    """
    origin = SourceText(text, source)
    groups = list(_split(origin))
    if len(groups) > 1:
        raise origin.error(
            "there is a second statement here", groups[1][0].start, "Give one statement at a time."
        )
    return _statement(origin, groups[0], None)


def parse_many(text: str, *, source: str = "query") -> list[Statement]:
    """Parse a file of statements separated by semicolons.

    Raises:
        QueryError: as `parse`; places count from the start of the whole text.
    """
    origin = SourceText(text, source)
    return [_statement(origin, tokens, None) for tokens in _split(origin)]


def expand(statement: Statement, columns: Sequence[str]) -> Statement:
    """The statement with `*` replaced by the named columns; unchanged if it has no `*`.

    Raises:
        QueryError: a column of `*` has the name of another output column.
    """
    if not statement.star:
        return statement
    for tokens in _split(statement.origin):
        if tokens[0].start == statement.offset:
            return _statement(statement.origin, tokens, columns)
    raise AssertionError("a statement begins at its own offset")


def _split(origin: SourceText) -> Iterator[list[Token]]:
    if len(origin.text) > TEXT_CHARS_MAX:
        raise origin.error(
            f"the text is longer than {TEXT_CHARS_MAX} characters", 0, "Split it into several files."
        )
    try:
        tokens = sqlglot.Dialect.get_or_raise(_DIALECT).tokenize(origin.text)
    except TokenError:
        raise _unreadable(origin) from None
    group: list[Token] = []
    empty = True
    for token in tokens:
        if token.token_type != TokenType.SEMICOLON:
            group.append(token)
        elif group:
            yield group
            group, empty = [], False
    if group:
        yield group
    elif empty:
        raise origin.error("there is no query in the text", 0, "Write SELECT ... FROM stream.")


def _statement(origin: SourceText, tokens: list[Token], star_columns: Sequence[str] | None) -> Statement:
    cut = Cutter(origin, tokens).cut()
    tree = _parse_sql(origin, cut.tokens)
    start = origin.place(cut.tokens[0].start)
    translator = Translator(origin, cut.stream, cut.alias, start)
    select = _select(tree, translator, cut, start)
    done = analyse(origin, select, star_columns)
    if cut.job is not None:
        _check_job(origin, cut, select, done.window is not None, done.star)
        if done.window is not None and select.every_us not in (None, done.window.slide_us):
            raise origin.error(
                f"EVERY {format_duration(select.every_us or 0)} differs from the window, which closes every "
                f"{format_duration(done.window.slide_us)}",
                cut.every_at,
                "Leave EVERY out, or make it equal to the window's slide.",
            )
    return Statement(
        origin.text[tokens[0].start : tokens[-1].end + 1], origin.name, cut.job, cut.stream, cut.labels,
        done.window, done.fields, done.tables, done.star, done.plan, origin, tokens[0].start,
    )  # fmt: skip


def _check_job(origin: SourceText, cut: Cut, select: Select, windowed: bool, star: bool) -> None:
    if not windowed:
        raise origin.error(
            "a job answers every interval, and this one names no interval",
            cut.job_at,
            "Add EVERY '30 s' after the job's name, or GROUP BY TUMBLE(ts, INTERVAL '30' SECOND).",
        )
    if star:
        at = next((expr.at for _, expr in select.items if isinstance(expr, Star)), select.start)
        raise origin.error("a job cannot SELECT *", at, "Name the fields it returns.")


# -- sqlglot's tree


def _parse_sql(origin: SourceText, tokens: list[Token]) -> exp.Select:
    last = tokens[-1]
    try:
        trees = sqlglot.Dialect.get_or_raise(_DIALECT).parser().parse(tokens, origin.text)
    except ParseError as error:
        raise _translated(origin, error, last) from None
    except RecursionError:
        raise origin.error("the query is nested too deeply", tokens[0].start, "Write it flatter.") from None
    tree = trees[0] if len(trees) == 1 else None
    if not isinstance(tree, exp.Select):
        raise origin.error("this is not a SELECT", tokens[0].start, "Write SELECT ... FROM stream.")
    return tree


def _select(tree: exp.Select, translator: Translator, cut: Cut, start: Place) -> Select:
    for name, given in tree.args.items():
        if given and name not in _CLAUSES:
            raise translator.error(
                given if isinstance(given, exp.Expr) else tree, f"{name.upper()} is not there"
            )
    table = (tree.args.get("from_") or tree.args["from"]).this
    if not isinstance(table, exp.Table) or any(
        given and name not in ("this", "alias") for name, given in table.args.items()
    ):
        raise translator.error(
            table, "FROM takes the name of a stream", "Write FROM stream alias ON (k = 'v')."
        )
    distinct = tree.args.get("distinct")
    if distinct is not None and distinct.args.get("on"):
        raise translator.error(distinct, "DISTINCT ON is not there", "Use GROUP BY with min or max.")
    if not tree.expressions:
        raise translator.error(None, "the query selects nothing", "Name columns after SELECT.")
    items: list[tuple[str | None, Expr]] = []
    for node in tree.expressions:
        if isinstance(node, exp.Alias):
            items.append((node.alias, translator.expr(node.this)))
        else:
            items.append((None, translator.expr(node)))
    where, having = tree.args.get("where"), tree.args.get("having")
    return Select(
        items, None if where is None else translator.expr(where.this), _group(tree, translator),
        None if having is None else translator.expr(having.this), _order(tree, translator),
        _limit(tree, translator), distinct is not None, None if cut.job is None else cut.job.every_us, start,
    )  # fmt: skip


def _group(tree: exp.Select, translator: Translator) -> list[Expr] | None:
    group = tree.args.get("group")
    if group is None:
        return None
    if any(given for name, given in group.args.items() if name != "expressions"):
        raise translator.error(group, "this form of GROUP BY is not there yet", "Write GROUP BY a, b.")
    return [translator.expr(node) for node in group.expressions]


def _order(tree: exp.Select, translator: Translator) -> list[OrderItem]:
    order = tree.args.get("order")
    items = []
    for node in order.expressions if order is not None else ():
        if not isinstance(node, exp.Ordered) or node.args.get("with_fill"):
            raise translator.error(
                node, "this form of ORDER BY is not there", "Write ORDER BY a DESC NULLS LAST."
            )
        expr = translator.expr(node.this)
        items.append(OrderItem(expr, bool(node.args.get("desc")), bool(node.args.get("nulls_first"))))
    return items


def _limit(tree: exp.Select, translator: Translator) -> int | None:
    limit = tree.args.get("limit")
    if limit is None:
        return None
    plain = isinstance(limit, exp.Limit) and not any(
        given for name, given in limit.args.items() if name != "expression"
    )
    count = translator.expr(limit.expression) if plain and limit.expression else None
    if (
        not isinstance(count, Literal)
        or count.kind != "bigint"
        or not isinstance(count.value, int)
        or count.value < 0
    ):
        raise translator.error(limit, "LIMIT takes a whole number", "Write LIMIT 10.")
    return count.value


# -- errors


def _translated(origin: SourceText, error: ParseError, last: Token) -> QueryError:
    """Sqlglot's error in our words: its own text speaks of tokens and classes."""
    found: dict[str, Any] = error.errors[0] if error.errors else {}
    highlight = str(found.get("highlight") or "")
    line, end = int(found.get("line") or 0), int(found.get("col") or 0)
    place = Place(line, max(1, end - len(highlight) + 1)) if line else NOWHERE
    word = highlight.removeprefix("elf_")
    description = str(found.get("description") or "")
    missing = re.match(r"Expecting (\S+)", description)
    at_end = origin.place(last.start) == place
    if missing:
        return origin.error(f"`{missing[1]}` is missing before `{word}`", place, f"Add {missing[1]}.")
    if description.startswith(("Required keyword", "Expected table")):
        return origin.error(
            f"something is missing after `{word}`", place, "The text ends too early." if at_end else ""
        )
    return origin.error(
        f"the query cannot be read at `{word}`",
        place,
        "Is a comma, an operator or a bracket missing before it?",
    )


_OPENING = re.compile(
    r"--[^\n]*|/\*.*?\*/|'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\"|`[^`]*`|(['\"`]|/\*)", re.DOTALL
)


def _unreadable(origin: SourceText) -> QueryError:
    """The tokenizer gives no place: find the quote or comment that is never closed."""
    for match in _OPENING.finditer(origin.text):
        if match[1]:
            what = "comment" if match[1] == "/*" else "quote"
            return origin.error(
                f"this {what} is never closed",
                match.start(1),
                f"Close it with {'*/' if what == 'comment' else match[1]}.",
            )
    return origin.error("the text cannot be split into words", 0, "Look for a stray quote or backslash.")
