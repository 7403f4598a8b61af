"""Vector's examples of functions that are more than one value: several columns, several rows, or not ours."""

from __future__ import annotations

from collections.abc import Mapping

from tests.compat.cases import NotOurs, Ours, Translation

URL = "'ftp://foo:bar@example.com:4343/foobar?hello=world#123'"
PARTS = {
    "fragment": f"parse_url({URL}, 'REF')",
    "host": f"parse_url({URL}, 'HOST')",
    "password": f"split_part(parse_url({URL}, 'USERINFO'), ':', 2)",
    "path": f"parse_url({URL}, 'PATH')",
    "port": f"bigint(regexp_extract(parse_url({URL}, 'AUTHORITY'), ':([0-9]+)$', 1))",
    "query.hello": f"query_param({URL}, 'hello')",
    "scheme": f"parse_url({URL}, 'PROTOCOL')",
    "username": f"split_part(parse_url({URL}, 'USERINFO'), ':', 1)",
}
SITE = "'https://example.com'"
PORTS = "map('ftp', 21, 'http', 80, 'https', 443, 'ws', 80, 'wss', 443)"
DEFAULTS = {
    name: part.replace(URL, SITE)
    if name in ("fragment", "host", "scheme")
    else f"coalesce({part.replace(URL, SITE)}, '')"
    for name, part in PARTS.items()
    if name not in ("path", "port", "query.hello")
} | {
    "path": f"coalesce(nullif(parse_url({SITE}, 'PATH'), ''), '/')",
    "port": f"element_at({PORTS}, parse_url({SITE}, 'PROTOCOL'))",
}
"""What a URL leaves out, by the rules of its reader."""

REGEX = NotOurs("a pattern is no value")
NO_HASH = NotOurs("no XXH3")

WORDS = r"""A sentence "with \"a\" sentence inside" and [some brackets]"""
TOKEN = r""""((?:[^"\\]|\\.)*)"|\[([^\]]*)\]|(\S+)"""
BOOK = (
    '<book category="CHILDREN"><title lang="en">Harry Potter</title><author>J K. Rowling</author>'
    "<year>2005</year></book>"
)
FRUIT = "apples and carrots, peaches and peas"
GROUPS = "first group and second group."
PAIRS = r"([\w.]+) and (\w+)"


