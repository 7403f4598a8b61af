"""Number patterns of Java's DecimalFormat: `#,##0.00`, `00%`, `$#,###;(#)`.

Deviation: powers of ten (`0.##E0`) and the currency sign are refused.
"""

from __future__ import annotations

import re
from decimal import ROUND_HALF_EVEN, Context, Decimal

from msgspec import Struct

from elfmesh.errors import DataError

_WIDE = Context(prec=1500)
_NUMBER = "#0,."
_TIMES = {"%": 100, "‰": 1000}
_PIECE = re.compile(r"'((?:[^']|'')*)'|(.)", re.DOTALL)


class NumberPatternError(DataError):
    """Java refuses the pattern, or this module does not support it."""


class NumberPattern(Struct, frozen=True):
    """Compiled number pattern.

    Attributes:
        affixes: prefix and suffix of a non-negative number, and prefix and suffix of a negative one.
        whole: least number of integer digits.
        least: least number of fraction digits; `most` is the greatest.
        group: digits between commas; 0: no commas.
        point: write the decimal point even without fraction digits.
        times: factor of the number: 100 for `%`.
    """

    affixes: tuple[str, str, str, str]
    whole: int
    least: int
    most: int
    group: int
    point: bool = False
    times: int = 1

    def text(self, value: Decimal, negative: bool) -> str:
        """Format a number, rounding half to even. `negative` is also true for -0.0."""
        scaled = _WIDE.multiply(abs(value), Decimal(self.times))
        rounded = scaled.quantize(Decimal(1).scaleb(-self.most), ROUND_HALF_EVEN, _WIDE)
        whole, _, fraction = f"{rounded:f}".partition(".")
        fraction = fraction[: self.least] + fraction[self.least :].rstrip("0")
        whole = whole.lstrip("0").rjust(self.whole, "0")
        if not whole and not fraction:
            whole = "0"
        if self.group:
            first = len(whole) % self.group
            groups = [whole[at : at + self.group] for at in range(first, len(whole), self.group)]
            whole = ",".join([whole[:first], *groups] if first else groups)
        return self._signed(f"{whole}.{fraction}" if fraction or self.point else whole, negative)

    def infinite(self, negative: bool) -> str:
        return self._signed("∞", negative)

    def _signed(self, digits: str, negative: bool) -> str:
        before, behind = self.affixes[2:] if negative else self.affixes[:2]
        return before + digits + behind


def digits_pattern(digits: int) -> NumberPattern:
    """Return `#,##0.` followed by `digits` zeros."""
    return NumberPattern(("", "", "-", ""), 1, digits, digits, 3)


def number_pattern(pattern: str) -> NumberPattern:
    if not pattern:
        return digits_pattern(0)
    halves = _halves(pattern)
    before, number, behind, times = _parts(halves[0])
    if len(halves) > 1:  # only the affixes of the negative pattern are used
        less, _, more, _ = _parts(halves[1])
        negative = (f"-{before}", behind) if (less, more) == (before, behind) else (less, more)
    else:
        negative = (f"-{before}", behind)
    return NumberPattern((before, behind, *negative), *_counts(number), times)


def _halves(pattern: str) -> list[list[tuple[str, bool]]]:
    halves: list[list[tuple[str, bool]]] = [[]]
    for match in _PIECE.finditer(pattern):
        quoted, plain = match[1], match[2]
        if quoted is not None:
            halves[-1] += [(each, True) for each in quoted.replace("''", "'") or "'"]
        elif plain == ";":
            halves.append([])
        elif plain == "'":
            raise NumberPatternError("a quoted text is not terminated")
        else:
            halves[-1].append((plain, False))
    if len(halves) > 2:
        raise NumberPatternError("there is a second `;`")
    return halves


def _parts(given: list[tuple[str, bool]]) -> tuple[str, str, str, int]:
    is_digit = [character in _NUMBER and not quoted for character, quoted in given]
    first = is_digit.index(True) if True in is_digit else len(given)
    last = first
    while last < len(given) and is_digit[last]:
        last += 1
    if True in is_digit[last:]:
        raise NumberPatternError("digits are in two places")
    around = [*given[:first], *given[last:]]
    marks = [character for character, quoted in around if character in _TIMES and not quoted]
    if len(marks) > 1:
        raise NumberPatternError("`%` occurs twice")
    if given[last : last + 1] == [("E", False)] or ("¤", False) in around:
        raise NumberPatternError("exponents and currencies are not supported")
    before, number, behind = (
        "".join(character for character, _ in part)
        for part in (given[:first], given[first:last], given[last:])
    )
    return before, number, behind, _TIMES[marks[0]] if marks else 1


def _counts(number: str) -> tuple[int, int, int, int, bool]:
    left = zeros = right = 0
    point, group = -1, -1
    for character in number:
        if character == ".":
            if point >= 0:
                raise NumberPatternError("there is a second `.`")
            point = left + zeros + right
            continue
        if character == ",":
            if point >= 0:
                raise NumberPatternError("a comma is after the decimal point")
            group = 0
            continue
        if character == "0":
            if right:
                raise NumberPatternError("a `0` is after a `#`")
            zeros += 1
        elif zeros:
            right += 1
        else:
            left += 1
        if group >= 0 and point < 0:
            group += 1
    if group == 0:
        raise NumberPatternError("no digit follows a comma")
    if not zeros and left and point >= 0:
        place = max(point, 1)
        left, right, zeros = place - 1, left - place, 1
    total = left + zeros + right
    if (right and point < 0) or (point >= 0 and not left <= point <= left + zeros):
        raise NumberPatternError("a `#` is after a `0` before the decimal point")
    whole = (point if point >= 0 else total) - left
    least, most = (left + zeros - point, total - point) if point >= 0 else (0, 0)
    return whole, least, most, max(group, 0), point in (0, total)
