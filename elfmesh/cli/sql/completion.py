"""What Tab completes in `elf sql`: commands, formats, tables, columns, functions and keywords."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from elfmesh.cli.common import ROWS_OUTPUT
from elfmesh.cli.sql.shell import COMMANDS, ShellTables
from elfmesh.cli.sql.statements import is_quoted
from elfmesh.errors import ElfError

KEYWORDS = """
    ALL AND AS ASC ASSUME BETWEEN BY CASE CAST CREATE CROSS CURRENT DAY DEADLINE DESC DISTINCT ELSE END
    EVERY EXISTS FALSE FILTER FROM FULL GROUP HAVING HISTORY HORIZON HOUR ILIKE IN INNER INTERVAL IS JOB
    JOIN LATENESS LATEST LEFT LIKE LIMIT MINUTE NOT NULL NULLS OFFSET ON OR ORDER OUTER OVER PARTITION
    RIGHT RLIKE ROW ROWS SAME SECOND SELECT STRAGGLER THEN TRUE UNION UNTIL USING VALUES WHEN WHERE WINDOW
    WITH WITHIN
"""
EVERYWHERE = ("ts", "_raw", "_source", "_host")
"""Columns that each stream has."""

_WORD = re.compile(r"[.\w]*\Z")
_SOURCE = re.compile(r"\b(?:FROM|JOIN)\s+[.\w]*\Z", re.IGNORECASE)


class ShellNames:
    """Names of tables and columns. They are read when they are first needed."""

    def __init__(self, tables: ShellTables) -> None:
        self._tables = tables
        self._listed: list[str] | None = None
        self._columns: dict[str, list[str]] = {}

    def forget(self) -> None:
        """Read the names of tables again when they are next needed, because a statement was run."""
        self._listed = None

    def tables(self) -> list[str]:
        """Return the names of all tables; none if the fleet does not answer."""
        if self._listed is None:
            try:
                self._listed = [str(each["name"]) for each in self._tables.listing()]
            except ElfError:  # a prompt cannot show errors of a completion
                self._listed = []
        return self._listed

    def columns(self, text: str) -> list[str]:
        """Return the columns of the tables that a text names; of all tables if it names none."""
        names = self.tables()
        named = [name for name in names if re.search(rf"(?<![.\w]){re.escape(name)}(?![.\w])", text)]
        found: list[str] = []
        for name in named or names:
            if name not in self._columns:
                self._columns[name] = self._read(name)
            found += self._columns[name]
        return list(dict.fromkeys([*found, *EVERYWHERE]))

    def _read(self, name: str) -> list[str]:
        try:
            return [column for column, _ in self._tables.columns(name)]
        except ElfError:
            return []


def completions(before: str, text: str, names: ShellNames) -> tuple[str, list[str]]:
    """Return the word before the cursor, and the words that it may become.

    Args:
        before: the text before the cursor.
        text: the whole text, which may name tables behind the cursor.
        names: names of tables and columns.
    """
    if before.lstrip().startswith("."):
        return _of_command(before.lstrip(), names)
    if is_quoted(before):
        return "", []
    word = _word(before)
    if _SOURCE.search(before):
        return word, _matching(word, names.tables())
    if not word:
        return word, []
    from elfmesh.ql.text.refusing import OURS

    functions = sorted(name for name in OURS if name.isidentifier())
    keywords = (KEYWORDS.lower() if word.islower() else KEYWORDS).split()
    found = [*names.columns(text), *functions, *keywords, *names.tables()]
    return word, _matching(word, list(dict.fromkeys(found)))


def _of_command(line: str, names: ShellNames) -> tuple[str, list[str]]:
    name, space, argument = line.partition(" ")
    if not space:
        return name, _matching(name, COMMANDS)
    candidates: Sequence[str] = ()
    if name == ".mode":
        candidates = ROWS_OUTPUT
    elif name == ".schema":
        candidates = names.tables()
    elif name == ".timing":
        candidates = ("on", "off")
    return argument, _matching(argument, candidates)


def _word(before: str) -> str:
    found = _WORD.search(before)
    assert found is not None, "it matches nothing, too"
    return found[0]


def _matching(begun: str, words: Iterable[str]) -> list[str]:
    return [word for word in words if word.lower().startswith(begun.lower())]
