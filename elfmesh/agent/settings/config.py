"""The configuration of an agent: agent.toml with overrides of the command line.

The module owns the names, defaults and checks of all settings, which it checks before anything starts. An
unknown key, a wrong type or an invalid value is a `ConfigError` (exit code 78) that names the file and the
key. A port may be 0, which selects a free port. Without certificates an agent listens only on loopback
addresses, because it trusts every peer that reaches the listener; other listen or API addresses are refused.
An address that is in use is detected when the agent starts (exit code 1).
"""

from __future__ import annotations

import os
import re
import tomllib
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import msgspec

from elfmesh.addresses import is_loopback, parse_address
from elfmesh.agent.settings.tls_settings import TlsConfig, check_tls
from elfmesh.agent.sinks.config import TYPES, SinkConfig, check_sink
from elfmesh.control.jobs.failure_domains import DOMAIN_LABELS
from elfmesh.errors import ConfigError, UsageError
from elfmesh.ingest.authority.settings import (
    AuditConfig,
    CoordinationConfig,
    FieldsConfig,
    ManifestsConfig,
    NamespaceConfig,
    PlacementConfig,
    check_authority,
    check_placement,
)
from elfmesh.ingest.budget.settings import LimitsConfig, check_limits
from elfmesh.ingest.functions.settings import FunctionsConfig, check_functions
from elfmesh.ingest.stream_settings import StreamConfig, check_duration, check_stream
from elfmesh.overlay.context import DOMAIN_CHARS_MAX
from elfmesh.text import suggest
from elfmesh.units import parse_duration_us

LISTEN_DEFAULT = "127.0.0.1:7400"
API_DEFAULT = "127.0.0.1:7401"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,127}")


class ControlConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What agents remember of each other.

    Attributes:
        forget_after: time for which a dead agent is listed, unless it returns, has left or is forgotten
            (`elf forget`).
    """

    forget_after: str = "7 d"

    @property
    def forget_after_s(self) -> float:
        return parse_duration_us(self.forget_after) / 1e6


class AgentConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The configuration of an agent.

    Attributes:
        data_dir: directory for state, frame log and results; each agent needs its own.
        listen: address for other agents.
        advertise: address to which other agents connect, if it differs from `listen`, such as a forwarded
            port of a container, a tunnel or a proxy; "" means `listen`.
        api: address of the HTTP API; "" means `API_DEFAULT`, or a free port if another agent uses that.
        api_socket: path of a Unix socket at which the API also answers. The agent's own user and root are
            operators there without certificate or token; no other user can connect. "" for none.
        join: addresses of agents in the overlay; if empty, this agent is the first.
        join_timeout: time limit for joining (exit code 69).
        on_stop: what SIGTERM and SIGINT mean: "stop", for a restart, or "leave", as `elf leave --now`.
        cluster: name that all agents of one overlay share.
        name: name of this agent in results; "" makes one of host name and id.
        labels: labels by which jobs select agents. `region` and `rack` also name the agent's failure domains.
        streams: streams by name.
        lookups: files that queries join to records, by name, with path, format, types and patterns.
        sinks: sinks that copy results of jobs, by name.
        namespaces: what the jobs of each namespace may use on this agent; without any, all jobs may use
            everything.
        dangerously_insecure_network: listen and join on any address without certificates; the agent then
            trusts every peer that reaches it.
    """

    data_dir: str = ""
    listen: str = LISTEN_DEFAULT
    advertise: str = ""
    api: str = ""
    api_socket: str = ""
    join: tuple[str, ...] = ()
    join_timeout: str = "30 s"
    on_stop: Literal["stop", "leave"] = "stop"
    cluster: str = "elf"
    name: str = ""
    labels: dict[str, str] = {}
    streams: dict[str, StreamConfig] = {}
    lookups: dict[str, StreamConfig] = {}
    sinks: dict[str, SinkConfig] = {}
    limits: LimitsConfig = LimitsConfig()
    functions: FunctionsConfig = FunctionsConfig()
    manifests: ManifestsConfig = ManifestsConfig()
    namespaces: dict[str, NamespaceConfig] = {}
    fields: FieldsConfig = FieldsConfig()
    audit: AuditConfig = AuditConfig()
    coordination: CoordinationConfig = CoordinationConfig()
    placement: PlacementConfig = PlacementConfig()
    control: ControlConfig = ControlConfig()
    tls: TlsConfig = TlsConfig()
    dangerously_insecure_network: bool = False

    @property
    def directory(self) -> Path:
        """The data directory; by default one per user."""
        if self.data_dir:
            return Path(self.data_dir).expanduser()
        state = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
        return Path(state).expanduser() / "elf"

    def domain(self, label: str) -> str:
        """Return the failure domain of this agent that a label names; "" if it has none."""
        return self.labels.get(label, "")

    @property
    def join_timeout_s(self) -> float:
        return parse_duration_us(self.join_timeout) / 1e6

    @property
    def leaves(self) -> bool:
        """Whether the agent leaves when it is stopped."""
        return self.on_stop == "leave"

    @property
    def listen_address(self) -> tuple[str, int]:
        return parse_address(self.listen, where="listen")

    @property
    def advertise_address(self) -> tuple[str, int] | None:
        """`advertise` as host and port; None if other agents use the listen address."""
        return parse_address(self.advertise, where="advertise") if self.advertise else None

    @property
    def api_address(self) -> tuple[str, int]:
        return parse_address(self.api or API_DEFAULT, where="api")

    @property
    def join_addresses(self) -> tuple[tuple[str, int], ...]:
        return tuple(parse_address(address, where="join") for address in self.join)


