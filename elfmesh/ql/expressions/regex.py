"""Regular expressions, LIKE patterns and replacements: Java's spelling to RE2's.

RE2 runs in time linear in its input, so a job's pattern cannot stall an agent. Look-around and
back-references, which RE2 lacks, are refused when the query is parsed or first run.

Deviation: `$` matches only at the very end (Java: also before a last newline), `.` excludes only the newline.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import re2

from elfmesh.ql.expressions.nodes import Expr
from elfmesh.ql.expressions.registry import CompileContext

_HINT = "Patterns are RE2: no look-ahead, look-behind or back-references."


def compile_pattern(context: CompileContext, expr: Expr, pattern: str) -> Any:
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        reason = error.args[0] if error.args else "unreadable"
        shown = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        raise context.error(expr, f"cannot use the regular expression {pattern!r}: {shown}", _HINT) from None


def rewrite_replacement(context: CompileContext, expr: Expr, replacement: str, groups: int) -> str:
    r"""Java's replacement ($1, \$) in RE2's spelling (\1); QueryError for an unknown group."""
    out, at = [], 0
    while at < len(replacement):
        character = replacement[at]
        if character == "\\" and at + 1 < len(replacement):
            at += 1
            out.append(_literal(replacement[at]))
        elif character == "$":
            match = re.match(r"\d", replacement[at + 1 :])
            if match is None or int(match[0]) > groups:
                raise context.error(
                    expr,
                    f"{replacement!r} names a group the pattern does not have",
                    r"Write \\$ for a dollar sign.",
                )
            at += 1
            out.append(f"\\{match[0]}")
        else:
            out.append(_literal(character))
        at += 1
    return "".join(out)


def _literal(character: str) -> str:
    return "\\\\" if character == "\\" else character


def like_parts(context: CompileContext, expr: Expr, pattern: str, escape: str) -> list[str | None]:
    """A LIKE pattern as literal pieces, with "_" as "" and "%" as None between them."""
    parts: list[str | None] = []
    literal, at = "", 0

    def push() -> None:
        nonlocal literal
        if literal:
            parts.append(literal)
        literal = ""

    while at < len(pattern):
        character = pattern[at]
        if character == escape:
            at += 1
            if at >= len(pattern) or pattern[at] not in ("%", "_", escape):
                raise context.error(
                    expr,
                    f"{escape!r} in {pattern!r} does not escape a special character",
                    "Write it before % or _, or twice for the character itself.",
                )
            literal += pattern[at]
        elif character == "%":
            push()
            parts.append(None)
        elif character == "_":
            push()
            parts.append("")
        else:
            literal += character
        at += 1
    push()
    return parts


def like_regex(parts: list[str | None]) -> str:
    pieces = [".*" if part is None else "." if part == "" else re2.escape(part) for part in parts]
    return rf"(?s)\A{''.join(pieces)}\z"


def java_split(pattern: Any, most: int = 0) -> Callable[[str], list[str]]:
    """Java's String.split(pattern, -1) into at most `most` pieces (0: any number).

    An empty match at the very start splits nothing. If the pattern is empty, one at the end does not either.
    """

    def split(text: str) -> list[str]:
        if text == "":
            return [""]
        pieces: list[str] = []
        last = 0
        for match in pattern.finditer(text):
            start, end = match.span()
            if end == 0 or (start == end == len(text) and not pattern.pattern):
                continue
            if len(pieces) + 1 == most:
                break
            pieces.append(text[last:start])
            last = end
        return [*pieces, text[last:]]

    return split
