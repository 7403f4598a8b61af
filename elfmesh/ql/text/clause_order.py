"""Check of the order of clauses, because sqlglot's parser accepts a wrong one: `LIMIT 3 WHERE ...`.

The words `offset`, `limit` and `window` are also names of fields. They count as clauses only if the following
tokens fit the clause.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot.tokenizer_core import Token, TokenType

from elfmesh.ql.expressions.text_source import SourceText

ORDER = "SELECT, FROM, JOIN, WHERE, GROUP BY, HAVING, QUALIFY, RESAMPLE, ORDER BY, LIMIT, OFFSET"
HINT = f"The order is {ORDER}, each at most once."

_RANKS: Mapping[TokenType, int] = {
    TokenType.JOIN: 1, TokenType.LATERAL: 1, TokenType.WHERE: 2, TokenType.GROUP_BY: 3, TokenType.HAVING: 4,
    TokenType.WINDOW: 5, TokenType.QUALIFY: 6, TokenType.ORDER_BY: 7, TokenType.SORT_BY: 7,
    TokenType.CLUSTER_BY: 7, TokenType.DISTRIBUTE_BY: 7, TokenType.LIMIT: 8, TokenType.OFFSET: 9,
}  # fmt: skip
_WHERE, _HAVING, _WINDOW, _ORDER_BY, _LIMIT = 2, 4, 5, 7, 8
_REPEATED = {TokenType.JOIN, TokenType.LATERAL, TokenType.SORT_BY, TokenType.DISTRIBUTE_BY}
_SETS = {TokenType.UNION, TokenType.EXCEPT, TokenType.INTERSECT}
_OPENING, _CLOSING = {TokenType.L_PAREN, TokenType.L_BRACKET}, {TokenType.R_PAREN, TokenType.R_BRACKET}
_NOTHING = (0, "")
_NEVER_FIRST = {
    TokenType.FROM, TokenType.WHERE, TokenType.GROUP_BY, TokenType.HAVING, TokenType.ORDER_BY,
    TokenType.UNION, TokenType.JOIN, TokenType.COMMA, TokenType.R_PAREN,
}  # fmt: skip
"""Tokens that cannot begin a value."""

_BEFORE_FIRST = {TokenType.SELECT, TokenType.DISTINCT, TokenType.FROM, TokenType.GROUP_BY, TokenType.ORDER_BY}
_FILLED = {
    TokenType.WHERE: "a = 1", TokenType.GROUP_BY: "a, b", TokenType.HAVING: "count(*) > 1",
    TokenType.ORDER_BY: "a, b", TokenType.ON: "a.x = b.y", TokenType.PARTITION_BY: "a",
}  # fmt: skip
"""Clauses that must not be empty, and an example of what may follow each."""


def check_order(origin: SourceText, tokens: Sequence[Token]) -> None:
    """Raise QueryError for clauses in the wrong order, for an empty clause and for a stray comma."""
    outer: list[tuple[int, str]] = []
    rank, word = _NOTHING
    for at, token in enumerate(tokens):
        kind = token.token_type
        _check_filled(origin, tokens, at)
        if kind in _OPENING:
            outer.append((rank, word))
            rank, word = _NOTHING
        elif kind in _CLOSING:
            rank, word = outer.pop() if outer else _NOTHING
        elif kind in _SETS:
            if rank >= _ORDER_BY:
                here = token.text.upper()
                hint = (
                    f"Write {word} at the end, for all rows, or put the query before {here} in parentheses."
                )
                raise origin.error(f"{word} is before {here}", token.start, hint)
            rank, word = _NOTHING
        elif kind == TokenType.SELECT:
            rank, word = _NOTHING
        elif kind == TokenType.COMMA and rank in (_WHERE, _HAVING):
            raise origin.error(f"unexpected comma in {word}", token.start, "Join conditions with AND.")
        elif found := _rank(tokens, at):
            here = token.text.upper()
            if found == _WINDOW and rank < _LIMIT:  # it may also follow ORDER BY
                found = max(rank, found)
            elif found < rank or (found == rank and kind not in _REPEATED):
                raise origin.error(f"{here} is after {word}", token.start, HINT)
            rank, word = found, here


def _check_filled(origin: SourceText, tokens: Sequence[Token], at: int) -> None:
    kind = tokens[at].token_type
    after = tokens[at + 1].token_type if at + 1 < len(tokens) else TokenType.END
    before = tokens[at - 1].token_type if at else TokenType.SELECT
    if kind == TokenType.COMMA and before == TokenType.ALL and tokens[at - 2].token_type == TokenType.SELECT:
        hint = "A column of this name is written `all`."
        raise origin.error("ALL before a comma selects nothing", tokens[at - 1].start, hint)
    if kind == TokenType.ALIAS and after == TokenType.STRING:
        name = tokens[at + 1].text
        right = name if name.isidentifier() else f"`{name.replace('`', '``')}`"
        hint = f"Write the name without quotes or in backticks: AS {right}."
        raise origin.error("a string is not a name", tokens[at + 1].start, hint)
    if kind == TokenType.COMMA and (after in _NEVER_FIRST or before in _BEFORE_FIRST):
        raise origin.error(
            "this comma has nothing on one side", tokens[at].start, "Remove it, or add a value."
        )
    nothing = after in _NEVER_FIRST or at + 1 == len(tokens)
    if kind in _FILLED and nothing and before != TokenType.DOT and after != TokenType.COMMA:
        word = tokens[at].text.upper()
        raise origin.error(f"nothing follows {word}", tokens[at].start, f"Write {word} {_FILLED[kind]}.")


def _rank(tokens: Sequence[Token], at: int) -> int:
    """Return the rank of the clause that begins at a token, or 0 if none does."""
    kind = tokens[at].token_type
    before = tokens[at - 1].token_type if at else TokenType.SELECT
    after = tokens[at + 1].token_type if at + 1 < len(tokens) else TokenType.END
    if before == TokenType.DOT or after == TokenType.DOT:
        return 0
    if kind in (TokenType.LIMIT, TokenType.OFFSET):
        is_clause = after in (TokenType.NUMBER, TokenType.ALL, TokenType.L_PAREN)
        return _RANKS[kind] if is_clause and before not in (TokenType.COMMA, TokenType.SELECT) else 0
    if kind == TokenType.WINDOW:
        behind = tokens[at + 2].token_type if at + 2 < len(tokens) else TokenType.END
        return _RANKS[kind] if after != TokenType.L_PAREN and behind == TokenType.ALIAS else 0
    return _RANKS.get(kind, 0)
