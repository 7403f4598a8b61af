"""Date and time patterns of Spark (Java's DateTimeFormatter): `yyyy-MM-dd HH:mm:ss`.

A pattern is compiled once. Letters that are not in the tables are refused, and so are patterns whose meaning
differs between Spark's versions (week-based years).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

import pyarrow as pa
import pyarrow.compute as pc
import re2

from elfmesh.errors import DataError
from elfmesh.ql.values.columns import int_values
from elfmesh.ql.values.times import parse_shape
from elfmesh.ql.values.types import STRING

_MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October",
    "November", "December",
)  # fmt: skip
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_PIECE = re.compile(r"'(?:[^']|'')*'|([A-Za-z])\1*|[^A-Za-z']+|'")


class PatternError(DataError):
    """The pattern contains something that is not supported."""


def pieces(pattern: str) -> list[tuple[str, bool]]:
    """Split a pattern into (text, is it a run of letters)."""
    out: list[tuple[str, bool]] = []
    for match in _PIECE.finditer(pattern):
        text = match[0]
        if text == "'":
            raise PatternError("a quoted text is not terminated")
        if text.startswith("'"):
            out.append(("'" if text == "''" else text[1:-1].replace("''", "'"), False))
        elif match[1]:
            out.append((text, True))
        elif any(mark in text for mark in "[]{}#"):
            raise PatternError(f"`{text.strip()}` is not supported")
        else:
            out.append((text, False))
    return out


_SHORT_MONTHS = "|".join(name[:3] for name in _MONTHS)
_READERS: dict[str, str] = {
    "yyyy": r"(?P<y>\d{4})", "y": r"(?P<y>\d{1,6})", "uuuu": r"(?P<y>\d{4})", "yy": r"(?P<yy>\d{2})",
    "M": r"(?P<m>\d{1,2})", "MM": r"(?P<m>\d{2})", "MMM": f"(?P<mon>{_SHORT_MONTHS})",
    "MMMM": f"(?P<mon>{'|'.join(_MONTHS)})", "d": r"(?P<d>\d{1,2})", "dd": r"(?P<d>\d{2})",
    "H": r"(?P<h>\d{1,2})", "HH": r"(?P<h>\d{2})", "h": r"(?P<h12>\d{1,2})", "hh": r"(?P<h12>\d{2})",
    "m": r"(?P<mi>\d{1,2})", "mm": r"(?P<mi>\d{2})", "s": r"(?P<s>\d{1,2})", "ss": r"(?P<s>\d{2})",
    "a": r"(?P<ap>am|pm)", "Z": r"(?P<z>[+-]\d{4})", "X": r"(?P<z>Z|[+-]\d{2}(?:\d{2})?)",
    "XX": r"(?P<z>Z|[+-]\d{4})", "XXX": r"(?P<z>Z|[+-]\d{2}:\d{2})", "x": r"(?P<z>[+-]\d{2}(?:\d{2})?)",
    "xx": r"(?P<z>[+-]\d{4})", "xxx": r"(?P<z>[+-]\d{2}:\d{2})",
}  # fmt: skip


_FIXED = {"yy", "MM", "dd", "HH", "hh", "mm", "ss"}
_GREEDY = {"yyyy", "y", "uuuu", "M", "d", "H", "h", "m", "s"}
"""Letters that read all following digits, except those of fixed-width letters directly after."""


def _are_digits(parts: list[tuple[str, bool]]) -> bool:
    return any(letters and (text in _FIXED | _GREEDY or text[0] == "S") for text, letters in parts)


def _check_adjacent(parts: list[tuple[str, bool]]) -> None:
    """Raise PatternError for patterns that Java accepts and never matches: yyyySSS, yyyyM."""
    greedy = ""
    for text, letters in parts:
        if letters and text in _FIXED:
            continue
        if greedy and letters and _are_digits([(text, True)]):
            raise PatternError(
                f"`{text}` is never reached: `{greedy}` takes all digits; put a `.` or a space between them"
            )
        greedy = text if letters and text in _GREEDY else ""


@lru_cache(maxsize=256)
def reader(pattern: str) -> Callable[[pa.Array], pa.Array]:
    """Return a function from strings to timestamps; strings that do not match are null."""
    shape, seen = "", set()
    parts = pieces(pattern)
    _check_adjacent(parts)
    for at, (text, letters) in enumerate(parts):
        if not letters:
            shape += re2.escape(text)
            continue
        group = _READERS.get(text)
        if group is None and re.fullmatch("S{1,9}", text):
            # The following digits are left over only if the fraction has all of its own digits.
            least = len(text) if _are_digits(parts[at + 1 : at + 2]) else 1
            group = rf"(?P<f>\d{{{least},{len(text)}}})"
        if group is None:
            raise PatternError(f"`{text}` cannot be read")
        name = re.findall(r"P<(\w+)>", group)[0]
        if name in seen:
            raise PatternError(f"`{text}` is duplicated")
        seen.add(name)
        shape += group
    full = rf"(?i)\A{shape}\z"
    return lambda array: parse_shape(array, full)


Writer = Callable[[pa.Array], pa.Array | str]


def _padded(part: Callable[[pa.Array], pa.Array], width: int) -> Writer:
    def write(stamps: pa.Array) -> pa.Array:
        text = pc.cast(part(stamps), STRING)
        return pc.utf8_lpad(text, width, "0") if width > 1 else text

    return write


def _named(
    part: Callable[[pa.Array], pa.Array], names: tuple[str, ...], first: int, cut: int | None
) -> Writer:
    known = pa.array([name[:cut] for name in names])
    return lambda stamps: known.take(pc.subtract(part(stamps), first))


def _fraction(digits: int) -> Writer:
    def write(stamps: pa.Array) -> pa.Array:
        micros = pc.cast(pa.array(int_values(stamps) % 1_000_000), STRING)
        text = pc.utf8_rpad(pc.utf8_slice_codeunits(pc.utf8_lpad(micros, 6, "0"), 0, digits), digits, "0")
        return pc.if_else(stamps.is_valid(), text, None)

    return write


def _hour12(stamps: pa.Array) -> pa.Array:
    twelve = (int_values(pc.cast(pc.hour(stamps), pa.int64())) + 11) % 12 + 1
    return pc.if_else(stamps.is_valid(), pa.array(twelve), None)


def _two_digit_year(stamps: pa.Array) -> pa.Array:
    return pc.if_else(stamps.is_valid(), pa.array(int_values(pc.year(stamps)) % 100), None)


def _half_day(stamps: pa.Array) -> pa.Array:
    return pc.if_else(pc.less(pc.hour(stamps), 12), "AM", "PM")


_WRITERS: dict[str, Writer] = {
    "yyyy": _padded(pc.year, 4), "y": _padded(pc.year, 1), "uuuu": _padded(pc.year, 4),
    "yy": _padded(_two_digit_year, 2),
    "M": _padded(pc.month, 1), "MM": _padded(pc.month, 2),
    "MMM": _named(pc.month, _MONTHS, 1, 3), "MMMM": _named(pc.month, _MONTHS, 1, None),
    "d": _padded(pc.day, 1), "dd": _padded(pc.day, 2),
    "D": _padded(pc.day_of_year, 1), "DDD": _padded(pc.day_of_year, 3),
    **{"E" * count: _named(pc.day_of_week, _DAYS, 0, 3) for count in (1, 2, 3)},
    "EEEE": _named(pc.day_of_week, _DAYS, 0, None),
    "Q": _padded(pc.quarter, 1), "QQ": _padded(pc.quarter, 2), "q": _padded(pc.quarter, 1),
    "H": _padded(pc.hour, 1), "HH": _padded(pc.hour, 2), "h": _padded(_hour12, 1), "hh": _padded(_hour12, 2),
    "a": _half_day,
    "m": _padded(pc.minute, 1), "mm": _padded(pc.minute, 2),
    "s": _padded(pc.second, 1), "ss": _padded(pc.second, 2),
    **dict.fromkeys(("X", "XX", "XXX"), lambda _stamps: "Z"), "Z": lambda _stamps: "+0000",
    "x": lambda _stamps: "+00", "xx": lambda _stamps: "+0000", "xxx": lambda _stamps: "+00:00",
    "z": lambda _stamps: "UTC", "VV": lambda _stamps: "UTC",
}  # fmt: skip


@lru_cache(maxsize=256)
def writer(pattern: str) -> Callable[[pa.Array], pa.Array]:
    """Return a function from timestamps (without zone) to strings."""
    writers: list[Writer] = []
    for text, letters in pieces(pattern):
        known = _WRITERS.get(text) if letters else _constant(text)
        if known is None and re.fullmatch("S{1,9}", text):
            known = _fraction(len(text))
        if known is None:
            raise PatternError(f"`{text}` cannot be written")
        writers.append(known)

    def write(stamps: pa.Array) -> pa.Array:
        columns = [
            pc.if_else(stamps.is_valid(), "", pa.scalar(None, STRING)),
            *(one(stamps) for one in writers),
        ]
        return pc.binary_join_element_wise(*columns, "")

    return write


def _constant(text: str) -> Writer:
    return lambda _stamps: text
