"""Functions for web logs: parts of URLs, percent encoding, IP addresses and flows, user agents.

URLs are parsed as by Java's `URI`, because Spark's `parse_url` uses it; addresses by `ipaddress`; user agents
by the optional package `ua-parser`. Invalid input gives null, never an error.
"""

from __future__ import annotations

import hashlib
import ipaddress
import re
import struct
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any
from urllib.parse import quote_plus, unquote_to_bytes

import pyarrow as pa

from elfmesh.errors import ConfigError
from elfmesh.ql.expressions.nodes import Call
from elfmesh.ql.expressions.operand import Operand, lift_arrays
from elfmesh.ql.expressions.registry import (
    CompileContext,
    argument,
    function,
    literal_text,
    nothing,
    simple,
)
from elfmesh.ql.functions.nested.lists import TEXTS, over_rows
from elfmesh.ql.values.columns import map_distinct
from elfmesh.ql.values.types import BIGINT, BOOLEAN, STRING

_URL_PARTS = ("HOST", "PATH", "QUERY", "REF", "PROTOCOL", "FILE", "AUTHORITY", "USERINFO")
_AGENT_PARTS = ("browser", "browser_version", "os", "os_version", "device")
_URI = re.compile(
    r"(?:([A-Za-z][A-Za-z0-9+.-]*):)?(?://([^/?#]*))?([^?#]*)(?:\?([^#]*))?(?:#(.*))?", re.DOTALL
)
_LEGAL = re.compile(r"(?:[A-Za-z0-9_.!~*'();:@&=+$,/?\[\]#-]|%[0-9A-Fa-f]{2}|[^\x00-\xa0\u2028\u2029])*")
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_SERVER = re.compile(
    rf"(?:([^@]*)@)?((?:{_LABEL}\.)*[A-Za-z](?:[A-Za-z0-9-]*[A-Za-z0-9])?\.?"
    r"|\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}|\[[0-9A-Fa-f:.]+\])(?::(\d*))?"
)


@lru_cache(maxsize=4096)
def url_parts(url: str) -> dict[str, str | None] | None:
    """Return the parts of a URL by Spark's names; None if Java would refuse it."""
    if not _LEGAL.fullmatch(url) or url.count("#") > 1:
        return None
    match = _URI.fullmatch(url)
    if match is None:
        return None
    scheme, authority, path, query, fragment = match.groups()
    if scheme is None and ":" in path.split("/")[0]:
        return None
    if "[" in path or "]" in path:
        return None
    parts: dict[str, str | None] = dict.fromkeys(_URL_PARTS)
    parts |= {"PROTOCOL": scheme, "REF": fragment}
    opaque = scheme is not None and authority is None and not path.startswith("/")
    if opaque:  # mailto:someone has no parts
        return parts if path or query is not None else None
    parts |= {"PATH": path, "QUERY": query, "AUTHORITY": authority or None}
    parts["FILE"] = path if query is None else f"{path}?{query}"
    server = _SERVER.fullmatch(authority or "")
    if server is not None:
        parts |= {"USERINFO": server[1], "HOST": server[2]}
    return parts


