"""What the configuration of an agent grants: nothing that arrives from elsewhere can have more."""

from __future__ import annotations

import pytest

from elfmesh import ql
from elfmesh.control.jobs.hidden_fields import FieldRules
from elfmesh.control.jobs.manifest import new_manifest
from elfmesh.control.jobs.policy import OPEN, Grant, Policy

SHOP = Grant(
    streams=("access", "shop-*"), lookups=("products",), reads=("ops",), columns=("path", "user", "_raw"),
    deny=(), jobs=1, sketch=1000,
)  # fmt: skip
POLICY = Policy(FieldRules(), {"shop": SHOP, "narrow": Grant(streams=("access",), deny=("user.mail",))})
CARRIED = ("access", "secret", "shop-eu")


def refusal(
    query: str, namespace: str = "shop", policy: Policy = POLICY, carried: tuple[str, ...] = CARRIED
) -> str:
    text = f"CREATE JOB {namespace}.job EVERY '30 s' AS {query}"
    job = ql.parse(text).job
    assert job is not None
    return policy.refusal(new_manifest(job, text, "me", created=0, incarnation="i"), carried)


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("SELECT path, count(*) AS n FROM secret GROUP BY path", "the stream secret is not granted to shop"),
        ("SELECT host, count(*) AS n FROM access GROUP BY host", "the field host is not granted to shop"),
        ("SELECT count(*) AS n FROM access WHERE agent LIKE 'x%'", "the field agent is not granted"),
        ("SELECT count(user.password) AS n FROM access", "user.password is hidden"),
        ("SELECT count(*) AS n FROM access WHERE Authorization = 'x'", "the field Authorization is hidden"),
        ("SELECT approx_top_k(user, 5, 1001) AS t FROM access", "a state of size 1001 (top)"),
        ("SELECT array_agg(user, 2000) AS t FROM access", "a state of size 2000 (collect)"),
        ("SELECT sum(n) AS n FROM bank.job", "results of bank/job are not granted to shop"),
        (
            "SELECT a.path, b.n FROM access a JOIN LATEST bank.job b ON a.path = b.path",
            "results of bank/job are not granted to shop",
        ),
    ],
)  # fmt: skip
def test_what_is_not_granted_is_refused(query: str, reason: str) -> None:
    assert reason in refusal(query)
    assert refusal(query, policy=OPEN) == ""


@pytest.mark.parametrize(
    "query",
    [
        "SELECT path, count(*) AS n FROM access GROUP BY path",
        "SELECT path, count(*) AS n FROM `shop-eu` WHERE user.name = 'x' GROUP BY path",
        "SELECT count(*) AS n FROM access WHERE _raw LIKE '%x%'",
        "SELECT sum(n) AS n FROM ops.job",
        "SELECT sum(n) AS n FROM shop.other",
        "SELECT path, approx_top_k(user, 5, 1000) AS t FROM access GROUP BY path",
    ],
)
def test_what_is_granted_runs(query: str) -> None:
    assert refusal(query) == ""


def test_a_namespace_that_is_not_named_may_use_nothing_where_others_are() -> None:
    query = "SELECT count(*) AS n FROM access"
    assert "may use nothing here" in refusal(query, "other")
    assert refusal(query, "other", Policy(FieldRules(), {"*": Grant()})) == ""


def test_a_denied_field_is_refused_alone_inside_its_object_and_in_whole_lines() -> None:
    for fields in ("user.mail", "user", "_raw", "user.mail.host"):
        assert "not granted to narrow" in refusal(f"SELECT count({fields}) AS n FROM access", "narrow")
    assert refusal("SELECT count(user.name) AS n FROM access", "narrow") == ""


def test_streams_of_other_agents_are_their_business() -> None:
    assert refusal("SELECT count(path) AS n FROM secret", carried=("access",)) == ""
