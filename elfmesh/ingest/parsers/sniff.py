"""What format the first lines of a file are in, where that is certain; knows looks, makes no parser."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from elfmesh.errors import DataError
from elfmesh.ingest.parsers.csv_lines import COMMA, TAB, csv_row
from elfmesh.ingest.parsers.json_lines import json_fields
from elfmesh.ingest.parsers.lines import Lines
from elfmesh.ingest.parsers.logfmt import logfmt_fields
from elfmesh.ingest.parsers.pattern_formats.patterns import Pattern
from elfmesh.ingest.parsers.pattern_formats.servers import CRI, GLOG, NGINX_ERROR
from elfmesh.ingest.parsers.syslog import PATTERNS as SYSLOG

LINES_MAX = 20
SHARE = 0.5
"""At least this share of the first lines must look like a format for it to be chosen."""

USER_WORDS_MAX = 3
"""Words a user's name has at most where that decides what a line is."""

_ACCESS_LINE = r'[^ ]+ [^ ]+ .+? \[.*?\] ".*?" [0-9]{3} (?:[0-9]+|-)(?P<more> ")?'
_VHOST = re.compile(r"[^ ]+:\d+ ")
_NAME = re.compile(r"\s*[A-Za-z_@][\w .@-]*")
BARE_NAMES = "abcdefghij"
_FOREIGN = (
    (b"BZh", "compressed with bzip2", "bunzip2 -c"),
    (b"\xfd7zXZ\0", "compressed with xz", "xz -dc"),
    (b"\x04\x22\x4d\x18", "compressed with lz4", "lz4 -dc"),
    (b"PK\x03\x04", "a zip archive", "unzip -p"),
    (b"\xff\xfe", "UTF-16", "iconv -f UTF-16 -t UTF-8"),
    (b"\xfe\xff", "UTF-16", "iconv -f UTF-16 -t UTF-8"),
)
"""How files begin that are read once they are converted: what they are, and what converts them."""

NUL_BYTES = 16
"""Bytes at the beginning of which every second one is NUL in UTF-16 without a mark."""

_DOCKER = {"log", "stream", "time"}


def _like(*patterns: Pattern) -> Callable[[str], bool]:
    import re2  # linear in what hostile lines may be

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

    return re2.match(_ACCESS_LINE, text)  # compiled once: re2 keeps them


def _certain_access(text: str) -> Any:
    """An access line whose words before the time can be nothing but host, ident and user.

    A user may have spaces, but a line with more words may as well have something in front of it.
    """
    match = _access(text)
    words = text.partition(" [")[0].split(" ")
    has_spaced_user = 3 < len(words) <= USER_WORDS_MAX + 2 and words[1] == "-" and "-" not in words[2:]
    return match if len(words) == 3 or has_spaced_user else None


def _combined(text: str) -> bool:
    match = _certain_access(text)
    return bool(match and match["more"])


def _behind_vhost(text: str) -> str:
    """What stands behind a virtual host with a port; nothing if there is none."""
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
    """The format the first lines of a block look like; "" when it cannot be told."""
    texts = _first_lines(block)
    if not texts or _foreign(block) is not None:
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
    """Names for the columns of a csv file that seems to have no header; nothing if it looks like none."""
    rows = [csv_row(text, COMMA) for text in _first_lines(block)]
    widths = {len(row) for row in rows}
    if len(rows) < 2 or len(widths) > 1 or not 1 < len(rows[0]) <= len(BARE_NAMES):
        return ""
    return "" if all(map(_NAME.fullmatch, rows[0])) else ",".join(BARE_NAMES[: len(rows[0])])


def unreadable(path: str, block: bytes) -> DataError | None:
    """What a file is that has to be converted before it can be read; None if it is none of these."""
    foreign = _foreign(block)
    if foreign is None:
        return None
    what, command = foreign
    hint = f"Convert it: {command} {path} | elf run '...' -"
    return DataError(f"the file is {what}, which elfmesh cannot read", where=path, hint=hint)


def _foreign(block: bytes) -> tuple[str, str] | None:
    """What a file that begins so is, and what converts it: by its magic number, or NUL bytes of UTF-16."""
    for start, what, command in _FOREIGN:
        if block.startswith(start):
            return what, command
    head = block[:NUL_BYTES]
    for first, encoding in ((1, "UTF-16LE"), (0, "UTF-16BE")):
        nuls, others = head[first::2], head[1 - first :: 2]
        if len(head) == NUL_BYTES and not any(nuls) and all(others):
            return "UTF-16", f"iconv -f {encoding} -t UTF-8"
    return None