def load_config(path: str | None, **overrides: Any) -> AgentConfig:
    """Load the configuration from a file and apply command-line values.

    Args:
        path: agent.toml, or None for defaults only.
        overrides: values of `AgentConfig` fields; None and empty values change nothing. `labels`, `streams`
            and `lookups` are merged by name, `join` is replaced.

    Raises:
        ConfigError: the file cannot be read, or a key, type or value is wrong.
    """
    raw = _read(path) if path else {}
    given = {key: value for key, value in overrides.items() if value not in (None, (), {}, "")}
    for key in ("labels", "streams", "lookups", "tls"):
        if key in given and isinstance(raw.get(key, {}), dict):
            given[key] = {**raw.get(key, {}), **given[key]}
    return config_of({**raw, **given}, path or "command line")


def config_of(raw: dict[str, Any], source: str) -> AgentConfig:
    """Check the parsed content of a file and convert it. Raises ConfigError as `load_config`."""
    config: AgentConfig = _convert(raw, source)
    _check(config, source)
    return config


def parse_label(text: str) -> tuple[str, str]:
    """Parse `--label k=v` to key and value. Raises UsageError."""
    key, equals, value = text.partition("=")
    if not equals or not _NAME.fullmatch(key):
        raise UsageError(f"{text!r} is not a label", where="--label", hint="Write --label KEY=VALUE.")
    return key, value


def _read(path: str) -> dict[str, Any]:
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"cannot read it: {error.strerror}", where=path, hint="Check the path.") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"is not UTF-8: {error.reason} at byte {error.start}", where=path) from None
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"is not TOML: {error}", where=path) from None
    except RecursionError:
        raise ConfigError("is nested too deeply", where=path, hint="Reduce the nesting.") from None


def _convert(raw: dict[str, Any], source: str) -> Any:
    kinds: dict[str, Any] = {
        "streams": StreamConfig,
        "lookups": StreamConfig,
        "sinks": SinkConfig,
        "namespaces": NamespaceConfig,
    }
    for key, kind in kinds.items():
        given = raw.get(key, {})
        if isinstance(given, dict):
            # one by one, because msgspec does not report the key of a dict whose value is wrong
            checked = {str(k): _convert_one(v, kind, source, f"{key}.{k}") for k, v in given.items()}
            raw = {**raw, key: checked}
    return _convert_one(raw, AgentConfig, source, "")


def _choices(kind: Any, place: str) -> str:
    """Return a hint with the allowed words of a setting; "" if the setting is not a choice."""
    for name in place.split("."):
        kind = get_type_hints(kind).get(name) if hasattr(kind, "__struct_fields__") else None
    return f"One of {', '.join(get_args(kind))}." if get_origin(kind) is Literal else ""


