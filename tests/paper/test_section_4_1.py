"""ELF (USENIX ATC 2014), section 4.1: social spam, the application that its evaluation runs."""

from __future__ import annotations

from typing import Any

from tests.ql.conftest import run

POSTS = [
    ("buy_now", "Ohio"),
    ("anna", "Lyon"),
    ("buy_now", "Texas"),
    ("buy_now", "Ohio"),
    ("bert", "Osaka"),
    ("anna", "Ohio"),
]
TABLE: dict[str, Any] = {"name": [name for name, _ in POSTS], "place": [place for _, place in POSTS]}


def rows(text: str) -> list[tuple[Any, ...]]:
    (result,) = run(text, TABLE, batch_rows=2).values()
    return [tuple(row.values()) for row in result.to_pylist()]


def test_the_users_that_post_most_are_found() -> None:
    """4.1: "to determine the top-k most frequently twittering users publishing "sales"."""
    text = "SELECT name, count(*) AS posts FROM posts GROUP BY name ORDER BY posts DESC, name LIMIT 2"
    assert rows(text) == [("buy_now", 3), ("anna", 2)]


def test_zooming_in_changes_the_filter_and_the_key() -> None:
    """4.3: "To zoom in on different attributes, the job master can update the filter functions on all
    agents".
    """
    text = (
        "SELECT place, count(*) AS posts FROM posts WHERE name = 'buy_now' GROUP BY place ORDER BY posts DESC"
    )
    assert rows(text) == [("Ohio", 2), ("Texas", 1)]


def test_spam_with_one_label_is_one_campaign() -> None:
    """4.1: "clustering all spam containing the same label, such as an URL or account, into a campaign"."""
    text = "SELECT name, array_join(collect_set(place), ',') AS places FROM posts GROUP BY name ORDER BY name"
    assert [(name, sorted(places.split(","))) for name, places in rows(text)] == [
        ("anna", ["Lyon", "Ohio"]),
        ("bert", ["Osaka"]),
        ("buy_now", ["Ohio", "Texas"]),
    ]
