"""Recognition of the format of a file by its first lines, if they are unambiguous. Makes no parsers."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from elfmesh.errors import DataError
from elfmesh.ingest.parsers.csv_lines import COMMA, TAB, csv_row
from elfmesh.ingest.parsers.json_lines import json_fields
from elfmesh.ingest.parsers.lines import Lines
from elfmesh.ingest.parsers.logfmt import logfmt_fields
from elfmesh.ingest.parsers.pattern_formats.patterns import LinePattern
from elfmesh.ingest.parsers.pattern_formats.servers import CRI, GLOG, NGINX_ERROR
from elfmesh.ingest.parsers.syslog import PATTERNS as SYSLOG

LINES_MAX = 20
SHARE = 0.5
"""Minimum share of the first lines that must match a format."""

USER_WORDS_MAX = 3
"""Maximum number of words of a user's name in the recognition of access logs."""

_ACCESS_LINE = r'[^ ]+ [^ ]+ .+? \[.*?\] ".*?" [0-9]{3} (?:[0-9]+|-)(?P<more> ")?'
_VHOST = re.compile(r"[^ ]+:\d+ ")
_NAME = re.compile(r"\s*[A-Za-z_@][\w .@-]*")
BARE_NAMES = "abcdefghij"
PARQUET_MAGIC = b"PAR1"
_FOREIGN = (
    (b"BZh", "compressed with bzip2", "bunzip2 -c"),
    (b"\xfd7zXZ\0", "compressed with xz", "xz -dc"),
    (b"\x04\x22\x4d\x18", "compressed with lz4", "lz4 -dc"),
    (b"PK\x03\x04", "a zip archive", "unzip -p"),
    (b"\xff\xfe", "UTF-16", "iconv -f UTF-16 -t UTF-8"),
    (b"\xfe\xff", "UTF-16", "iconv -f UTF-16 -t UTF-8"),
)
"""Signatures of files that must be converted before they are read: what they are, and the converter."""

_ARRAY = re.compile(rb"\s*\[(?:[ \t]*\r?\n\s*\{|\s*\{.*,[ \t]*\r?\n|\s*\{.*\][ \t]*\r?\n?\Z)")
"""A bracket alone in the first line, a line that ends with a comma, or a single line."""

NUL_BYTES = 16
"""Bytes at the beginning that are checked for UTF-16 without a mark: every second one is NUL."""

_DOCKER = {"log", "stream", "time"}


def _like(*patterns: LinePattern) -> Callable[[str], bool]:
    import re2  # linear even for malicious lines

    compiled = [re2.compile(pattern.text) for pattern in patterns]
    return lambda text: any(each.search(text) for each in compiled)


def _begins(pattern: str) -> Callable[[str], bool]:
    compiled = re.compile(pattern)
    return lambda text: compiled.match(text) is not None


def _json(text: str) -> bool:
    return text.lstrip().startswith("{")


def _docker(text: str) -> bool:
    return text.startswith('{"log":') and set(json_fields(text)) - {"attrs"} == _DOCKER


def _journald(text: str) -> bool:
    return '"__REALTIME_TIMESTAMP"' in text and "__CURSOR" in json_fields(text)


def _access(text: str) -> Any:
    import re2

    return re2.match(_ACCESS_LINE, text)  # re2 caches compiled patterns


def _certain_access(text: str) -> Any:
    """Match an access line whose words before the time can only be host, ident and user.

    A user may contain spaces, but a line with more words may have a prefix instead.
    """
    match = _access(text)
    words = text.partition(" [")[0].split(" ")
    has_spaced_user = 3 < len(words) <= USER_WORDS_MAX + 2 and words[1] == "-" and "-" not in words[2:]
    return match if len(words) == 3 or has_spaced_user else None


def _combined(text: str) -> bool:
    match = _certain_access(text)
    return bool(match and match["more"])


def _behind_vhost(text: str) -> str:
    """Return the text after a virtual host with a port; "" if there is none."""
    match = _VHOST.match(text)
    return text[match.end() :] if match and not text.startswith("- ", match.end()) else ""


def _vhost_combined(text: str) -> bool:
    return _combined(_behind_vhost(text))


def _vhost_common(text: str) -> bool:
    return bool(_certain_access(_behind_vhost(text)))


def _common(text: str) -> bool:
    return bool(_certain_access(text))


def _vhost_or_user(text: str) -> str:
    match = _access(text)
    if not match or len(text.partition(" [")[0].split(" ")) != 4:
        return ""
    return "combined" if match["more"] else "common"


def _mixed(name: str, texts: list[str]) -> list[str]:
    if name not in ("combined", "common"):
        return []
    tests = dict(_TESTS)
    taken = [text for text in texts if _access(text) and not _certain_access(text)]
    return [other for other in ("vhost_combined", "vhost_common", "syslog") if any(map(tests[other], taken))]


