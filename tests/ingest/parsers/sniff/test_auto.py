"""Which format a block of lines is of."""

from __future__ import annotations

import pytest

from elfmesh.ingest.parsers import AutoParser, StreamFormat, sniff

ACCESS = b'h - - [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 5'


@pytest.mark.parametrize(
    ("block", "name"),
    [
        (b'{"a":1}\n{"b":2}\n', "json"),
        (b'# comment\n{"a":1}\n{"b":2}\n', "json"),
        (ACCESS + b"\n", "common"),
        (ACCESS + b' "-" "agent"\n', "combined"),
        (b"www.x.org:82 " + ACCESS + b"\n", "vhost_common"),
        (b"www.x.org:82 " + ACCESS + b' "-" "agent"\n', "vhost_combined"),
        (ACCESS.replace(b"- - ", b"- John Smith ") + b"\n", "common"),
        (b"2001:db8::1" + ACCESS.replace(b"- - ", b"- John Smith ")[1:] + b"\n", "common"),
        (b"Nov 22 06:01:00 web1 nginx: " + ACCESS + b"\n", "syslog"),
        (b"<134>Nov 22 06:01:00 web1 nginx[12]: " + ACCESS + b' "-" "agent"\n', "syslog"),
        (b"2026-11-22T06:01:00+00:00 web1 nginx: " + ACCESS + b"\n", "syslog"),
        (b"<134>1 2026-11-22T06:01:00Z web1 nginx - - - " + ACCESS + b"\n", "syslog"),
        (b"www.x.org " + ACCESS + b"\n", ""),
        (b"nginx-1 | " + ACCESS + b"\n", ""),
        (b'level=info msg="x y"\n', "logfmt"),
        (b"a,b,c\n1,2,3\n", "csv"),
        (b"Jul 10 12:00:01 host sshd[1]: hello\n", "syslog"),
        (b"\xfd7zXZ\0a=b c=d\n", ""),
        ((ACCESS + b"\n").decode().encode("utf-16-le"), ""),
        (b"\n\n", ""),
        (b"", ""),
    ],
)
def test_auto_recognises(block: bytes, name: str) -> None:
    assert sniff(block) == name


@pytest.mark.parametrize(
    ("block", "names"),
    [
        (b"www.x.org " + ACCESS + b"\n", ("vhost_common", "common")),
        (b"www.x.org " + ACCESS + b' "-" "agent"\n', ("vhost_combined", "combined")),
        ((ACCESS + b"\n") * 12 + (b"www.x.org:82 " + ACCESS + b"\n") * 8, ("vhost_common", "common")),
        ((ACCESS + b"\n") * 19 + b"Nov 22 06:01:00 web1 nginx: " + ACCESS + b"\n", ("syslog", "common")),
        (b"what is this\n", ()),
    ],
)
def test_where_two_formats_are_possible_auto_names_both(block: bytes, names: tuple[str, ...]) -> None:
    parser = StreamFormat("auto").parser("f")
    assert isinstance(parser, AutoParser)
    parsed = parser.parse(block, ["host"])
    assert parser.chosen == ""
    assert parser.candidates == names
    assert " or ".join(names) in parsed.samples[0]


def test_auto_decides_once_per_file_and_reports_its_choice() -> None:
    parser = StreamFormat("auto").parser("f")
    assert isinstance(parser, AutoParser)
    assert parser.parse(b"\n", ["a"]).lines == 0
    assert parser.chosen == ""
    assert parser.parse(b'{"a":1}\n', ["a"]).batch.num_rows == 1
    assert parser.chosen == "json"
    assert parser.parse(ACCESS, ["a"]).errors == 1
