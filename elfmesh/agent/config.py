"""What an agent is told: agent.toml, overridden by the command line, checked before anything starts.

Owns the names, defaults and checks of every setting; opens nothing but the file. An unknown key, a wrong type
or an impossible value is a `ConfigError` (exit 78) that names file and key. Ports may be 0: any free port.

Without certificates an agent listens on loopback addresses only, because whoever reaches the listener is
believed; a listen or API address elsewhere is refused. An address in use is found at run time (exit 1).
"""

from __future__ import annotations

import ipaddress
import os
import re
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec

from elfmesh.errors import ConfigError
from elfmesh.text import suggest
from elfmesh.units import parse_duration_us, parse_size

T = TypeVar("T", bound=msgspec.Struct)
LISTEN_DEFAULT = "127.0.0.1:7400"
API_DEFAULT = "127.0.0.1:7401"
MEMORY_BYTES_MIN = 16_000_000
"""Below, every batch would go to disk."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,127}")
_STREAM_OPTION = re.compile(r",(?=(?:format|read_from|idle|ts)=)")


class StreamConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One stream of this host.

    Attributes:
        path: file name or glob pattern.
        format: auto, json, combined, common, logfmt, csv or regex:PATTERN.
        read_from: where to begin in files seen for the first time.
        idle: after so long without a new line the stream's event time advances with the clock.
        ts: field that carries the time; "" picks the format's own.
        on_overload: "wait": reading waits, nothing is dropped. "shed": the stream is read on; blocks for
            which there is no memory, and sealed intervals for which there is no spool, are dropped and
            counted.
    """

    path: str
    format: str = "auto"
    read_from: Literal["beginning", "end"] = "beginning"
    idle: str = "5 s"
    ts: str = ""
    on_overload: Literal["wait", "shed"] = "wait"

    @property
    def idle_us(self) -> int:
        """`idle` in microseconds."""
        return parse_duration_us(self.idle)


class LimitsConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the agent may take from its host.

    Attributes:
        cpu_percent: not enforced yet; setting it is answered by a warning.
        memory: for what records leave behind: half of it for the open intervals of all jobs, a quarter for
            sealed intervals of one job that are not closed (above that the job stops reading), the rest for
            blocks that are being read. The process itself takes about 100 MB more.
        spill: disk space under the data directory for open intervals that do not fit in memory; "0" for none.
            When neither has room, reading waits.
        self_check: one interval in so many of the jobs that are led here is verified against the raw logs of
            all its agents (`elf verify`); 0 for none. It costs each of them a read of all its logs.
    """

    cpu_percent: float | None = None
    memory: str = "200 MB"
    spill: str = "4 GB"
    self_check: int = 0

    @property
    def memory_bytes(self) -> int:
        """`memory` in bytes."""
        return parse_size(self.memory)

    @property
    def panes_bytes(self) -> int:
        """What the open intervals of all jobs may take in memory."""
        return self.memory_bytes // 2

    @property
    def spill_bytes(self) -> int:
        """`spill` in bytes."""
        return parse_size(self.spill)


class FunctionsConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What code of others may run here: none."""

    python: Literal["off"] = "off"


class AgentConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Everything an agent is told.

    Attributes:
        data_dir: state, frame log and results; one agent per directory.
        listen: address for other agents.
        advertise: what other agents are told to connect to, where that is another address than `listen`: a
            forwarded port of a container, a tunnel, a proxy. "" tells them `listen`.
        api: address of the local HTTP API.
        join: addresses of agents already in the overlay; none makes this agent the first.
        join_timeout: how long to try before giving up (exit 69).
        cluster: name all agents of one overlay share.
        name: how results name this agent; "" makes one of host name and id.
        labels: what jobs select agents by.
        streams: name to stream.
    """

    data_dir: str = ""
    listen: str = LISTEN_DEFAULT
    advertise: str = ""
    api: str = API_DEFAULT
    join: tuple[str, ...] = ()
    join_timeout: str = "30 s"
    cluster: str = "elf"
    name: str = ""
    labels: dict[str, str] = {}
    streams: dict[str, StreamConfig] = {}
    limits: LimitsConfig = LimitsConfig()
    functions: FunctionsConfig = FunctionsConfig()

    @property
    def directory(self) -> Path:
        """The data directory; by default one per user."""
        if self.data_dir:
            return Path(self.data_dir).expanduser()
        state = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
        return Path(state).expanduser() / "elf"

    @property
    def join_timeout_s(self) -> float:
        """`join_timeout` in seconds."""
        return parse_duration_us(self.join_timeout) / 1e6

    @property
    def listen_address(self) -> tuple[str, int]:
        """`listen` as host and port."""
        return parse_address(self.listen, where="listen")

    @property
    def advertise_address(self) -> tuple[str, int] | None:
        """`advertise` as host and port; None if it is the address that is listened on."""
        return parse_address(self.advertise, where="advertise") if self.advertise else None

    @property
    def api_address(self) -> tuple[str, int]:
        """`api` as host and port."""
        return parse_address(self.api, where="api")

    @property
    def join_addresses(self) -> tuple[tuple[str, int], ...]:
        """`join` as hosts and ports."""
        return tuple(parse_address(address, where="join") for address in self.join)


def load_config(path: str | None, **overrides: Any) -> AgentConfig:
    """The configuration of a file with command-line values laid over it.

    Args:
        path: agent.toml, or None for defaults only.
        overrides: values of `AgentConfig` fields; None and empty ones change nothing. `labels` and `streams`
            are merged by name, `join` is replaced.

    Raises:
        ConfigError: unreadable file, wrong key, type or value.
    """
    raw = _read(path) if path else {}
    given = {key: value for key, value in overrides.items() if value not in (None, (), {}, "")}
    for key in ("labels", "streams"):
        if key in given and isinstance(raw.get(key, {}), dict):
            given[key] = {**raw.get(key, {}), **given[key]}
    source = path or "command line"
    config = _convert({**raw, **given}, source)
    _check(config, source)
    return config


def parse_address(text: str, *, where: str) -> tuple[str, int]:
    """Host and port of "host:port" or "[v6]:port".

    Raises:
        ConfigError: no host, or no port in 0..65535.
    """
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isascii() or not port.isdigit() or int(port) > 0xFFFF:
        raise ConfigError(f"{text!r} is not an address", where=where, hint="Write HOST:PORT.")
    return host, int(port)


def parse_label(text: str) -> tuple[str, str]:
    """The two halves of `--label k=v`."""
    key, equals, value = text.partition("=")
    if not equals or not _NAME.fullmatch(key):
        raise ConfigError(f"{text!r} is not a label", where="--label", hint="Write --label KEY=VALUE.")
    return key, value


def parse_stream(text: str) -> tuple[str, dict[str, str]]:
    """Name and settings of `--stream name=path[,format=F][,read_from=R][,idle=D][,ts=FIELD]`."""
    head, *options = _STREAM_OPTION.split(text)
    name, equals, path = head.partition("=")
    if not equals or not path:
        raise ConfigError(f"{text!r} is not a stream", where="--stream", hint="Write --stream NAME=PATH.")
    settings = {"path": path}
    for option in options:
        key, _, value = option.partition("=")
        settings[key] = value
    return name, settings


def is_loopback(host: str) -> bool:
    """Whether an address can be reached from this host only."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _read(path: str) -> dict[str, Any]:
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"cannot read it: {error.strerror}", where=path) from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"is not UTF-8: {error.reason} at byte {error.start}", where=path) from None
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"is not TOML: {error}", where=path) from None