@function("parse_url try_parse_url", 2, 3, signature="$(url, 'HOST'), or $(url, 'QUERY', key)")
def _parse_url(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    part = literal_text(context, call, args, 1, "the part")
    url = argument(context, call, args, 0, STRING)
    if part is None:
        return nothing(STRING)
    if part not in _URL_PARTS:
        raise context.error(
            call.args[1],
            f"parse_url does not support the part {part!r}",
            f"There are {', '.join(_URL_PARTS)}.",
        )
    if len(args) == 3 and part != "QUERY":
        raise context.error(call.args[2], "only QUERY takes a key", "Write parse_url(url, 'QUERY', 'id').")

    def one(text: str) -> str | None:
        return (url_parts(text) or {}).get(part)

    if len(args) == 2:
        return lift_arrays(STRING, lambda x: map_distinct(one, x, STRING), url)
    return over_rows(
        STRING, lambda text, key: query_value(one(text), key), url, argument(context, call, args, 2, STRING)
    )


def query_value(query: str | None, key: str) -> str | None:
    """Return the undecoded value of a key in a query string: `b` for `a` in `a=1&b=2`."""
    if query is None:
        return None
    for pair in query.split("&"):
        name, sign, value = pair.partition("=")
        if sign and name == key:
            return value
    return None


@function("query_param", 2, signature="$(query or url, key)")
def _query_param(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    def one(text: str, key: str) -> str | None:
        return next(query_values(text, key), None)

    return over_rows(STRING, one, *(argument(context, call, args, at, STRING) for at in range(2)))


@function("query_params", 2, signature="$(query or url, key)", lists=True)
def _query_params(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    def all_of(text: str, key: str) -> list[str | None]:
        return list(query_values(text, key))

    return over_rows(TEXTS, all_of, *(argument(context, call, args, at, STRING) for at in range(2)))


def query_values(text: str, key: str) -> Iterator[str | None]:
    """Yield the decoded values of a key in a query string or URL, in their order."""
    query = text.partition("?")[2] if "?" in text else text
    for pair in query.partition("#")[0].split("&"):
        name, _, value = pair.partition("=")
        if decoded(name) == key:
            yield decoded(value)


def decoded(text: str) -> str | None:
    """Decode percent encoding with `+` as a space; None if a percent sign is not followed by two digits."""
    if re.search(r"%(?![0-9A-Fa-f]{2})", text):
        return None
    return unquote_to_bytes(text.replace("+", " ")).decode(errors="replace")


def _encoded(text: str) -> str:
    return quote_plus(text, safe="*").replace("~", "%7E")


def _by_distinct(python: Callable[[str], Any], kind: pa.DataType) -> Callable[[pa.Array], pa.Array]:
    return lambda array: map_distinct(python, array, kind)


simple("url_encode", [STRING], STRING, _by_distinct(_encoded, STRING), arrays=True, signature="$(x)")
simple(
    "url_decode try_url_decode",
    [STRING],
    STRING,
    _by_distinct(decoded, STRING),
    arrays=True,
    signature="$(x)",
)


# -- addresses


@lru_cache(maxsize=4096)
def address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text.strip())
    except ValueError:
        return None


@lru_cache(maxsize=4096)
def network(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    """Parse a network in CIDR notation, host bits allowed; None if it is invalid."""
    try:
        return ipaddress.ip_network(text.strip(), strict=False)
    except ValueError:
        return None


def _is_version(version: int) -> Callable[[pa.Array], pa.Array]:
    def one(text: str) -> bool:
        found = address(text)
        return found is not None and found.version == version

    return _by_distinct(one, BOOLEAN)


def _ipv4_number(text: str) -> int | None:
    found = address(text)
    return int(found) if isinstance(found, ipaddress.IPv4Address) else None


def _ipv4_text(number: int) -> str | None:
    return str(ipaddress.IPv4Address(number)) if 0 <= number < 2**32 else None


def _is_private(text: str) -> bool | None:
    found = address(text)
    return None if found is None else found.is_private


simple("is_ipv4", [STRING], BOOLEAN, _is_version(4), arrays=True, signature="$(x)")
simple("is_ipv6", [STRING], BOOLEAN, _is_version(6), arrays=True, signature="$(x)")
simple("ip_is_private", [STRING], BOOLEAN, _by_distinct(_is_private, BOOLEAN), arrays=True, signature="$(ip)")
simple("ipv4_to_int", [STRING], BIGINT, _by_distinct(_ipv4_number, BIGINT), arrays=True, signature="$(ip)")
simple(
    "int_to_ipv4", [BIGINT], STRING, lambda x: map_distinct(_ipv4_text, x, STRING), arrays=True,
    signature="$(n)",
)  # fmt: skip


@function("cidr_contains", 2, signature="$('10.0.0.0/8', ip)")
def _cidr_contains(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    cidr, ip = (argument(context, call, args, at, STRING) for at in range(2))
    if cidr.constant and cidr.value() is not None and network(str(cidr.value())) is None:
        raise context.error(
            call.args[0], f"{cidr.value()!r} is no network", "Write '10.0.0.0/8' or '2001:db8::/32'."
        )

    def one(block: str, text: str) -> bool | None:
        around, found = network(block), address(text)
        if around is None or found is None:
            return None
        return found.version == around.version and found in around

    return over_rows(BOOLEAN, one, cidr, ip)


@function("ip_prefix", 2, signature="$(ip, bits)")
def _ip_prefix(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    def one(text: str, bits: int) -> str | None:
        found = address(text)
        if found is None or not 0 <= bits <= found.max_prefixlen:
            return None
        block = network(f"{found}/{bits}")
        return None if block is None else str(block.network_address)

    return over_rows(
        STRING, one, argument(context, call, args, 0, STRING), argument(context, call, args, 1, BIGINT)
    )


# -- flows


def _both_ways(*pairs: tuple[int, int]) -> dict[int, int]:
    return {one: other for pair in pairs for one, other in (pair, pair[::-1])}


_ANSWERS: Mapping[int, Mapping[int, int]] = {
    1: _both_ways((8, 0), (13, 14), (15, 16), (10, 9), (17, 18)),
    58: _both_ways((128, 129), (133, 134), (135, 136), (130, 131), (139, 140), (144, 145)),
}
"""By protocol (ICMP, ICMPv6): the type of the answer to a type. Other types have no answer: one-way flows."""

_PORTS = {6, 17, 132, *_ANSWERS}
"""Protocols with ports: TCP, UDP, SCTP, and ICMP with its type and code."""


def community_id(
    source: str, destination: str, source_port: int | None, destination_port: int | None, protocol: int,
    seed: int,
) -> str | None:  # fmt: skip
    """Return the Community ID (version 1) of a flow: the same in both directions; None if it has none."""
    one, other = address(source), address(destination)
    if one is None or other is None or one.version != other.version:
        return None
    if not 0 <= protocol < 256 or not 0 <= seed < 65_536:
        return None
    ports: tuple[int, int] | None = None
    swapped = True
    if protocol in _PORTS:
        if source_port is None or destination_port is None:
            return None
        ports = source_port, destination_port
        if not all(0 <= port < 65_536 for port in ports):
            return None
        if protocol in _ANSWERS:
            answer = _ANSWERS[protocol].get(source_port)
            swapped = answer is not None
            ports = source_port, destination_port if answer is None else answer
    here, there = ((end.packed, port) for end, port in zip((one, other), ports or (0, 0), strict=True))
    if swapped and there < here:
        here, there = there, here
    flow = struct.pack("!H", seed) + here[0] + there[0] + struct.pack("!BB", protocol, 0)
    if ports is not None:
        flow += struct.pack("!HH", here[1], there[1])
    return "1:" + b64encode(hashlib.sha1(flow, usedforsecurity=False).digest()).decode()


@function("community_id", 5, 6, signature="$(ip, other_ip, port, other_port, protocol[, seed])")
def _community_id(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    def one(source: Any, destination: Any, port: Any, other: Any, protocol: Any, seed: Any = 0) -> str | None:
        if source is None or destination is None or protocol is None or seed is None:
            return None
        return community_id(source, destination, port, other, protocol, seed)

    kinds = (STRING, STRING, BIGINT, BIGINT, BIGINT, BIGINT)
    operands = (argument(context, call, args, at, kind) for at, kind in enumerate(kinds[: len(args)]))
    return over_rows(STRING, one, *operands, nulls=True)


# -- user agents


def _agent_parser() -> Any:
    try:
        import ua_parser
    except ImportError:
        raise ConfigError(
            "user_agent needs the package ua-parser, which is not installed",
            hint="Install it on every agent with: pip install 'elfmesh[useragent]'.",
        ) from None
    return ua_parser


@lru_cache(maxsize=8192)
def _agent(text: str) -> dict[str, str | None]:
    found = _agent_parser().parse(text)
    browser, os, device = found.user_agent, found.os, found.device

    def version(*numbers: str | None) -> str | None:
        return ".".join(number for number in numbers if number) or None

    return {
        "browser": browser and browser.family,
        "browser_version": browser and version(browser.major, browser.minor, browser.patch),
        "os": os and os.family,
        "os_version": os and version(os.major, os.minor, os.patch),
        "device": device and device.family,
    }


@function("user_agent", 2, signature="$(agent, 'browser')")
def _user_agent(context: CompileContext, call: Call, args: list[Operand]) -> Operand:
    part = literal_text(context, call, args, 1, "the part")
    text = argument(context, call, args, 0, STRING)
    if part not in _AGENT_PARTS:
        raise context.error(
            call.args[1],
            f"user_agent does not support the part {part!r}",
            f"There are {', '.join(_AGENT_PARTS)}.",
        )
    _agent_parser()  # raises now if the package is missing
    return lift_arrays(STRING, lambda x: map_distinct(lambda agent: _agent(agent)[part], x, STRING), text)
