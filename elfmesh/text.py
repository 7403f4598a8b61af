"""Text from logs is never trusted: make it safe to print.

A web request can write any byte into our input; a terminal would obey the escapes in it. Everything that
prints a value that came from a log goes through `printable`.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

_UNSAFE = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff\ufff9-\ufffb"
    r"\U000e0000-\U000e007f]"
)
"""Controls, what turns the direction of text, line separators, and letters that nobody sees. Joiners (U+200C,
U+200D) stay: scripts and emoji need them."""


def printable(text: str) -> str:
    r"""Escape control, bidirectional, invisible and surrogate characters: `\x1b[2J` is shown, not obeyed."""
    return _UNSAFE.sub(_escaped, text)


def _escaped(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}" if code < 1 << 16 else f"\\U{code:08x}"


def suggest(word: str, known: Iterable[str]) -> str:
    """Ask "Did you mean ...?" for a misspelt word; "" when nothing known is close."""
    names = list(known)
    close = difflib.get_close_matches(word, names, n=1, cutoff=0.6)
    if not close:
        folded = {name.lower(): name for name in names}
        close = [folded[word.lower()]] if word.lower() in folded else []
    return f"Did you mean {close[0]}?" if close else ""
