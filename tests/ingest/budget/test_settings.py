"""The section [limits] of agent.toml: what cannot be is refused at its key."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from elfmesh.errors import ConfigError
from elfmesh.ingest.budget.settings import LimitsConfig, check_limits


def test_the_defaults_are_allowed() -> None:
    limits = LimitsConfig()
    check_limits(limits, "limits")
    assert limits.cores is None
    assert limits.panes_bytes == limits.memory_bytes // 2


@pytest.mark.parametrize(
    ("wrong", "key"),
    [
        ({"memory": "15 MB"}, "memory"),
        ({"memory": "much"}, "memory"),
        ({"spill": "-1"}, "spill"),
        ({"standby": "some"}, "standby"),
        ({"query_bytes": "little"}, "query_bytes"),
        ({"disk": "999 kB"}, "disk"),
        ({"process_memory": "127 MB"}, "process_memory"),
        ({"self_check": -1}, "self_check"),
        ({"cpu_percent": 0.0}, "cpu_percent"),
        ({"cpu_percent": 1e9}, "cpu_percent"),
        ({"cpu_percent": float("nan")}, "cpu_percent"),
        ({"job_share": 0.0}, "job_share"),
        ({"job_share": 1.1}, "job_share"),
    ],
)
def test_a_limit_that_cannot_be_is_named(wrong: dict[str, Any], key: str) -> None:
    with pytest.raises(ConfigError) as caught:
        check_limits(LimitsConfig(**wrong), "agent.toml: limits")
    assert caught.value.where == f"agent.toml: limits.{key}"


@pytest.mark.parametrize(
    "least",
    [
        {"memory": "16 MB"},
        {"disk": "0"},
        {"disk": "1 MB"},
        {"standby": "0"},
        {"process_memory": "0"},
        {"job_share": 1.0},
    ],
)
def test_the_least_that_may_be_is_allowed(least: dict[str, Any]) -> None:
    check_limits(LimitsConfig(**least), "limits")


def test_zero_is_no_limit_of_the_disk() -> None:
    assert LimitsConfig(disk="0").disk_bytes is None
    assert LimitsConfig(cpu_percent=50.0).cores == 0.5


@pytest.mark.parametrize(
    "wrong", [{"nice": 20}, {"nice": -1}, {"io_class": "fast"}, {"engine": "never"}, {"memroy": "1"}]
)
def test_a_wrong_setting_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(wrong, LimitsConfig)
