"""What is done to tokens before anybody reads them: neighbouring strings are one, brackets have partners."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot.tokenizer_core import Token, TokenType

from elfmesh.control.ql.text_source import SourceText


def merge_strings(source: SourceText, tokens: Sequence[Token]) -> list[Token]:
    """Join neighbouring strings: 'it''s' is one with a quote in it, 'a' 'b' is ab (as in Spark 4)."""
    merged: list[Token] = []
    for token in tokens:
        last = merged[-1] if merged else None
        if last is not None and last.token_type == token.token_type == TokenType.STRING:
            quote = source.text[token.start] if last.end + 1 == token.start else ""
            merged[-1] = Token(
                TokenType.STRING, last.text + quote + token.text, line=last.line, col=last.col,
                start=last.start, end=token.end,
            )  # fmt: skip
        else:
            merged.append(token)
    return merged


def check_brackets(source: SourceText, tokens: Sequence[Token]) -> None:
    """Refuse brackets without a partner, at the bracket itself.

    Raises:
        QueryError: one is open at the end, or closed without being open.
    """
    open_at: list[Token] = []
    for token in tokens:
        if token.token_type == TokenType.L_PAREN:
            open_at.append(token)
        elif token.token_type == TokenType.R_PAREN:
            if not open_at:
                raise source.error(
                    "this `)` closes nothing", token.start, "Remove it, or add the `(` before it."
                )
            open_at.pop()
    if open_at:
        raise source.error("this `(` is never closed", open_at[-1].start, "Add a `)`.")


def is_alias(tokens: Sequence[Token], at: int) -> bool:
    """Whether a name before a bracket is that of an input with its columns: UNNEST(x) [AS] t(e)."""
    before = tokens[at - 1] if at else None
    named = tokens[at].token_type in (TokenType.VAR, TokenType.IDENTIFIER)
    return named and before is not None and before.token_type in (TokenType.ALIAS, TokenType.R_PAREN)


def has_special_form(tokens: Sequence[Token], opening: int) -> bool:
    """Whether a call has words between its arguments, as in trim(BOTH 'x' FROM y)."""
    depth = 0
    for token in tokens[opening:]:
        depth += {TokenType.L_PAREN: 1, TokenType.R_PAREN: -1}.get(token.token_type, 0)
        if depth == 0:
            return False
        if depth == 1 and token.text.upper() in ("FROM", "IN", "BOTH", "LEADING", "TRAILING"):
            return True
    return False
