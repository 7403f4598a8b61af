from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from elfmesh.agent.settings.config import AgentConfig
from elfmesh.agent.settings.toml_places import find_keys
from elfmesh.agent.sinks.config import TYPES
from elfmesh.cli.host.config_schema import config_schema
from elfmesh.cli.host.validate import schema_command, validate_command
from elfmesh.ingest.budget.settings import LimitsConfig
from elfmesh.ingest.stream_settings import StreamConfig

ROOT = Path(__file__).parents[3]
OPERATIONS = "".join(path.read_text() for path in sorted((ROOT / "docs" / "operations").glob("*.md")))
SINKS = (ROOT / "docs" / "sinks.md").read_text()
SHOWN = re.findall(r"^```toml\n(.*?)^```", OPERATIONS + SINKS, re.M | re.S)


def validate(*paths: Path) -> Result:
    return CliRunner().invoke(validate_command, [str(path) for path in paths], standalone_mode=False)


def problems(path: Path) -> list[tuple[int, int, str]]:
    done = CliRunner().invoke(validate_command, ["-o", "json", str(path)], standalone_mode=False)
    found = json.loads(done.stdout)
    return [(each["line"], each["column"], each["message"]) for each in found["problems"]]


def test_examples_of_the_project_are_valid() -> None:
    done = validate(*sorted((ROOT / "examples").rglob("*.elfql")))
    assert done.return_value == 0, done.stderr


def test_control_characters_of_a_configuration_do_not_reach_the_terminal(tmp_path: Path) -> None:
    path = tmp_path / "a.toml"
    path.write_text('"\\u001b[2J" = 1\n')
    assert "\x1b" not in validate(path).stderr


@pytest.mark.parametrize("text", SHOWN)
def test_the_schema_takes_the_configurations_of_the_documentation(text: str, tmp_path: Path) -> None:
    jsonschema.validate(tomllib.loads(text), config_schema())
    path = tmp_path / "agent.toml"
    path.write_text(text)
    assert validate(path).return_value == 0, validate(path).stderr


WRONG: list[dict[str, Any]] = [
    {"listne": "x"},
    {"join": "127.0.0.1:1"},
    {"labels": {"a": 1}},
    {"streams": {"a": {"path": "x", "read_from": "middle"}}},
    {"streams": {"a": {"path": "x", "multiline_lines_max": 0}}},
    {"limits": {"self_check": "often"}},
    {"functions": {"python": "on"}},
    {"sinks": {"a": {"type": "parqet", "jobs": ["*"], "path": "/x"}}},
    {"sinks": {"a": {"type": "parquet", "jobs": [], "path": "/x"}}},
    {"sinks": {"a": {"type": "parquet", "jobs": ["*"]}}},
    {"sinks": {"a": {"type": "webhook", "jobs": ["*"], "url": "http://x", "path": "/x"}}},
]


@pytest.mark.parametrize("raw", WRONG, ids=str)
def test_the_schema_refuses_what_the_agent_refuses(raw: dict[str, Any]) -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(raw, config_schema())


def test_the_schema_describes_every_setting_and_has_its_default() -> None:
    schema = json.loads(CliRunner().invoke(schema_command, []).stdout)
    jsonschema.Draft202012Validator.check_schema(schema)
    for sink in TYPES.values():
        for name, found in schema["$defs"][sink.__name__]["properties"].items():
            assert name == "type" or found.get("description"), f"{sink.__name__}.{name} has no sentence"
    for kind in (AgentConfig, StreamConfig, LimitsConfig):
        properties = schema["$defs"][kind.__name__]["properties"]
        assert set(properties) == set(kind.__struct_fields__)
        for name, found in properties.items():
            if "$ref" not in found:  # a section says it of itself
                assert found.get("description"), f"{kind.__name__}.{name} has no sentence"
                assert "default" in found, name
    assert schema["$defs"]["AgentConfig"]["properties"]["api"]["default"] == AgentConfig().api


KEYS = st.text(alphabet="abc-_", min_size=1, max_size=4)
VALUES = st.recursive(
    st.integers(0, 9) | st.text(alphabet="ab=[]{},.#\n'", max_size=6) | st.booleans(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=8,
)


def written(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {written(each)}" for key, each in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(written, value)) + "]"
    return json.dumps(value)


def paths(value: Any, base: tuple[str, ...] = ()) -> set[tuple[str, ...]]:
    if not isinstance(value, dict):
        return set()
    return {found for key, each in value.items() for found in ({(*base, key)} | paths(each, (*base, key)))}


@given(
    st.dictionaries(KEYS, VALUES, max_size=4),
    st.dictionaries(KEYS, st.dictionaries(KEYS, VALUES), max_size=3),
)
def test_every_key_is_found_where_it_stands(top: dict[str, Any], tables: dict[str, dict[str, Any]]) -> None:
    tables = {key: each for key, each in tables.items() if key not in top}
    lines = [f"{key} = {written(each)} # x = 1" for key, each in top.items()]
    for name, table in tables.items():
        lines += [f"[{name}]", *(f"{key} = {written(each)}" for key, each in table.items())]
    text = "\n".join(lines)
    whole = tomllib.loads(text)
    found = find_keys(text)
    assert paths(whole) <= set(found)
    for path, place in found.items():
        assert (
            lines[place.line - 1][place.column - 1 :].startswith(path[-1])
            or path[-1] in lines[place.line - 1]
        )
