"""Phrases of other SQL dialects that ELF-QL does not have: sequences of tokens, each with a replacement.

Only a table, and how a phrase is found. Spark reads none of these phrases where they stand, except `>>>`,
`!>`, `!<`, IDENTIFIER(...) and arguments by name.

Each phrase is a regular expression over the tokens, which are written one behind the other with a blank
between: a keyword or symbol as it stands in capitals (`GROUP_BY`), a name as `x:NAME`, one in quotes as
`` x:` ``, a number as `#`, a text as `'`, and `$end` behind the last. Its group is what the error points at.
The tokenizer reads `>>` as two tokens. The second of them is `+>` if it touches the first, and so is `+<`.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from functools import cache
from itertools import accumulate

from sqlglot.tokenizer_core import Token, TokenType

from elfmesh.ql.expressions.refusals import Refusal

_NAME = r"x:\S+"
_VALUE = rf"(?:{_NAME}|\)|\]|#|')"
"""Tokens that can end a value."""

_INPUT = rf"(?:{_NAME}|\))"

_OPERAND = r"(?![>+,)$])"
"""What stands behind an operator, and not behind the `>` of a type: ARRAY<ARRAY<INT> >."""

_LIMIT = "Write LIMIT 10 OFFSET 20."
_STRUCT = "a struct is written as a call"
_FIELDS = "Write struct(x AS a, y AS b), or map('a', x, 'b', y)."
_RLIKE = "Write x RLIKE 'pattern', or x NOT RLIKE 'pattern'."
_IF = "Write CASE WHEN condition THEN a ELSE b END, or if(condition, a, b)."
_JOIN = "Write [LEFT|RIGHT|FULL|LEFT SEMI|LEFT ANTI|CROSS] JOIN other ON a.x = b.y."
_JSON = "Write get_json_object(x, '$.a') for a text of JSON, x.a for a field of the record."
_LOCK = "Leave it out: no row is locked."
_VARIABLE = "Write the value."
_FEED = "Feed results back with a job of its own."
_STAR = "Name the columns after SELECT; s.* means those of s."

_PHRASES: tuple[tuple[str, str, str], ...] = (
    # clauses
    (r"SELECT (x:TOP) [#(]", "ELF-QL has no TOP", "Write LIMIT 10 at the end, after ORDER BY."),
    (rf"SELECT (AS) x:VALUE {_NAME}|SELECT (AS) STRUCT", _STRUCT, "Write SELECT struct(a, b)."),
    (r"(?:SELECT|,|\.) \* (x:EXCLUDE|REPLACE|x:RENAME|ILIKE) [('x]", "`*` names all columns", _STAR),
    (r"(FETCH) (?:FIRST|NEXT) (?:#|ROWS?)", "ELF-QL has no FETCH", _LIMIT),
    (r"OFFSET # (ROWS?)", "ELF-QL has no OFFSET n ROWS", _LIMIT),
    (r"LIMIT # (,)", "LIMIT takes one number", _LIMIT),
    (
        r"LIMIT # (x:BY)",
        "ELF-QL has no LIMIT n BY",
        "Write QUALIFY row_number() OVER (PARTITION BY k ORDER BY ts) <= 3.",
    ),
    (rf"(x:PREWHERE) {_NAME}", "ELF-QL has no PREWHERE", "Write WHERE."),
    (r"(CONNECT_BY)", "ELF-QL has no CONNECT BY", _FEED),
    (rf"(x:START WITH) {_NAME}", "ELF-QL has no START WITH", _FEED),
    (
        r"(x:EMIT) (?:x:CHANGES|FINAL) \$end",
        "ELF-QL has no EMIT",
        "A job answers each interval when it closes: CREATE JOB name EVERY '30 s' AS SELECT ...",
    ),
    (
        rf"{_INPUT} (x:WATERMARK) FOR",
        "ELF-QL has no WATERMARK",
        "Write CREATE JOB name EVERY '30 s' LATENESS '5 s' AS SELECT ...",
    ),
    (r"(FOR) (?:UPDATE|x:SHARE) (?:\$end|OF|x:)", "ELF-QL has no FOR UPDATE", _LOCK),
    (
        rf"{_INPUT} ((?:FOR )?(?:x:VERSION|TIMESTAMP|x:SYSTEM_TIME) AS) x:OF [#']",
        "ELF-QL has no AS OF",
        "Choose times with WHERE: ts < TIMESTAMP '2024-01-01 00:00:00'.",
    ),
    (rf"{_INPUT} (WITH) \( {_NAME} \)", "ELF-QL has no WITH (hint)", _LOCK),
    (r"((?:CROSS|OUTER)[ _](?:x:)?APPLY)", "ELF-QL has no APPLY", "Write LATERAL VIEW explode(x) t AS e."),
    (rf"{_INPUT} (INNER|CROSS|(?:LEFT|RIGHT|FULL)(?: OUTER)?) {_NAME}", "JOIN is missing here", _JOIN),
    (r"(\( \+ \))", "ELF-QL has no (+)", "Write a LEFT JOIN b ON a.x = b.x."),
    # operators
    (rf"{_VALUE} (~) (?:'|{_NAME})", "ELF-QL has no `~` for patterns", _RLIKE),
    (rf"{_VALUE} (! ~)", "ELF-QL has no `!~` for patterns", _RLIKE),
    (r"(~\*)", "ELF-QL has no `~*` for patterns", "Write x RLIKE '(?i)pattern'."),
    (rf"{_VALUE} (SIMILAR_TO) ['x]", "ELF-QL has no SIMILAR TO", _RLIKE),
    (rf"{_VALUE} (GLOB) '", "ELF-QL has no GLOB", "Write x LIKE 'a%', or x RLIKE 'pattern'."),
    (r"(x:SOUNDS) LIKE", "ELF-QL has no SOUNDS LIKE", "Write soundex(x) = soundex(y)."),
    (rf"{_VALUE} (OVERLAPS) x", "ELF-QL has no OVERLAPS", "Write a < y AND x < b for [a, b) and [x, y)."),
    (rf"{_VALUE} (x:MOD) (?:#|\(|{_NAME})", "ELF-QL has no operator MOD", "Write x % y, or mod(x, y)."),
    (rf"{_VALUE} (\* \*)", "ELF-QL has no `**`", "Write power(x, y)."),
    (rf"{_VALUE} (/ /)", "ELF-QL has no `//`", "Write x div y."),
    (rf"(> \+?> \+?>) {_OPERAND}", "ELF-QL has no `>>>`", "Write shiftrightunsigned(x, n)."),
    (rf"(> >) {_OPERAND}", "`>>` has no blank in it", "Write x >> n, or x > y."),
    (r"(< <)", "`<<` has no blank in it", "Write x << n, or x < y."),
    (r"(> =)", "`>=` has no blank in it", "Write x >= y."),
    (r"(< >)", "`<>` has no blank in it", "Write x <> y."),
    (r"(<= >|< = ?>)", "`<=>` has no blank in it", "Write x <=> y."),
    (r"(< =) (?!>)", "`<=` has no blank in it", "Write x <= y."),
    (r"(! =)", "`!=` has no blank in it", "Write x != y."),
    (r"(= =)", "`==` has no blank in it", "Write x = y."),
    (r"(\| \|)", "`||` has no blank in it", "Write x || y."),
    (r"(: :)", "`::` has no blank in it", "Write CAST(x AS BIGINT), or x::BIGINT."),
    (r"(! >)", "ELF-QL has no `!>`", "Write x <= y."),
    (r"(! <)", "ELF-QL has no `!<`", "Write x >= y."),
    (r"(= <)", "ELF-QL has no `=<`", "Write x <= y."),
    (r"(= >)", "ELF-QL has no `=>`", "Write x >= y."),
    (r"(=>)", "ELF-QL has no arguments by name", "Write x >= y, or f(a, b) with the arguments in order."),
    (r"(&&|& &)", "ELF-QL has no `&&`", "Write a AND b."),
    (rf"{_VALUE} (x:MATCHES|x:MATCH) '", "ELF-QL has no operator MATCHES", _RLIKE),
    (rf"{_VALUE} (x:CONTAINS) '", "ELF-QL has no operator CONTAINS", "Write contains(x, 'a')."),
    (
        rf"{_VALUE} (x:STARTS|x:ENDS) WITH '",
        "ELF-QL has no operator STARTS WITH",
        "Write startswith(x, 'a') or endswith(x, 'a').",
    ),
    (r"(?<!, )(?<!\( )x:\S+ (->) ['#]", "ELF-QL has no operators for JSON", _JSON),
    (r"(->>|#>|#>>|@>|<@)", "ELF-QL has no operators for JSON", _JSON),
    (rf"{_VALUE} ((?:@ >)|(?:\? [|'&]))", "ELF-QL has no operators for JSON", _JSON),
    (
        r"IS (?:NOT )?(?:NULL|TRUE|FALSE|x:UNKNOWN) (=|==|<=>|<>|!=|[<>]=?|::) ",
        "an operator follows IS",
        "Put the condition in brackets: (a IS NULL) = b.",
    ),
    # values
    (r"(x:IDENTIFIER) \( '", "ELF-QL has no IDENTIFIER(...)", "Write the name itself: a, or `a b`."),
    (r"(') \(", "a text in quotes is no name of a function", "Write the name without quotes."),
    (r"(x:E) '", "ELF-QL has no E'...'", "Write '...': a backslash means the same in every text."),
    (r"(x:SAFE) \. \S+ \(", "ELF-QL has no SAFE.", "Leave it out: what has no value gives NULL."),
    (r"(\{) ['x}]", _STRUCT, _FIELDS),
    (r"(?:SELECT|WHERE|,|\(|[=<>]=?|<>|AND|OR|LIMIT) (:) (?:x:|#)", "ELF-QL has no parameters", _VARIABLE),
    (r"(\$) #", "ELF-QL has no parameters", _VARIABLE),
    (rf"{_NAME} (@) {_NAME}", "`@` cannot be part of a name", "Write the name in quotes: `a@b`."),
    (r"(@)", "ELF-QL has no variables", _VARIABLE),
    (rf"(?:SELECT|,|\() (x:IF) {_NAME} (?:[=<>]=?|<>) \S+ THEN", "ELF-QL has no IF ... THEN", _IF),
    (rf"CASE {_NAME} (?:[=<>]=?|<>) (?:#|'|{_NAME}) (THEN)", "THEN must follow WHEN", _IF),
)  # fmt: skip

_HALVES = (TokenType.LT, TokenType.GT)

_ANY = re.compile(f"(?<= )(?:{'|'.join(f'(?:{each})' for each, _, _ in _PHRASES)})")
"""Whether a text has any of the phrases, in one pass, because nearly all texts have none."""


@cache
def _compiled() -> tuple[tuple[re.Pattern[str], Refusal], ...]:
    return tuple((re.compile(rf"(?<= )(?:{each})"), Refusal(what, hint)) for each, what, hint in _PHRASES)


def foreign_phrase(tokens: Sequence[Token]) -> tuple[Token, Refusal] | None:
    """The first token of a phrase of other SQL, and how it is refused; None: there is none. Cost: linear."""
    words = ["", *(_word(token, *tokens[at - 1 : at]) for at, token in enumerate(tokens)), "$end", ""]
    text = " ".join(words)
    if _ANY.search(text) is None:
        return None
    found: tuple[int, Refusal] | None = None
    for pattern, refusal in _compiled():
        match = pattern.search(text)
        if match is not None:
            at = match.start(match.lastindex or 0)
            found = min(found or (at, refusal), (at, refusal), key=lambda each: each[0])
    if found is None:
        return None
    begins = list(accumulate((len(word) + 1 for word in words), initial=0))
    return tokens[bisect_right(begins, found[0]) - 2], found[1]


def _word(token: Token, before: Token | None = None) -> str:
    if token.token_type in _HALVES and before is not None:
        touches = before.token_type == token.token_type and before.end + 1 == token.start
        return f"+{token.text}" if touches else token.text
    if token.token_type in (TokenType.STRING, TokenType.NUMBER):
        return "'" if token.token_type == TokenType.STRING else "#"
    if token.token_type == TokenType.IDENTIFIER:
        return "x:`"
    word = "_".join(token.text.upper().split())
    return f"x:{word}" if token.token_type == TokenType.VAR else word
