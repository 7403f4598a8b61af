"""Finds the line and column of each key in a TOML text, because tomllib does not report them.

The module scans the tokens of the text as far as keys require. It does not know the meaning of keys. It
expects texts that tomllib has accepted; in other texts it misses some keys.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

Path = tuple[str, ...]

_WORD = re.compile(
    r"#[^\n]*"
    r'|"""(?:\\.|[^\\])*?"""|' + r"'''.*?'''"
    r'|"(?:\\.|[^"\\\n])*"' + r"|'[^'\n]*'"
    r"|[A-Za-z0-9_+:-]+|[\[\]{}=,.\n]",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class TextPlace:
    """Line and column, counted from 1."""

    line: int
    column: int


def find_keys(text: str) -> dict[Path, TextPlace]:
    """Return the position of each key and table header by dotted path; the first one if it is repeated."""
    walk = _Walk(text)
    for match in _WORD.finditer(text):
        walk.word(match[0], match.start())
    return walk.places


def place_of(places: dict[Path, TextPlace], path: Path) -> TextPlace | None:
    """Return the position of a key, or of the innermost enclosing key that has one."""
    while path:
        if path in places:
            return places[path]
        path = path[:-1]
    return None


@dataclass(slots=True)
class _Walk:
    """State of the scan.

    Attributes:
        text: the text.
        places: positions found so far.
        table: path of the current [header].
        brackets: open brackets, each "[" or "{" with the path of the key whose value it is.
        parts: parts of the key that is being read; None while a value is read.
        header: whether that key is a header.
        start: offset of the key that is being read.
        key: path of the last key.
    """

    text: str
    places: dict[Path, TextPlace] = field(default_factory=dict)
    table: Path = ()
    brackets: list[tuple[str, Path]] = field(default_factory=list)
    parts: list[str] | None = field(default_factory=list)
    header: bool = False
    start: int = 0
    key: Path = ()

    def word(self, word: str, at: int) -> None:
        if word[0] == "#":
            return
        if word == "\n":
            if not self.brackets:
                self._statement()
        elif self.header:
            self._in_header(word, at)
        elif self.parts is not None:
            self._in_key(word, at)
        else:
            self._in_value(word)

    def _statement(self) -> None:
        self.parts, self.header = [], False

    def _in_header(self, word: str, at: int) -> None:
        assert self.parts is not None
        if word == "]":
            self.table = ()  # so that a header also defines the tables around it
            self._note(tuple(self.parts))
            self.table = tuple(self.parts)
            self.parts, self.header = None, False
        elif word not in (".", "["):
            self._part(word, at)

    def _in_key(self, word: str, at: int) -> None:
        assert self.parts is not None
        if word == "[" and not self.brackets:
            self.header = True
        elif word == "=":
            self.key = (*self._base(), *self.parts)
            self._note(self.key)
            self.parts = None
        elif word == "}":
            self._close()
        elif word not in (".", ","):
            self._part(word, at)

    def _in_value(self, word: str) -> None:
        if word in ("[", "{"):
            self.brackets.append((word, self.key))
            self.parts = [] if word == "{" else None
        elif word in ("]", "}"):
            self._close()
        elif word == "," and self.brackets and self.brackets[-1][0] == "{":
            self.parts = []

    def _close(self) -> None:
        if self.brackets:
            self.key = self.brackets.pop()[1]
        self.parts = None

    def _base(self) -> Path:
        return self.brackets[-1][1] if self.brackets else self.table

    def _part(self, word: str, at: int) -> None:
        assert self.parts is not None
        if not self.parts:
            self.start = at
        self.parts.append(word[1:-1] if word[0] in "\"'" else word)

    def _note(self, path: Path) -> None:
        line = self.text.count("\n", 0, self.start) + 1
        column = self.start - (self.text.rfind("\n", 0, self.start) + 1) + 1
        for end in range(len(self._base()) or 1, len(path) + 1):
            self.places.setdefault(path[:end], TextPlace(line, column))
