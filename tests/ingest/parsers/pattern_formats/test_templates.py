"""A server's own words against the access parser: where both read a line, they read the same."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elfmesh.ingest.parsers import StreamFormat
from elfmesh.ingest.parsers.access import COMBINED_COLUMNS
from tests.ingest.parsers.pattern_formats.test_patterns import ACCESS

WORD = st.text(alphabet='ab/?=.-_"\\é%', min_size=1, max_size=8)
REQUEST = st.lists(WORD, min_size=1, max_size=4).map(" ".join)


def escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.tuples(
            WORD, WORD, REQUEST, st.integers(100, 599), st.one_of(st.none(), st.integers(0, 10**9)), WORD
        ),
        min_size=1,
        max_size=5,
    )
)
def test_combined_as_a_template_is_combined(lines: list[tuple[str, str, str, int, int | None, str]]) -> None:
    text = "".join(
        f'{host} - {user} [17/May/2015:10:05:03 +0000] "{escaped(request)}" {status}'
        f' {"-" if size is None else size} "-" "{escaped(agent)}"\n'
        for host, user, request, status, size, agent in lines
    ).encode()
    words = 'apache:%h %l %u %t "%r" %>s %b "%{Referer}i" "%{User-Agent}i"'
    template = StreamFormat(words).parser("f").parse(text, COMBINED_COLUMNS)
    combined = StreamFormat("combined").parser("f").parse(text, COMBINED_COLUMNS)
    assert template.errors == combined.errors == 0
    assert template.batch.to_pylist() == combined.batch.to_pylist()


BEHIND = st.sampled_from([ACCESS, ACCESS.replace("GET ", ""), "bad", ""])
HOSTS = {"a.example:443": ("a.example", 443), "b": ("b", None), "::1:80": ("::1", 80), "x:y": ("x:y", None)}
VHOST = st.sampled_from(sorted(HOSTS))


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(VHOST, st.sampled_from([ACCESS, ACCESS.replace("GET ", ""), "bad", ""])), max_size=6)
)
def test_a_virtual_host_in_front_changes_nothing_behind_it(lines: list[tuple[str, str]]) -> None:
    text = "".join(f"{vhost} {line}\n" for vhost, line in lines).encode()
    plain = "".join(f"{line or '-'}\n" for _, line in lines).encode()
    columns = [*COMBINED_COLUMNS, "vhost", "port"]
    found = StreamFormat("vhost_combined").parser("f").parse(text, columns)
    behind = StreamFormat("combined").parser("f").parse(plain, COMBINED_COLUMNS)
    assert found.select(COMBINED_COLUMNS).equals(behind.batch)
    assert (found.lines, found.errors) == (behind.lines, behind.errors)
    expected = [HOSTS[vhost] for vhost, line in lines if line.startswith("1.2.3.4")]
    assert list(zip(*(found.arrays[name].to_pylist() for name in ("vhost", "port")), strict=True)) == expected


@pytest.mark.parametrize(
    ("line", "host", "port"),
    [
        ("[2001:db8::1]:443 200", "[2001:db8::1]", "443"),
        ("2001:db8::1:443 200", "2001:db8::1", "443"),
        ("www.x.org:80 200", "www.x.org", "80"),
        ("cafe.de:80 200", "cafe.de", "80"),
        ("192.0.2.1:80 200", "192.0.2.1", "80"),
    ],
)
def test_a_host_before_a_port_may_have_colons(line: str, host: str, port: str) -> None:
    parsed = (
        StreamFormat("nginx:$host:$server_port $status")
        .parser("f")
        .parse(line.encode() + b"\n", ["vhost", "server_port", "status"])
    )
    assert parsed.batch.to_pylist() == [{"vhost": host, "server_port": port, "status": 200}]


def test_a_path_behind_a_host_keeps_its_colons() -> None:
    parsed = (
        StreamFormat("nginx:$host:$request_uri $status")
        .parser("f")
        .parse(b"www.x.org:/a:b 200\n", ["vhost", "request_uri"])
    )
    assert parsed.batch.to_pylist() == [{"vhost": "www.x.org", "request_uri": "/a:b"}]
