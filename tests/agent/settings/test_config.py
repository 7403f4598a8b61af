from __future__ import annotations

from pathlib import Path

import pytest

from elfmesh.agent.settings.config import load_config, parse_label
from elfmesh.cli import entry
from elfmesh.errors import ConfigError, UsageError
from elfmesh.ingest.stream_settings import parse_stream

FULL = """
data_dir = "/var/lib/elf"
listen   = "127.0.0.1:7400"
join     = ["10.0.0.5:7400"]
labels   = { role = "web", zone = "eu-1", rack = "r7" }
[streams.access]
path   = "/var/log/nginx/access.log*"
format = "combined"
[limits]
cpu_percent = 5
memory = "200 MB"
[functions]
python = "off"
"""


@pytest.fixture
def toml(tmp_path: Path) -> Path:
    path = tmp_path / "agent.toml"
    path.write_text(FULL)
    return path


def test_the_documented_file_is_read(toml: Path) -> None:
    config = load_config(str(toml))
    assert config.directory == Path("/var/lib/elf")
    assert config.labels == {"role": "web", "zone": "eu-1", "rack": "r7"}
    assert config.streams["access"].format == "combined"
    assert config.join_addresses == (("10.0.0.5", 7400),)
    assert config.limits.memory_bytes == 200_000_000


def test_the_command_line_overrides_the_file(toml: Path) -> None:
    config = load_config(
        str(toml),
        listen="127.0.0.1:0",
        join=("127.0.0.1:1", "127.0.0.1:2"),
        labels={"zone": "us"},
        streams={"clicks": {"path": "c.log"}},
        name=None,
    )
    assert config.listen_address == ("127.0.0.1", 0)
    assert config.join == ("127.0.0.1:1", "127.0.0.1:2")
    assert config.labels["zone"] == "us"
    assert config.labels["role"] == "web"
    assert sorted(config.streams) == ["access", "clicks"]


def test_an_agent_may_advertise_another_address_than_it_listens_on(toml: Path) -> None:
    assert load_config(str(toml)).advertise_address is None
    assert load_config(str(toml), advertise="[2001:db8::1]:7400").advertise_address == ("2001:db8::1", 7400)
    for wrong in ("web-1", "web-1:0", "web-1:65536"):
        with pytest.raises(ConfigError, match="advertise"):
            load_config(str(toml), advertise=wrong)


def test_a_stream_option_may_hold_a_regex_with_commas_and_equals_signs() -> None:
    name, settings = parse_stream(r"app=/var/log/app.log,format=regex:(?P<a>\d{1,3})=x,idle=2 s,ts=a")
    assert name == "app"
    assert settings == {
        "path": "/var/log/app.log",
        "format": r"regex:(?P<a>\d{1,3})=x",
        "idle": "2 s",
        "ts": "a",
    }