_KINDS = {
    "str": "a text in quotes", "int": "a whole number", "float": "a number", "bool": "true or false",
    "array": "a list in [ ]", "object": "a table", "null": "nothing",
}  # fmt: skip


def _convert_one(raw: Any, kind: Any, source: str, prefix: str) -> Any:
    try:
        return msgspec.convert(raw, kind)
    except msgspec.ValidationError as error:
        message, _, place = str(error).partition(" - at `$")
        place = ".".join(part for part in (prefix, place.strip("`.")) if part)
        hint = ""
        if unknown := re.search(r"unknown field `(.*?)`", message):
            message = f"unknown key {unknown[1]!r}"
            sections = {"limits": LimitsConfig, "functions": FunctionsConfig, "manifests": ManifestsConfig}
            sections |= {"fields": FieldsConfig, "audit": AuditConfig, "tls": TlsConfig}
            sections |= {"coordination": CoordinationConfig, "control": ControlConfig}
            sections |= {"placement": PlacementConfig}
            section = sections.get(place, kind)
            if kind is SinkConfig:
                section = TYPES[raw["type"]]
            hint = suggest(unknown[1], section.__struct_fields__) or "`elf schema` has all keys."
        elif missing := re.search(r"missing required field `(.*?)`", message):
            message = f"{missing[1]!r} is missing"
        elif kinds := re.match(r"Expected `(\w+)(?: \| null)?`, got `(\w+)`", message):
            message = f"{_KINDS.get(kinds[1], kinds[1])} is required, not {_KINDS.get(kinds[2], kinds[2])}"
            hint = "`elf schema` has the type of each key."
        elif message.startswith("Invalid enum value"):
            hint = _choices(kind, str(error).partition(" - at `$")[2].strip("`."))
        elif kind is SinkConfig and message.startswith("Invalid value"):
            message, hint = f"{raw['type']!r} is not a type of sink", f"One of {', '.join(TYPES)}."
        where = f"{source}: {place}" if place else source
        raise ConfigError(message, where=where, hint=hint) from None


def _check(config: AgentConfig, source: str) -> None:
    check_tls(config.tls, f"{source}: tls")
    for label in DOMAIN_LABELS:
        if len(config.domain(label)) > DOMAIN_CHARS_MAX:
            raise ConfigError(
                f"a failure domain has at most {DOMAIN_CHARS_MAX} characters",
                where=f"{source}: labels.{label}",
            )
    for key, address in (("listen", config.listen), ("api", config.api or API_DEFAULT)):
        host, _ = parse_address(address, where=f"{source}: {key}")
        if not (is_loopback(host) or config.tls.given or config.dangerously_insecure_network):
            raise ConfigError(
                f"{host} can be reached from other hosts, and no certificates are configured",
                where=f"{source}: {key}",
                hint=f'Give the agent certificates ([tls], see `elf ca`), or {key} = "127.0.0.1:PORT".',
            )
    if config.advertise and parse_address(config.advertise, where=f"{source}: advertise")[1] == 0:
        raise ConfigError(f"{config.advertise!r} has no port to connect to", where=f"{source}: advertise")
    for address in config.join:
        if parse_address(address, where=f"{source}: join")[1] == 0:
            raise ConfigError(f"{address!r} has no port to connect to", where=f"{source}: join")
    check_duration(config.join_timeout, f"{source}: join_timeout")
    check_duration(config.control.forget_after, f"{source}: control.forget_after")
    check_limits(config.limits, f"{source}: limits")
    check_functions(config.functions, f"{source}: functions")
    check_authority(config.manifests, config.namespaces, config.audit, source)
    check_placement(config.placement, config.labels, source)
    for name, lookup in config.lookups.items():
        if not lookup.path:
            raise ConfigError("is empty", where=f"{source}: lookups.{name}.path")
        if lookup.archive is not None:
            raise ConfigError("only streams can have an archive", where=f"{source}: lookups.{name}.archive")
    for name, stream in config.streams.items():
        if not _NAME.fullmatch(name):
            raise ConfigError(
                f"{name!r} is not a stream's name",
                where=f"{source}: streams",
                hint="Use letters, digits, '_', '-' and '.'; begin with a letter.",
            )
        check_stream(stream, f"{source}: streams.{name}")
    for name, sink in config.sinks.items():
        check_sink(name, sink, source)
