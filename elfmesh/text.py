"""Text from logs is never trusted: make it safe to print.

A web request can write any byte into our input; a terminal would obey the escapes in it. Everything that
prints a value that came from a log goes through `printable`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_UNSAFE = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff\ufff9-\ufffb"
    r"\U000e0000-\U000e007f]"
)
"""Controls, what turns the direction of text, line separators, and letters that no reader sees. Joiners
(U+200C, U+200D) stay: scripts and emoji need them."""


CSV_END = "\r\n"
"""Ends a csv line while it is written: a cell with one of these characters is quoted, so no key begins a line
of its own."""

EDITS_MAX = 2
"""Of a suggestion: how many letters it may differ from what is written."""

SHORT_CHARS = 4
"""Of a word in which one letter may differ: two of three letters are another word."""


def printable(text: str) -> str:
    r"""Escape control, bidirectional, invisible and surrogate characters: `\x1b[2J` is shown, not obeyed."""
    return _UNSAFE.sub(_escaped, text)


def _escaped(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}" if code < 1 << 16 else f"\\U{code:08x}"


def suggest(word: str, known: Iterable[str]) -> str:
    """Ask "Did you mean ...?" for a misspelt word; "" when no known name is close.

    Close means one letter added, removed, replaced or swapped with its neighbour, or `EDITS_MAX` of them in
    words of more than `SHORT_CHARS` letters that begin alike: a suggestion further away misleads. Case
    does not count.
    """
    near = nearest(word, known)
    return f"Did you mean {near}?" if near is not None else ""


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known name that is closest to a misspelt word, the first of equals; None when none is close."""
    folded = word.lower()
    best, least = None, EDITS_MAX + 1
    for name in known:
        other = name.lower()
        shorter = min(len(folded), len(other))
        most = EDITS_MAX if shorter > SHORT_CHARS and folded[0] == other[0] else min(1, shorter - 1)
        if abs(len(folded) - len(other)) <= most:
            edits = edit_distance(folded, other)
            if edits <= most and edits < least:
                best, least = name, edits
    return best


def edit_distance(one: str, other: str) -> int:
    """Letters to add, remove, replace or swap with their neighbour until two words are equal.

    Cost: the product of both lengths.
    """
    before, row = list[int](), list(range(len(other) + 1))
    for at, letter in enumerate(one, 1):
        earlier, before, row = before, row, [at]
        for column, wanted in enumerate(other, 1):
            edits = min(before[column] + 1, row[-1] + 1, before[column - 1] + (letter != wanted))
            if at > 1 and column > 1 and letter == other[column - 2] and one[at - 2] == wanted:
                edits = min(edits, earlier[column - 2] + 1)
            row.append(edits)
    return row[-1]
