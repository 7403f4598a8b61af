"""Date and time patterns of Spark (Java's DateTimeFormatter): `yyyy-MM-dd HH:mm:ss`.

A pattern is compiled once. Letters that are not in the tables are refused, and so are patterns whose meaning
differs between Spark's versions (week-based years).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

import pyarrow as pa
import re2

from elfmesh.arrow_kernels import pc
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


def pieces(pattern: str, *, written: bool = False) -> list[tuple[str, bool]]:
    """Split a pattern into (text, is it a run of letters). All optional sections of a time are `written`."""
    out: list[tuple[str, bool]] = []
    depth = 0
    for match in _PIECE.finditer(pattern):
        text = match[0]
        if text == "'":
            raise PatternError("a quoted text is not terminated")
        if text.startswith("'"):
            out.append(("'" if text == "''" else text[1:-1].replace("''", "'"), False))
        elif match[1]:
            out.append((text, True))
        elif any(mark in text for mark in ("{}#" if written else "[]{}#")):
            raise PatternError(f"`{text.strip()}` is not supported")
        else:
            for mark in text:
                depth += (mark == "[") - (mark == "]")
                if depth < 0:
                    raise PatternError("`]` has no `[` before it")
            text = text.replace("[", "").replace("]", "")
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


def _counted(part: Callable[[pa.Array], pa.Array], first: int, length: int) -> Callable[[pa.Array], pa.Array]:
    """Return a part counted from `first` in a cycle: hour 0 is 12 for 1 and 12, and 0 for 0 and 12."""

    def count(stamps: pa.Array) -> pa.Array:
        whole = (int_values(pc.cast(part(stamps), pa.int64())) - first) % length + first
        return pc.if_else(stamps.is_valid(), pa.array(whole), None)

    return count


def _year_of_era(stamps: pa.Array) -> pa.Array:
    year = pc.year(stamps)
    return pc.if_else(pc.less(year, 1), pc.subtract(1, year), year)


def _year(part: Callable[[pa.Array], pa.Array], width: int) -> Writer:
    """Write a year with a `+` if it has more digits than the pattern."""
    write = _padded(part, width)

    def signed(stamps: pa.Array) -> pa.Array:
        text = write(stamps)
        more = pc.binary_join_element_wise("+", text, "")
        return pc.if_else(pc.greater_equal(part(stamps), 10**width), more, text)

    return signed


def _era(ours: str, before: str) -> Writer:
    return lambda stamps: pc.if_else(pc.less(pc.year(stamps), 1), before, ours)


def _day_in_aligned_week(stamps: pa.Array) -> pa.Array:
    return _counted(pc.day, 1, 7)(stamps)


def _constant(text: str) -> Writer:
    return lambda _stamps: text


def _half_day(stamps: pa.Array) -> pa.Array:
    return pc.if_else(pc.less(pc.hour(stamps), 12), "AM", "PM")


_QUARTERS = ("1st quarter", "2nd quarter", "3rd quarter", "4th quarter")
_hour12, _hour11, _hour24 = _counted(pc.hour, 1, 12), _counted(pc.hour, 0, 12), _counted(pc.hour, 1, 24)

_WRITERS: dict[str, Writer] = {
    **dict.fromkeys(("G", "GG", "GGG"), _era("AD", "BC")), "GGGG": _era("Anno Domini", "Before Christ"),
    "y": _padded(_year_of_era, 1), "yy": _padded(_counted(_year_of_era, 0, 100), 2),
    "yyy": _padded(_year_of_era, 3),
    **{"y" * width: _year(_year_of_era, width) for width in (4, 5, 6)}, "uuuu": _year(pc.year, 4),
    **dict.fromkeys(("M", "L"), _padded(pc.month, 1)), **dict.fromkeys(("MM", "LL"), _padded(pc.month, 2)),
    "MMM": _named(pc.month, _MONTHS, 1, 3), "MMMM": _named(pc.month, _MONTHS, 1, None),
    "d": _padded(pc.day, 1), "dd": _padded(pc.day, 2),
    "D": _padded(pc.day_of_year, 1), "DDD": _padded(pc.day_of_year, 3),
    "F": _padded(_day_in_aligned_week, 1),
    **{"E" * count: _named(pc.day_of_week, _DAYS, 0, 3) for count in (1, 2, 3)},
    "EEEE": _named(pc.day_of_week, _DAYS, 0, None),
    **dict.fromkeys(("Q", "q"), _padded(pc.quarter, 1)),
    **dict.fromkeys(("QQ", "qq"), _padded(pc.quarter, 2)),
    "QQQ": _named(pc.quarter, ("Q1", "Q2", "Q3", "Q4"), 1, None),
    "QQQQ": _named(pc.quarter, _QUARTERS, 1, None),
    "H": _padded(pc.hour, 1), "HH": _padded(pc.hour, 2), "h": _padded(_hour12, 1), "hh": _padded(_hour12, 2),
    "k": _padded(_hour24, 1), "kk": _padded(_hour24, 2), "K": _padded(_hour11, 1), "KK": _padded(_hour11, 2),
    "a": _half_day,
    "m": _padded(pc.minute, 1), "mm": _padded(pc.minute, 2),
    "s": _padded(pc.second, 1), "ss": _padded(pc.second, 2),
    **{
        letters: _constant(text)
        for text, several in (
            ("Z", "X XX XXX XXXX XXXXX ZZZZZ"), ("+0000", "Z ZZ ZZZ xx xxxx"), ("+00", "x"),
            ("+00:00", "xxx xxxxx"), ("GMT", "ZZZZ O OOOO"), ("UTC", "z zz zzz VV"),
            ("Coordinated Universal Time", "zzzz"),
        )
        for letters in several.split()
    },
}  # fmt: skip


@lru_cache(maxsize=256)
def writer(pattern: str) -> Callable[[pa.Array], pa.Array]:
    """Return a function from timestamps (without zone) to strings."""
    writers: list[Writer] = []
    for text, letters in pieces(pattern, written=True):
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
