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

from elfmesh.agent.settings.config import AgentConfig, load_config
from elfmesh.agent.settings.toml_places import find_keys
from elfmesh.agent.sinks.config import TYPES
from elfmesh.cli.host.agent import agent_command
from elfmesh.cli.host.config_schema import config_schema
from elfmesh.cli.host.validate import schema_command, validate_command
from elfmesh.errors import ConfigError
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


def test_every_error_of_a_configuration_is_found_at_its_place(tmp_path: Path) -> None:
    path = tmp_path / "agent.toml"
    path.write_text(
        'listne = "127.0.0.1:1"\n'
        'listen = "10.0.0.1:7400"\n'
        "labels = { role = 5 }\n"
        "[streams.access]\n"
        'path = "x.log"\n'
        '  idle = "5 parsecs"\n'
        'spool = "1 MB"\n'
        'format = "combinde"\n'
        "[streams.lost]\n"
        'idle = "1 s"\n'
        "[limits]\n"
        'memory = "1 kB"\n'
        "self_check = -1\n"
    )
    found = {(line, column) for line, column, _ in problems(path)}
    assert found == {(1, 1), (2, 1), (3, 1), (6, 3), (7, 1), (8, 1), (9, 2), (12, 1), (13, 1)}
    done = validate(path)
    assert done.return_value == ConfigError.exit_code
    assert f"{path}:1:1: unknown key 'listne'\n  Did you mean listen?" in done.stderr
    assert done.stdout == ""


def test_a_foreign_agent_without_certificates_is_a_warning_and_refused_by_the_agent(tmp_path: Path) -> None:
    path = tmp_path / "agent.toml"
    path.write_text(f'data_dir = "{tmp_path}/elf"\njoin = ["127.0.0.1:7400", "10.0.0.5:7400"]\n')
    done = validate(path)
    assert done.return_value == 0
    assert f"{path}: configuration, 0 streams: valid" in done.stdout
    place = f"{path}:2:1: join: 10.0.0.5:7400 is another host, and no certificates are configured"
    assert f"warning: {place}" in done.stderr
    shown = CliRunner().invoke(validate_command, ["-o", "json", str(path)], standalone_mode=False)
    found = json.loads(shown.stdout)
    assert found["valid"]
    assert not found["problems"]
    assert [(each["line"], each["column"]) for each in found["warnings"]] == [(2, 1)]
    with pytest.raises(ConfigError, match="another host") as refused:
        agent_command.main(["-c", str(path)], standalone_mode=False)
    assert str(refused.value).startswith(place)


def test_a_text_that_is_not_toml_is_named_with_its_place(tmp_path: Path) -> None:
    path = tmp_path / "agent.toml"
    path.write_text('data_dir = "x"\nlisten = 127.0.0.1:7400\n')
    ((line, column, message),) = problems(path)
    assert (line, "is not TOML" in message) == (2, True)
    assert column > 9
    path.write_text('[streams.x\npath = "a"')
    assert validate(path).return_value == ConfigError.exit_code


def test_every_wrong_statement_of_a_file_is_found(tmp_path: Path) -> None:
    path = tmp_path / "jobs.elfql"
    path.write_text(
        "SELECT cuont(*) FROM log;\n"
        "CREATE JOB a.fine EVERY '1 s' AS SELECT count(*) FROM log;\n"
        "SELECT a FROM log WHERE;\n"
        "CREATE JOB a.fine EVERY '1 s' AS SELECT count(*) FROM log;\n"
        "CREATE JOB a.other PARTITIONS 99999 EVERY '1 s' AS SELECT count(*) FROM log"
    )
    found = problems(path)
    assert [line for line, _, _ in found] == [1, 3, 4, 5]
    assert "defined twice, first in" in found[2][2]
    assert validate(path).return_value == 65


def test_kinds_are_told_apart_and_the_graver_code_wins(tmp_path: Path) -> None:
    job, named, config = tmp_path / "a.elfql", tmp_path / "b", tmp_path / "c"
    job.write_text("SELECT 1 +")
    named.write_text("SELECT count(*) FROM log")
    config.write_text("nonsense = 1\n")
    assert validate(named).stdout == f"{named}: jobs, 1 statement: valid\n"
    assert validate(config).return_value == 78
    assert validate(job, config).return_value == 78
    assert validate(tmp_path / "missing", named).return_value == 1


def test_examples_of_the_project_are_valid() -> None:
    done = validate(*sorted((ROOT / "examples").rglob("*.elfql")))
    assert done.return_value == 0, done.stderr


def test_a_word_of_a_log_cannot_reach_the_terminal(tmp_path: Path) -> None:
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


def test_the_schema_says_what_every_setting_is_and_its_default() -> None:
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


def test_the_loader_says_the_same_first_error(tmp_path: Path) -> None:
    path = tmp_path / "agent.toml"
    path.write_text('[streams.a]\npath = "x"\nidle = "soon"\n')
    with pytest.raises(ConfigError) as error:
        load_config(str(path))
    assert error.value.message in validate(path).stderr
