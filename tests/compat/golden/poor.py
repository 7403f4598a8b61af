"""Whether a refusal says where it is, names what was written, and tells what to write instead.

Each rule finds one kind of message that does not help; a message that none of them finds is good.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from elfmesh.errors import ElfError, QueryError
from tests.compat.golden.data import Golden

LETTERS_MAX = 2
"""A suggestion that is further from what was written names something else."""

_WORD = re.compile(r"[^\W\d][\w.]*")
_MEANT = re.compile(r"[Dd]id you mean (.+?)\?")
_ARROW = re.compile(r"\b(decimal128|u?int\d+\b|float\d+\b|duration\[|timestamp\[|date32|list<|struct<|map<)")
_GENERIC = re.compile(r"See the list of supported syntax in docs")


def poor(case: Golden, error: ElfError) -> str:
    """Why a refusal is poor; empty: it is good."""
    if not isinstance(error, QueryError) or not error.line or not error.column:
        return "no place"
    return next((kind for kind, found in _RULES.items() if found(case, error)), "")


def distance(one: str, other: str) -> int:
    """How many letters are to be put in, left out or changed to get from one word to another."""
    row = list(range(len(other) + 1))
    for at, letter in enumerate(one, 1):
        before, row[0] = row[0], at
        for place, wanted in enumerate(other, 1):
            before, row[place] = (
                row[place],
                min(row[place] + 1, row[place - 1] + 1, before + (letter != wanted)),
            )
    return row[-1]


def written(text: str, error: QueryError) -> str:
    """What stands at the place of an error, up to the end of the line."""
    lines = text.splitlines()
    return lines[error.line - 1][error.column - 1 :] if error.line <= len(lines) else ""


def _last(word: str) -> str:
    return word.rpartition(".")[2].lower()


def _far_suggestion(case: Golden, error: QueryError) -> bool:
    at_place = _WORD.match(written(case.text, error).lstrip("`\"'"))
    named = [at_place[0]] if at_place else []
    # The message names the word where the place is that of a larger expression.
    named += [word for word in _WORD.findall(error.message) if word.lower() in case.text.lower()]
    for meant in _MEANT.findall(str(error)):
        pairs: Iterable[tuple[str, str]] = ((word, meant) for word in named)
        if min((distance(_last(a), _last(b)) for a, b in pairs), default=99) > LETTERS_MAX:
            return True
    return False


def _no_remedy(_: Golden, error: QueryError) -> bool:
    return not error.hint or bool(_GENERIC.search(error.hint))


def _named_query_as_function(case: Golden, error: QueryError) -> bool:
    match = re.match(r"unknown function (\w+)", error.message)
    if match is None:
        return False
    name = re.escape(match[1])
    columns = r"\s*\(\s*[\w`]+(\s*,\s*[\w`]+)*\s*\)"
    return bool(
        re.search(rf"\b{name}{columns}\s*AS\s*\(", case.text, re.I)
        or re.search(rf"(\)|\bAS)\s*{name}{columns}", case.text, re.I)
    )


def _type_that_was_not_written(case: Golden, error: QueryError) -> bool:
    match = re.match(r"the type (\w+) is not supported", error.message)
    if match is None:
        return False
    there = re.findall(r"\w+", error.hint)
    return match[1] in there or not re.search(rf"\b{match[1]}", case.text, re.I)


def _word_that_was_not_written(case: Golden, error: QueryError) -> bool:
    match = re.match(r"`?([A-Z][A-Z_]+(?: [A-Za-z_]+)*)`? (?:is|are) not supported", error.message)
    if match is None:
        return False
    text = case.text.lower()
    return not any(word.lower() in text for word in _WORD.findall(match[1]) if word not in ("and", "or"))


def _internal_name(case: Golden, error: QueryError) -> bool:
    message = str(error)
    return bool(_ARROW.search(message) or re.search(r"#\d|There are \*|There are \.", message))


def _column_of_another_input(case: Golden, error: QueryError) -> bool:
    match = re.match(r"(\w+) has no column ([\w.]+)", error.message)
    if match is None:
        return False
    others = [view for name, view in case.views.items() if name.lower() != match[1].lower()]
    elsewhere = any(match[2].lower() == name.lower() for view in others for name, _ in view.columns)
    return elsewhere and f".{match[2]}".lower() not in error.hint.lower()


_RULES: dict[str, Callable[[Golden, QueryError], bool]] = {
    "far suggestion": _far_suggestion,
    "a named query is taken for a function": _named_query_as_function,
    "a type that was not written": _type_that_was_not_written,
    "a word that was not written": _word_that_was_not_written,
    "an internal name": _internal_name,
    "a column of another input": _column_of_another_input,
    "no remedy": _no_remedy,
}


def kinds() -> Sequence[str]:
    """All kinds of poor messages."""
    return ("no place", *_RULES)
