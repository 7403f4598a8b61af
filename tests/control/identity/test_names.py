"""What the names in a certificate mean: our own, and those of other CAs."""

from __future__ import annotations

import pytest

from elfmesh.control.identity.names import Nameless, bearer, parse_patterns
from elfmesh.control.identity.principal import Role
from elfmesh.errors import ConfigError
from elfmesh.ids import named_agent_id

ID = "ab" * 20


def test_roles_add_up_and_the_agents_id_is_the_written_one() -> None:
    who = bearer([f"elf://shop/agent/web1/{ID}", "elf://shop/submitter/a", "elf://shop/submitter/b"], "shop")
    assert who.name == "web1"
    assert who.agent.hex() == ID
    assert who.roles == {Role.AGENT, Role.SUBMITTER}
    assert who.namespaces == {"a", "b"}
    assert who.principal().source == "certificate"
    assert bearer(["elf://shop/submitter/*"], "shop").principal().may_submit("any")


@pytest.mark.parametrize(
    "names",
    [
        [],
        ["elf://bank/operator/ann"],
        ["elf://shop.evil/operator/ann"],
        ["elf://shop"],
        ["elf://shop/boss/ann"],
        ["elf://shop/operator/*"],
        ["elf://shop/operator/"],
        ["elf://shop/operator/a/b"],
        ["elf://shop/ca"],
        ["https://shop/operator/ann"],
        ["dns:shop"],
        ["elf://SHOP/operator/ann"],
        ["elf://shop/operator/ann\n"],
    ],
)
def test_other_names_mean_nobody(names: list[str]) -> None:
    with pytest.raises(Nameless):
        bearer(names, "shop")


@pytest.mark.parametrize(
    "uri", ["elf://shop/agent/a", "elf://shop/agent/a/ab", f"elf://shop/agent/a/{'AB' * 20}", f"elf://shop/agent//{ID}"]
)  # fmt: skip
def test_agents_without_a_full_id_are_nobody(uri: str) -> None:
    with pytest.raises(Nameless):
        bearer([uri], "shop")


def test_a_certificate_for_two_agents_is_for_none() -> None:
    with pytest.raises(Nameless, match="two agents"):
        bearer([f"elf://shop/agent/a/{ID}", f"elf://shop/agent/b/{'cd' * 20}"], "shop")


def test_spiffe_ids_become_roles_by_the_configuration() -> None:
    patterns = parse_patterns(
        {
            "spiffe://example.org/elf/agent/{name}": "agent",
            "spiffe://example.org/ns/{namespace}/sa/{name}": "submitter",
            "dns:{name}.web.example.org": "agent",
        }
    )
    uri = "spiffe://example.org/elf/agent/web1"
    who = bearer([uri], "shop", patterns)
    assert (who.name, who.agent) == ("web1", named_agent_id("shop", uri))
    assert bearer([uri], "bank", patterns).agent != who.agent
    person = bearer(["spiffe://example.org/ns/shop/sa/ann"], "shop", patterns)
    assert person.name == "ann"
    assert person.namespaces == {"shop"}
    assert bearer(["dns:w7.web.example.org"], "shop", patterns).roles == {Role.AGENT}


@pytest.mark.parametrize(
    "name",
    [
        "spiffe://example.org/elf/agent/",
        "spiffe://example.org/elf/agent/a/b",
        "spiffe://example.org.evil/elf/agent/a",
        "spiffe://exampleXorg/elf/agent/a",
        f"elf://shop/operator/{ID}",
        "dns:a.example.org.evil",
        "spiffe://example.org/elf/agent/*",
    ],
)
def test_where_there_are_patterns_nothing_else_counts(name: str) -> None:
    patterns = parse_patterns({"spiffe://example.org/elf/agent/{name}": "agent"})
    with pytest.raises(Nameless):
        bearer([name], "shop", patterns)


@pytest.mark.parametrize(
    ("pattern", "role"),
    [
        ("spiffe://example.org/agent", "agent"),
        ("spiffe://example.org/{name}", "submitter"),
        ("spiffe://example.org/{name}", "boss"),
        ("spiffe://example.org/{host}", "agent"),
        ("spiffe://{name}/{name}", "reader"),
    ],
)
def test_patterns_that_would_make_all_the_same_are_refused(pattern: str, role: str) -> None:
    with pytest.raises(ConfigError, match=r"tls\.names"):
        parse_patterns({pattern: role})
