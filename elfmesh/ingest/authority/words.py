"""Detection of the end of a hidden field's value in text that is not JSON.

Recognises `name=value`, `name: value`, `"name": "value"` at any depth of escaping, `name => value`,
`<name>value</name>`, `--name value`, and headers. If the end of a value is ambiguous, more is redacted rather
than less. Cost: linear in the text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import re2

BLANK = "***"
_WHOLE_LINE = ("cookie", "cookies", "authorization")
"""Fields whose values contain blanks, quotes and semicolons."""

_SCHEMES = ("bearer", "basic", "digest", "token", "negotiate", "apikey")
"""Words that precede a credential."""

_CLOSES = {"[": "]", "{": "}", "(": ")"}
_EITHER = {opens: re.compile(f"[{re.escape(opens + closes)}]") for opens, closes in _CLOSES.items()}
_WORD = re.compile(r"[^\s,;&\"'`<>}\])]+")
TAG_CHARS = 64
_TAG = re.compile(r"<(?:[\w.-]*:)?\Z")
_BLANKS = re.compile(r"[ \t]*")
_ESCAPED = re.compile(r"\\+u00(2d|5f|3[0-9]|[46][1-9a-f]|[57][0-9a])", re.IGNORECASE)
"""Letters, digits, `-` and `_` in JSON's escaped spelling."""


def spelled(pattern: str) -> str:
    """Return a regular expression for the spellings of a name: its letters with punctuation between them."""
    return r"[-_. ]{0,2}".join(
        r"[\w-]*" if letter == "*" else r"\w" if letter == "?" else re.escape(letter) for letter in pattern
    )


class Words:
    """Redactor of values after names; `hides` decides for each name in its original spelling."""

    def __init__(self, deny: Sequence[str], hides: Callable[[str], bool]) -> None:
        names = "|".join(sorted(map(spelled, (*deny, *_WHOLE_LINE)), key=len, reverse=True))
        whole = "|".join(map(spelled, _WHOLE_LINE))
        after = r"""\\*["'`]?(?:\[\]|\]|%5[bdBD])*\s*(?::=|=>|==|->|[:=]|%3[adAD])\s*"""
        self._names = re2.compile(rf"(?i)([\w.-]*(?:{names}))({after}|>|[ \t]+)")
        self._whole = re.compile(rf"(?i)[\w.-]*(?:{whole})")
        self._hides = hides

    def __call__(self, text: str) -> str:
        """Return the text without those values; the same text if there are none."""
        plain = _ESCAPED.sub(lambda found: chr(int(found.group(1), 16)), text)
        shown = self._blanked(plain)
        return text if shown == plain else shown

    def _blanked(self, text: str) -> str:
        out, at = [], 0
        for match in self._names.finditer(text):
            name, gap = match.group(1), match.group(2)
            start, begins = match.start(), match.end()
            if start < at or not self._hides(name):
                continue
            if gap.isspace() and not name.startswith("-"):
                continue  # words of a sentence; only an option has a blank before its value
            if gap == ">" and not _TAG.search(text[max(0, start - TAG_CHARS) : start]):
                continue  # not a tag, or a closing tag
            end = self._end(text, name, gap, start, begins)
            if end > begins:
                out += [text[at:begins], BLANK]
                at = end
        return "".join((*out, text[at:])) if out else text

    def _end(self, text: str, name: str, gap: str, start: int, begins: int) -> int:
        if gap == ">":
            return _found(text, "<", begins)
        if (quote := _quote_at(text, begins)) is not None:
            return _closed(text, *quote)
        if self._whole.fullmatch(name):
            if start and text[start - 1] in "\"'`":
                depth = 0
                while start - depth > 1 and text[start - depth - 2] == "\\":
                    depth += 1
                return _closed(text, start, text[start - 1], depth, keep=True)
            return _folded(text, begins)
        if text[begins : begins + 1] in _CLOSES:
            return _bracketed(text, begins)
        word = _WORD.match(text, begins)
        if word is None:
            return begins
        if word.group().lower() in _SCHEMES:
            after = _BLANKS.match(text, word.end())
            assert after is not None
            second = _WORD.match(text, after.end())
            return second.end() if second is not None else word.end()
        return word.end()


def _quote_at(text: str, at: int) -> tuple[int, str, int] | None:
    end = at
    while text[end : end + 1] == "\\":
        end += 1
    quote = text[end : end + 1]
    return (end + 1, quote, end - at) if quote and quote in "\"'`" else None


def _closed(text: str, at: int, quote: str, depth: int, *, keep: bool = False) -> int:
    """Return the position after the quote that ends a value, or before it (`keep`); else the text's end.

    A quote with fewer backslashes ends the enclosing string and is never consumed.
    """
    while (found := text.find(quote, at)) >= 0:
        slashes = 0
        while found - slashes > at and text[found - slashes - 1] == "\\":
            slashes += 1
        if slashes < depth:
            return found - slashes
        if (slashes - depth) % (2 * (depth + 1)) == 0:
            return found - depth if keep else found + 1
        at = found + 1
    return len(text)


def _folded(text: str, at: int) -> int:
    while True:
        at = min(_found(text, "\n", at), _found(text, "\r", at))
        after = at + (2 if text[at : at + 2] == "\r\n" else 1)
        if text[after : after + 1] not in (" ", "\t"):
            return at
        at = after


def _bracketed(text: str, at: int) -> int:
    """Return the position after the bracket that closes the one at `at`; the end of the text if none does."""
    opens, depth = text[at], 0
    for found in _EITHER[opens].finditer(text, at):
        depth += 1 if found.group() == opens else -1
        if not depth:
            return found.end()
    return len(text)


def _found(text: str, what: str, at: int) -> int:
    found = text.find(what, at)
    return len(text) if found < 0 else found
