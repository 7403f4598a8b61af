"""Number formats of to_char and to_number: `S999,999.00`, `$0000`, `9.9PR`.

    [MI | S] [$] digits, with `,` or G between them, [. or D and digits] [MI | S | PR]

A run of digits that begins with 0 has as many digits as the run; one that begins with 9 has at most as many.
MI is a sign for negative numbers, S for all numbers, and PR encloses negative numbers in `<>`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal
from itertools import takewhile

from msgspec import Struct

from elfmesh.errors import DataError
from elfmesh.ql.values.types import PRECISION_MAX

_FORMAT = re.compile(
    r"(?P<before>MI|S)?(?P<dollar>\$)?(?P<whole>[09]+(?:[,G][09]+)*)?"
    r"(?P<point>[.D](?P<fraction>[09]*))?(?P<behind>MI|S|PR)?"
)
_SIGNS = ("MI", "S")
_NO_BREAK = "\u0085\u00a0\u2007\u202f"
"""Blanks that are no white space in Java."""


class NumberFormatError(DataError):
    """Spark refuses the format."""


class DigitRun(Struct, frozen=True):
    """Digits between two commas of a format; `exact` if a number must have all of them."""

    length: int
    exact: bool


class NumberFormat(Struct, frozen=True):
    """Compiled number format.

    Attributes:
        before: "MI", "S" or "", in front of the number; `behind` is the one after it, which may be "PR".
        dollar: whether `$` stands before the digits.
        runs: digits before the decimal point.
        point: whether the format has a decimal point.
        scale: digits after it.
    """

    before: str
    behind: str
    dollar: bool
    runs: tuple[DigitRun, ...]
    point: bool
    scale: int

    @property
    def whole(self) -> int:
        return sum(run.length for run in self.runs)

    # -- to_char

    def text(self, value: Decimal) -> str:
        """Write a number. Digits for which the format has no place make all digits `#`."""
        negative, text = value < 0, list[str]()
        whole, fraction = self._digits(value)
        if self.behind == "PR" and negative:
            text.append("<")
        _write_sign(text, self.before, negative)
        text += "$" if self.dollar else ""
        self._write_whole(text, whole)
        if self.point:
            if text and text[-1] == " ":
                text[-1] = "0"
            text += f".{fraction}"
        if self.behind == "PR":
            _strip_point(text)
            _write(text, ">", negative)
            text += "" if negative else "  "
        _write_sign(text, self.behind, negative)
        _strip_point(text)
        found = "".join(text)
        return "0" if found in ("", "+", "-") else found

    def _digits(self, value: Decimal) -> tuple[str, str]:
        whole, _, fraction = f"{abs(value):f}".partition(".")
        whole, fraction = whole.lstrip("0"), fraction.rstrip("0")
        if len(whole) > self.whole or len(fraction) > self.scale:
            return "#" * self.whole, "#" * self.scale
        return whole.rjust(self.whole), fraction.ljust(self.scale, "0")

    def _write_whole(self, text: list[str], digits: str) -> None:
        rest = iter(digits)
        for at, run in enumerate(self.runs):
            if at and text and text[-1].isdecimal():
                text.append(",")
            elif at:
                _write_blank(text)
            for _ in range(run.length):
                digit = next(rest)
                if digit != " ":
                    text.append(digit)
                elif run.exact:
                    text.append("0")
                else:
                    _write_blank(text)

    # -- to_number

    def value(self, text: str) -> Decimal | None:
        """Read a number; None if the text does not match the format. White space among digits is ignored."""
        reader = _Reader(text)
        bracket = self.behind == "PR" and reader.has("<")
        negative = self._reads_sign(reader, self.before)
        if self.dollar and not reader.at_end and not reader.has("$"):
            return None
        whole = reader.digits(self.runs) if self.runs else ""
        behind_point = self.point and reader.has(".")
        fraction = reader.digits((DigitRun(self.scale, False),)) if self.scale else ""
        if whole is None or fraction is None:
            return None
        if not behind_point:
            whole, fraction = whole + fraction, ""
        if self.behind == "PR":
            closed = reader.has(">")
            if closed != bracket:
                return None
            negative ^= closed
        negative ^= self._reads_sign(reader, self.behind)
        if not reader.at_end or not whole + fraction:
            return None
        return Decimal(f"{'-' * negative}{whole}.{fraction.ljust(self.scale, '0')}")

    @staticmethod
    def _reads_sign(reader: _Reader, sign: str) -> bool:
        """Read a sign if there is one. Returns whether it is `-`."""
        if sign not in _SIGNS or (sign == "S" and reader.has("+")):
            return False
        return reader.has("-")


def number_format(text: str) -> NumberFormat:
    """Compile a format, in small or capital letters.

    Raises:
        NumberFormatError: Spark refuses the format.
    """
    found = _FORMAT.fullmatch(text.upper())
    if found is None or not (found["whole"] or found["fraction"]):
        raise NumberFormatError(f"{text!r} is not a number format")
    if found["before"] and found["before"] == found["behind"]:
        raise NumberFormatError(f"the number format {text!r} has {found['before']} twice")
    whole, fraction = found["whole"] or "", found["fraction"] or ""
    runs = tuple(DigitRun(len(each), each[0] == "0") for each in re.split("[,G]", whole) if each)
    done = NumberFormat(
        found["before"] or "", found["behind"] or "", bool(found["dollar"]), runs, bool(found["point"]),
        len(fraction),
    )  # fmt: skip
    if done.whole + done.scale > PRECISION_MAX:
        raise NumberFormatError(f"the number format {text!r} has more than {PRECISION_MAX} digits")
    return done


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    @property
    def at_end(self) -> bool:
        return self._at >= len(self._text)

    def has(self, character: str) -> bool:
        """Skip a character if it is the next one. Returns whether it is."""
        found = self._text.startswith(character, self._at)
        self._at += found
        return found

    def digits(self, runs: tuple[DigitRun, ...]) -> str | None:
        """Read digits with commas; None if their groups, counted from the right, do not match the runs."""
        part = "".join(takewhile(_in_number, self._text[self._at :]))
        self._at += len(part)
        groups = ["".join(filter(str.isdecimal, each)) for each in reversed(part.split(","))]
        if len(groups) > len(runs):
            return None
        for at, run in enumerate(reversed(runs)):
            length = len(groups[at]) if at < len(groups) else 0
            if length > run.length or (run.exact and length < run.length):
                return None
        return "".join(reversed(groups))


def _in_number(character: str) -> bool:
    blank = character.isspace() and character not in _NO_BREAK
    return character == "," or blank or (character.isdecimal() and ord(character) < 0x10000)


def _write_sign(text: list[str], sign: str, negative: bool) -> None:
    if sign == "S":
        _strip_point(text)
        _write(text, "-" if negative else "+", True)
    elif sign == "MI" and negative:
        _strip_point(text)
        _write(text, "-", True)
    elif sign == "MI":
        text.append(" ")


def _write(text: list[str], character: str, wanted: bool) -> None:
    """Write a character before the blanks at the end."""
    if wanted:
        _insert(text, character, lambda last: last == " ")


def _write_blank(text: list[str]) -> None:
    """Write a blank before the signs at the end."""
    _insert(text, " ", lambda last: last in "+-<")


def _insert(text: list[str], character: str, behind: Callable[[str], bool]) -> None:
    at = len(text)
    while at and behind(text[at - 1]):
        at -= 1
    text.insert(at, character)


def _strip_point(text: list[str]) -> None:
    at = text.index(".") if "." in text else -1
    if at >= 0 and (at == len(text) - 1 or text[at + 1] == " "):
        text[at] = " "