def _convert(raw: dict[str, Any], source: str) -> AgentConfig:
    streams = raw.get("streams", {})
    if isinstance(streams, dict):
        # one by one, because msgspec does not name the key of a dict it found an error under
        checked = {str(k): _convert_one(v, StreamConfig, source, f"streams.{k}") for k, v in streams.items()}
        raw = {**raw, "streams": checked}
    return _convert_one(raw, AgentConfig, source, "")


def _convert_one(raw: Any, kind: type[T], source: str, prefix: str) -> T:
    try:
        return msgspec.convert(raw, kind)
    except msgspec.ValidationError as error:
        message, _, place = str(error).partition(" - at `$")
        place = ".".join(part for part in (prefix, place.strip("`.")) if part)
        hint = ""
        if unknown := re.search(r"unknown field `(.*?)`", message):
            message = f"unknown key {unknown[1]!r}"
            section = {"limits": LimitsConfig, "functions": FunctionsConfig}.get(place, kind)
            hint = suggest(unknown[1], section.__struct_fields__)
        elif missing := re.search(r"missing required field `(.*?)`", message):
            message = f"{missing[1]!r} is missing"
        where = f"{source}: {place}" if place else source
        raise ConfigError(message, where=where, hint=hint) from None


def _check(config: AgentConfig, source: str) -> None:
    for key in ("listen", "api"):
        host, _ = parse_address(getattr(config, key), where=f"{source}: {key}")
        if not is_loopback(host):
            raise ConfigError(
                f"{host} can be reached from other hosts, and no certificates tell friend from foe",
                where=f"{source}: {key}",
                hint=f'Use a loopback address: {key} = "127.0.0.1:PORT".',
            )
    if config.advertise and parse_address(config.advertise, where=f"{source}: advertise")[1] == 0:
        raise ConfigError(f"{config.advertise!r} has no port to connect to", where=f"{source}: advertise")
    for address in config.join:
        if parse_address(address, where=f"{source}: join")[1] == 0:
            raise ConfigError(f"{address!r} has no port to connect to", where=f"{source}: join")
    _check_values(source, "join_timeout", [config.join_timeout])
    _check_values(source, "limits.memory", [config.limits.memory], size=True)
    _check_values(source, "limits.spill", [config.limits.spill], size=True)
    if config.limits.self_check < 0:
        raise ConfigError("is less than 0", where=f"{source}: limits.self_check")
    if config.limits.memory_bytes < MEMORY_BYTES_MIN:
        raise ConfigError(f"is less than {MEMORY_BYTES_MIN // 10**6} MB", where=f"{source}: limits.memory")
    cpu = config.limits.cpu_percent
    if cpu is not None and not 0 < cpu <= 100:
        raise ConfigError("is not in (0, 100]", where=f"{source}: limits.cpu_percent")
    for name, stream in config.streams.items():
        if not _NAME.fullmatch(name):
            raise ConfigError(
                f"{name!r} is not a stream's name",
                where=f"{source}: streams",
                hint="Use letters, digits, '_', '-' and '.'; begin with a letter.",
            )
        if not stream.path:
            raise ConfigError("is empty", where=f"{source}: streams.{name}.path")
        _check_values(source, f"streams.{name}.idle", [stream.idle])


def _check_values(source: str, key: str, values: Sequence[str], *, size: bool = False) -> None:
    for value in values:
        try:
            parse_size(value) if size else parse_duration_us(value)
        except ConfigError as error:
            raise ConfigError(error.message, where=f"{source}: {key}", hint=error.hint) from None
