"""Rules about where data may be sent: which agents they allow, and what merging makes of them."""

from __future__ import annotations

import pytest

from elfmesh.machine import Contact
from elfmesh.srt.residency import ANYWHERE, Rule, admitted, allows, implies, shown, together

EU: Rule = (("region=eu",),)
EU_OR_UK: Rule = (("region=eu", "region=uk"),)
RACK: Rule = (("rack=r1",),)


def agent(region: str = "", rack: str = "") -> Contact:
    return Contact(bytes(20), "host", 1, 1, rack, region)


@pytest.mark.parametrize(
    ("rule", "contact", "allowed"),
    [
        (ANYWHERE, agent(), True),
        (EU, agent("eu"), True),
        (EU, agent("us"), False),
        (EU, agent(), False),
        (EU, agent(rack="eu"), False),
        (EU_OR_UK, agent("uk"), True),
        (together([EU, RACK]), agent("eu", "r1"), True),
        (together([EU, RACK]), agent("eu", "r2"), False),
        (together([EU, (("region=us",),)]), agent("eu"), False),
    ],
)
def test_an_agent_has_one_label_of_each_clause(rule: Rule, contact: Contact, allowed: bool) -> None:
    assert allows(rule, contact) == allowed


def test_an_agent_satisfies_some_clauses_of_a_merged_rule() -> None:
    both = together([EU, RACK])
    assert [
        admitted(both, agent(*labels)) for labels in (("eu", "r1"), ("eu",), ("", "r1"), ("us", "r2"))
    ] == [*(2, 1, 1, 0)]
    assert admitted(ANYWHERE, agent("eu")) == 0


def test_what_is_merged_has_the_rules_of_all_parts_in_any_order() -> None:
    assert together([EU, ANYWHERE, RACK, EU]) == together([RACK, EU]) == (("rack=r1",), ("region=eu",))
    assert together([]) == together([ANYWHERE]) == ANYWHERE


def test_an_agent_keeps_the_rules_whose_clauses_it_has() -> None:
    both = together([EU, RACK])
    assert implies(both, EU)
    assert implies(EU, ANYWHERE)
    assert not implies(EU, both)
    assert not implies(ANYWHERE, EU)


def test_a_rule_is_shown_as_a_condition() -> None:
    assert shown(together([EU_OR_UK, RACK])) == "rack=r1 and region=eu or region=uk"
