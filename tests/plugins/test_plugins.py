"""Plug-ins that entry points name: which are used, and why others are refused."""

from __future__ import annotations

import pytest

from elfmesh.cli.host.doctor_checks import check_plugins
from elfmesh.plugins import FUNCTIONS, SINKS, announced, announced_refusals, plugins, refuse, refused
from tests.plugins.packages import Install, install

__all__ = ["install"]

GOOD = """
class Good:
    api_version = 1
class Later:
    api_version = 2
class Silent:
    pass
"""


def test_a_plugin_of_this_version_is_used_and_announced(install: Install) -> None:
    install("goodp", GOOD, "3.1", functions={"good": "goodp:Good"}, sinks={"kept": "goodp:Good"})
    assert announced() == {}, "nothing is imported to announce it"
    assert str(plugins(FUNCTIONS)["good"]) == "function good of goodp 3.1"
    assert announced() == {"function/good": "goodp 3.1"}
    assert [*plugins(SINKS)] == ["kept"]


def test_a_refused_plugin_is_announced_with_its_reason(install: Install) -> None:
    install("laterp", GOOD, "2.0", functions={"later": "laterp:Later"})
    assert announced_refusals() == [], "nothing is imported to announce it"
    assert [*plugins(FUNCTIONS)] == []
    assert announced_refusals() == [
        {
            "kind": "function",
            "plugin": "later",
            "package": "laterp",
            "version": "2.0",
            "reason": "it is for api_version 2, and this release has 1",
        }
    ]
    (finding,) = check_plugins()
    assert finding.status == "warn"
    assert finding.found.startswith("the plug-in later (function) of laterp 2.0 is not used: ")


@pytest.mark.parametrize(
    ("place", "reason"),
    [
        ("otherp:Later", "it is for api_version 2, and this release has 1"),
        ("otherp:Silent", "it states no api_version, and this release has 1"),
        ("otherp:Missing", "it cannot be imported: AttributeError: "),
        ("no_such_module_p:Good", "it cannot be imported: ModuleNotFoundError: "),
        ("brokenp:Good", "it cannot be imported: ZeroDivisionError: division by zero"),
    ],
)
def test_another_plugin_is_refused_by_name_and_the_rest_is_used(
    install: Install, place: str, reason: str
) -> None:
    install("brokenp", "1 / 0")
    install("otherp", GOOD, functions={"bad": place, "good": "otherp:Good"})
    assert [*plugins(FUNCTIONS)] == ["good"]
    (found,) = refused()
    assert str(found).startswith(f"the plug-in bad (function) of otherp 1.0 is not used: {reason}")


def test_of_two_plugins_of_one_name_one_is_used(install: Install) -> None:
    install("firstp", GOOD, functions={"same": "firstp:Good"})
    install("secondp", GOOD, functions={"same": "secondp:Good"})
    assert plugins(FUNCTIONS)["same"].package == "firstp"
    assert [each.reason for each in refused()] == ["firstp has a function of this name"]


def test_a_check_of_its_kind_refuses_a_plugin(install: Install) -> None:
    install("goodp", GOOD, functions={"good": "goodp:Good"})
    refuse(plugins(FUNCTIONS)["good"], "it has no colour")
    assert plugins(FUNCTIONS) == {}
    assert [each.reason for each in refused()] == ["it has no colour"]
