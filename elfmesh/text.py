"""Text from logs is never trusted: make it safe to print.

A web request can write any byte into our input; a terminal would obey the escapes in it. Everything that
prints a value that came from a log goes through `printable`.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

_UNSAFE = re.compile(r"[\x00-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text: str) -> str:
    r"""Escape control, bidirectional-override and surrogate characters: `\x1b[2J` is shown, not obeyed."""
    return _UNSAFE.sub(lambda m: f"\\x{ord(m[0]):02x}" if ord(m[0]) < 256 else f"\\u{ord(m[0]):04x}", text)


def suggest(word: str, known: Iterable[str]) -> str:
    """Ask "Did you mean ...?" for a misspelt word; "" when nothing known is close."""
    names = list(known)
    close = difflib.get_close_matches(word, names, n=1, cutoff=0.6)
    if not close:
        folded = {name.lower(): name for name in names}
        close = [folded[word.lower()]] if word.lower() in folded else []
    return f"Did you mean {close[0]}?" if close else ""