def quoted(text: str) -> str:
    """A text as a string of SQL."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def every(text: str, pattern: str, **groups: int) -> Ours:
    """A row for each match in a text, with some of its groups."""
    named = ", ".join(
        f"regexp_extract(m, {quoted(pattern)}, {at}) AS `{name.strip('_')}`" for name, at in groups.items()
    )
    matches = f"explode(regexp_extract_all({quoted(text)}, {quoted(pattern)}, 0)) AS m"
    return Ours(f"SELECT {named} FROM (SELECT {matches} FROM log) t")


def named(**columns: str) -> Ours:
    """Several values, by name."""
    return Ours(
        f"SELECT {', '.join(f'{each} AS `{name}`' for name, each in columns.items())} FROM log LIMIT 1"
    )


def out(expression: str) -> Ours:
    """One value."""
    return Ours(f"SELECT {expression} AS out FROM log LIMIT 1")


def each_of(how: str, words: str, pattern: str) -> Ours:
    """One value of the elements of a list."""
    return Ours(
        f"SELECT {how}(e RLIKE '{pattern}') AS out FROM log LATERAL VIEW explode(array({words})) t AS e"
    )


SINGLE: Mapping[str, Translation] = {
    "crc: Create CRC checksum using the CRC_32_CKSUM algorithm": NotOurs("another algorithm"),
    "encode_percent: Percent encode only control characters": NotOurs(
        "`url_encode` has one set of characters"
    ),
    "parse_query_string: Parse simple query string": Ours(
        "SELECT query_param('?foo=1&bar=2', 'foo') AS foo, query_param('?foo=1&bar=2', 'bar') AS bar\n"
        "FROM log LIMIT 1"
    ),
    "parse_query_string: Parse query string": named(
        bar="query_params('foo=%2B1&bar=2&bar=3&xyz', 'bar')",
        foo="query_param('foo=%2B1&bar=2&bar=3&xyz', 'foo')",
        xyz="query_param('foo=%2B1&bar=2&bar=3&xyz', 'xyz')",
    ),
    "parse_query_string: Parse Ruby on Rails' query string": named(
        **{"foo[]": "query_params('?foo%5b%5d=1&foo%5b%5d=2', 'foo[]')"}
    ),
    "parse_json: Parse JSON with max_depth": named(
        first_level="""get_json_object('{"first_level":{"second_level":"finish"}}', '$.first_level')"""
    ),
    "parse_regex: Parse using Regex (without capture groups)": named(
        **{
            str(group): rf"regexp_extract('first group and second group.', '(\\w+) group', {group})"
            for group in (0, 1)
        }
    ),
    "parse_regex: Parse using Regex with all numeric groups": named(
        **{
            name: rf"regexp_extract('8.7.6.5 - zorp', '^([\\w.]+) - (\\w+)', {group})"
            for name, group in {"0": 0, "1": 1, "2": 2, "host": 1, "user": 2}.items()
        }
    ),
    **{
        f"parse_regex_all: Parse using Regex {title}": every(text, pattern, **groups)
        for title, text, pattern, groups in (
            ("(all matches)", GROUPS, r"(\w+) group", {"number": 1, "_0": 0, "_1": 1}),
            ("(simple match)", FRUIT, PAIRS, {"fruit": 1, "veg": 2}),
            ("(all numeric groups)", FRUIT, PAIRS, {"fruit": 1, "veg": 2, "_0": 0, "_1": 1, "_2": 2}),
            ("with variables", FRUIT, PAIRS, {"fruit": 1, "veg": 2}),
        )
    },
    "match_datadog_query: Tag range": Ours(
        "SELECT bool_or(tag LIKE 'b:%' AND split_part(tag, ':', 2) BETWEEN 'x' AND 'z') AS out\n"
        "FROM log LATERAL VIEW explode(from_json(tags, 'ARRAY<STRING>')) t AS tag"
    ),
    "flatten: Flatten array": NotOurs("the elements of a list have one type"),
    "flatten: Flatten object": named(
        **{name: name for name in ("parent1.child1", "parent1.child2", "parent2.child3")}
    ),
    "flatten: Flatten object with custom separator": named(foo_bar="foo.bar"),
    "flatten: Flatten object with except": named(**{name: name for name in ("parent.child", "keep.nested")}),
    "parse_tokens: Parse tokens": out(
        f"slice(split(regexp_replace({quoted(WORDS)}, {quoted(TOKEN)}, '|$1$2$3'), ' ?[|]'), 2, 9)"
    ),
    "parse_aws_cloudwatch_log_subscription_message: Parse AWS Cloudwatch Log subscription message": Ours(
        """SELECT messageType AS message_type, owner, logGroup AS log_group, logStream AS log_stream,
       from_json(subscriptionFilters, 'ARRAY<STRING>') AS subscription_filters,
       e.id AS `log_events.id`, e.message AS `log_events.message`,
       date_format(timestamp_millis(e.timestamp), "yyyy-MM-dd'T'HH:mm:ss.SSSXXX") AS `log_events.timestamp`
FROM (
  SELECT messageType, owner, logGroup, logStream, subscriptionFilters,
         explode(from_json(logEvents, 'ARRAY<STRUCT<id: STRING, timestamp: BIGINT, message: STRING>>')) AS e
  FROM log
) events"""
    ),
    "parse_xml: Parse XML": named(
        **{
            f"book.{name}": f"regexp_extract({quoted(BOOK)}, {quoted(pattern)}, 1)"
            for name, pattern in {
                "@category": '<book category="([^"]*)"',
                "author": "<author>([^<]*)</author>",
                "title.@lang": '<title lang="([^"]*)"',
                "title.value": "<title[^>]*>([^<]*)</title>",
                "year": "<year>([^<]*)</year>",
            }.items()
        }
    ),
    "xxhash: Calculate a hash using the XXH3-64 algorithm": NO_HASH,
    "xxhash: Calculate a hash using the XXH3-128 algorithm": NO_HASH,
    "parse_url: Parse URL": Ours(
        f"SELECT {', '.join(f'{part} AS `{name}`' for name, part in PARTS.items())} FROM log LIMIT 1"
    ),
    "parse_url: Parse URL with default port": Ours(
        f"SELECT {', '.join(f'{part} AS `{name}`' for name, part in DEFAULTS.items())} FROM log LIMIT 1"
    ),
    "to_bool: Timestamp": NotOurs("a time is true, as in Spark"),
    **{
        f"match_array: {title}": each_of(how, words, pattern)
        for title, how, words, pattern in (
            ("Match at least one element", "bool_or", "'foobar', 'bazqux'", "foo"),
            ("Match all elements", "bool_and", "'foo', 'foobar', 'barfoo'", "foo"),
            ("No matches", "bool_or", "'bazqux', 'xyz'", "foo"),
            ("Not all elements match", "bool_and", "'foo', 'foobar', 'baz'", "foo"),
        )
    },
    **{f"to_{kind}: Regex": REGEX for kind in ("bool", "float", "int", "string")},
}