def _logfmt(text: str) -> bool:
    fields = logfmt_fields(text)
    return bool(fields) and text.count("=") >= 2 and "=" in text.split(" ", 1)[0]


_TESTS: tuple[tuple[str, Callable[[str], bool]], ...] = (
    ("docker", _docker),
    ("journald", _journald),
    ("json", _json),
    ("vhost_combined", _vhost_combined),
    ("vhost_common", _vhost_common),
    ("combined", _combined),
    ("common", _common),
    ("cef", _begins(r"(?:.*[\s>])?CEF:\d\|(?:[^|]*\|){5}")),
    ("leef", _begins(r"(?:.*[\s>])?LEEF:\d\.\d\|(?:[^|]*\|){4}")),
    ("cri", _like(*CRI.patterns)),
    ("syslog", _like(*SYSLOG[:4])),
    ("nginx_error", _like(*NGINX_ERROR.patterns)),
    ("glog", _like(*GLOG.patterns)),
    ("apache_error", _begins(r"\[\w{3} \w{3} \d\d [\d:.]+ \d{4}\] \[(?:\w+:)?\w+\] ")),
    ("logfmt", _logfmt),
)


def sniff(block: bytes) -> str:
    """Return the format of the first lines of a block; "" if it is not certain."""
    texts = _first_lines(block)
    if not texts or block.startswith(PARQUET_MAGIC) or _foreign(block) is not None:
        return ""
    if texts[0].startswith("#") and any(text.startswith("#Fields:") for text in texts):
        return "w3c"
    if block.startswith(b"__CURSOR=") and b"\n__REALTIME_TIMESTAMP=" in block:
        return "journald_export"
    if name := _commonest(texts):
        return "" if _mixed(name, texts) else name
    for name, delimiter in (("csv", COMMA), ("tsv", TAB)):
        widths = {len(csv_row(text, delimiter)) for text in texts}
        header = csv_row(texts[0], delimiter)
        if len(widths) == 1 and len(header) > 1 and all(map(_NAME.fullmatch, header)):
            return name
    return ""


def _commonest(texts: list[str]) -> str:
    for name, looks in _TESTS:
        if sum(map(bool, map(looks, texts))) >= max(1, SHARE * len(texts)):
            return name
    return ""


def candidates(block: bytes) -> tuple[str, ...]:
    texts = _first_lines(block)
    name = _commonest(texts)
    if others := _mixed(name, texts):
        return others[0], name
    variants = [variant for variant in map(_vhost_or_user, texts) if variant]
    if not variants or len(variants) < SHARE * len(texts):
        return ()
    return f"vhost_{variants[0]}", variants[0]


def _first_lines(block: bytes) -> list[str]:
    lines = Lines(block[: 64 << 10] if b"\n" in block[: 64 << 10] else block)
    return [lines.text(row) for row in range(min(len(lines), LINES_MAX))]


def bare_csv_names(block: bytes) -> str:
    """Return names for the columns of a csv file that seems to have no header.

    Returns "" if it does not look like one.
    """
    rows = [csv_row(text, COMMA) for text in _first_lines(block)]
    widths = {len(row) for row in rows}
    if len(rows) < 2 or len(widths) > 1 or not 1 < len(rows[0]) <= len(BARE_NAMES):
        return ""
    return "" if all(map(_NAME.fullmatch, rows[0])) else ",".join(BARE_NAMES[: len(rows[0])])


def unreadable(path: str, block: bytes) -> DataError | None:
    """Return the error for a file that must be converted before it can be read; None for others."""
    if block.startswith(PARQUET_MAGIC):
        hint = "Give Parquet files alone, and not compressed: elf run '...' FILE."
        return DataError("is a Parquet file, in a pipe or behind lines", where=path, hint=hint)
    foreign = _foreign(block)
    if foreign is None:
        return None
    what, command = foreign
    hint = f"Convert it: {command} {path} | elf run '...' -"
    return DataError(f"the file is {what}, which elfmesh cannot read", where=path, hint=hint)


def _foreign(block: bytes) -> tuple[str, str] | None:
    """Return what a file is, and its converter, by its first bytes."""
    for start, what, command in _FOREIGN:
        if block.startswith(start):
            return what, command
    if _ARRAY.match(block):
        return "one JSON array", "jq -c '.[]'"
    head = block[:NUL_BYTES]
    for first, encoding in ((1, "UTF-16LE"), (0, "UTF-16BE")):
        nuls, others = head[first::2], head[1 - first :: 2]
        if len(head) == NUL_BYTES and not any(nuls) and all(others):
            return "UTF-16", f"iconv -f {encoding} -t UTF-8"
    return None