@pytest.mark.parametrize(
    ("change", "place", "message"),
    [
        ("[limits]\nengine = 'jobs'\n", "limits.engine", "Invalid enum value 'jobs'\n  One of start, job"),
        ("lissten = '127.0.0.1:1'\n", "agent.toml", "unknown key 'lissten'.*\n.*Did you mean listen"),
        ("data_dir = 7\n", "data_dir", "a text in quotes is required, not a whole number"),
        ("listen = '127.0.0.1'\n", "listen", "not an address"),
        ("listen = '127.0.0.1:70000'\n", "listen", "not an address"),
        ("listen = '0.0.0.0:7400'\n", "listen", "certificates"),
        ("api = '192.168.1.4:7401'\n", "api", "certificates"),
        ("join = ['127.0.0.1:0']\n", "join", "no port"),
        ("join_timeout = 'soon'\n", "join_timeout", "not a duration"),
        ("on_stop = 'wait'\n", "on_stop", "One of stop, leave"),
        ("[control]\nforget_after = 'soon'\n", "control.forget_after", "not a duration"),
        ("[control]\nforget_aftr = '1 d'\n", "control", "unknown key"),
        ("[streams.a]\nformat = 'json'\n", "streams.a", "has no source"),
        ("[streams.a]\npath = 'x'\nlisten = 'udp://127.0.0.1:1'\n", "streams.a", "several places"),
        ("[streams.a]\nlisten = 'udp://10.0.0.1:1'\n", "streams.a.listen", "no certificates are configured"),
        ("[streams.a]\njournal = ['--file=/etc/shadow']\n", "streams.a.journal", "not a journal match"),
        ("[streams.a]\njournal = []\nspool = '1 MB'\n", "streams.a.spool", "less than 64 MB"),
        ("[streams.a]\npath = ''\n", "streams.a", "has no source"),
        ("[streams.a]\npath = 'x'\nread_from = 'middle'\n", "streams.a.read_from", "middle"),
        ("[streams.a]\npath = 'x'\nidle = '5'\n", "streams.a.idle", "not a duration"),
        ("[streams.a]\npath = 'x'\nformt = 'json'\n", "streams.a", "Did you mean format"),
        ("[streams.'a b']\npath = 'x'\n", "streams", "not a stream's name"),
        ("[limits]\nmemory = 'lots'\n", "limits.memory", "not a size"),
        ("[limits]\nmemory = '1 MB'\n", "limits.memory", "less than 16 MB"),
        ("[limits]\nspill = 'much'\n", "limits.spill", "not a size"),
        ("[limits]\ncpu_percent = 0\n", "limits.cpu_percent", "not in"),
        ("[functions]\npython = 'on'\n", "functions.python", "on"),
        ("[functions]\npython = 'signed'\n", "functions.signatures", "which is impossible"),
        ("[functions]\npython = 'signed'\nkeys = ['ed25519:AAAA']\n", "functions.keys", "not a public key"),
        ("[functions]\nmemory = '1 MB'\n", "functions.memory", "less than 16 MB"),
        ("[functions]\ntime = '1 ms'\n", "functions.time", "less than 10 ms"),
        ("listen = \n", "agent.toml", "not TOML.*line 1"),
    ],
)
def test_a_wrong_setting_names_file_and_key(tmp_path: Path, change: str, place: str, message: str) -> None:
    path = tmp_path / "agent.toml"
    path.write_text(change)
    with pytest.raises(ConfigError, match=f"(?s){message}") as caught:
        load_config(str(path))
    assert caught.value.exit_code == 78
    assert "agent.toml" in str(caught.value)
    assert place in str(caught.value)


@pytest.mark.parametrize(
    ("text", "reported"),
    [
        ("data_dir = 7\n", "1:1: data_dir: a text in quotes is required"),
        ("name = 'a'\n[streams.a]\npath = 'x'\nformat = 'nosuch'\n", "4:1: streams.a.format: unknown format"),
        ("name = 'a'\nbogus = 1\nlisten = 'x'\n", "2:1: unknown key 'bogus'"),
        ("name = 'a'\nlisten = \n", "2:10: is not TOML: Invalid value"),
    ],
)
def test_an_agent_names_line_and_column_of_what_is_wrong(
    text: str, reported: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "agent.toml"
    path.write_text(text)
    assert entry.run(["agent", "-c", str(path)]) == 78
    assert capfd.readouterr().err.startswith(f"elf: {path}:{reported}")


def test_a_file_that_is_not_there_is_a_configuration_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        load_config(str(tmp_path / "none.toml"))
    binary = tmp_path / "binary.toml"
    binary.write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="UTF-8"):
        load_config(str(binary))


@pytest.mark.parametrize("text", ["novalue", "=x", "a b=c"])
def test_the_error_of_a_wrong_label_shows_how_to_write_it(text: str) -> None:
    with pytest.raises(UsageError, match="KEY=VALUE"):
        parse_label(text)


def test_the_error_of_a_wrong_stream_shows_how_to_write_it() -> None:
    with pytest.raises(UsageError, match="NAME=PATH"):
        parse_stream("justaname")


@pytest.mark.parametrize("label", ["region", "rack"])
def test_a_failure_domain_that_other_agents_would_not_accept_is_refused(tmp_path: Path, label: str) -> None:
    path = tmp_path / "agent.toml"
    path.write_text(f'[labels]\n{label} = "{"r" * 64}"\n')
    assert load_config(str(path)).domain(label) == "r" * 64
    path.write_text(f'[labels]\n{label} = "{"r" * 65}"\n')
    with pytest.raises(ConfigError, match="at most 64 characters") as refused:
        load_config(str(path))
    assert refused.value.where == f"{path}: labels.{label}"


def test_a_deeply_nested_configuration_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "agent.toml"
    path.write_text("labels = " + "[" * 5000 + "]" * 5000)
    with pytest.raises(ConfigError, match="nested too deeply"):
        load_config(str(path))
