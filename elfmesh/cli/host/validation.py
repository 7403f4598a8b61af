"""`elf validate`: finds the errors in job files and configurations before anything runs.

The module distinguishes the two kinds of files and collects many errors at once: the first error of each
statement of a job file, and one error for each setting of a configuration. The rules are those of the agent
(`config.load_config`) and of the language; the module adds none.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msgspec.structs import fields

from elfmesh.agent.settings.config import AgentConfig, config_of
from elfmesh.agent.settings.security import check_join
from elfmesh.agent.settings.toml_places import TextPlace, find_keys, place_of
from elfmesh.agent.sinks.config import TYPES
from elfmesh.control.jobs.plan import read_job
from elfmesh.errors import ConfigError, ElfError, QueryError
from elfmesh.ingest.functions.settings import check_host
from elfmesh.ingest.stream_formats import format_of
from elfmesh.ingest.stream_settings import StreamConfig
from elfmesh.local.text_input import read_text
from elfmesh.ql.text.parsing import parse_each

_AT = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")


@dataclass(frozen=True, slots=True)
class Problem:
    """An error in a file. Line and column are 0 if the error has no position."""

    file: str
    line: int
    column: int
    message: str
    hint: str
    exit_code: int

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}:{self.column}" if self.line else self.file
        return f"{place}: {self.message}" + (f"\n  {self.hint}" if self.hint else "")


@dataclass(frozen=True, slots=True)
class Checked:
    """Result of checking one file.

    Attributes:
        kind: "configuration", "jobs", or "" if the file cannot be read.
        holds: summary of its content, for display.
        problems: errors.
        warnings: errors unless something outside the file corrects them.
    """

    file: str
    kind: str
    holds: str
    problems: tuple[Problem, ...]
    warnings: tuple[Problem, ...] = ()


def validate(paths: Iterable[str]) -> Iterator[Checked]:
    """Check files in order. A job name that an earlier file has is an error of the later file."""
    names: dict[str, str] = {}
    for path in paths:
        try:
            text, source = read_text(path)
        except ElfError as error:
            yield Checked(path, "", "", (Problem(path, 0, 0, error.message, error.hint, error.exit_code),))
            continue
        yield _configuration(text, source) if is_configuration(text, path) else _jobs(text, source, names)


def is_configuration(text: str, path: str) -> bool:
    """Whether a file is an agent.toml, by its suffix, or by whether it parses as TOML."""
    suffix = Path(path).suffix.lower()
    if suffix in (".toml", ".elfql", ".sql"):
        return suffix == ".toml"
    try:
        return bool(tomllib.loads(text))
    except (tomllib.TOMLDecodeError, RecursionError):
        return False


# -- jobs


def _jobs(text: str, source: str, names: dict[str, str]) -> Checked:
    problems, holds = [], 0
    try:
        each = list(parse_each(text, source=source))
    except QueryError as error:
        each = [error]
    for found in each:
        holds += 1
        if isinstance(found, QueryError):
            problems.append(_problem(source, found))
            continue
        if found.job is None:
            continue
        place = found.origin.place(found.offset)
        name = found.job.qualified
        if name in names:
            message = f"job {name.replace('/', '.')} is defined twice, first in {names[name]}"
            problems.append(Problem(source, place.line, place.column, message, "Give it another name.", 65))
        names.setdefault(name, f"{source}:{place.line}")
        try:
            read_job(found.text, source=source)
        except QueryError as error:
            # The text of the job starts at line 1 of its own. Columns are shifted in its first line only.
            line = error.line + place.line - 1 if error.line else place.line
            column = error.column + place.column - 1 if error.line == 1 else error.column or place.column
            problems.append(Problem(source, line, column, error.message, error.hint, error.exit_code))
    return Checked(source, "jobs", _plural(holds, "statement"), tuple(problems))


def _problem(source: str, error: QueryError) -> Problem:
    return Problem(source, error.line, error.column, error.message, error.hint, error.exit_code)


# -- configurations


def _configuration(text: str, source: str) -> Checked:
    try:
        raw = tomllib.loads(text)
    except tomllib.TOMLDecodeError as wrong:
        return Checked(source, "configuration", "", (_not_toml(text, source, str(wrong)),))
    except RecursionError:
        return Checked(source, "configuration", "", (_not_toml(text, source, "it is nested too deeply"),))
    places = find_keys(text)
    problems: dict[tuple[str, str], Problem] = {}
    for error in _config_errors(raw, source):
        problems.setdefault((error.where, error.message), _placed(error, source, places))
    holds = _plural(len(raw.get("streams") or ()), "stream")
    in_order = sorted(problems.values(), key=lambda problem: (problem.line, problem.column))
    warnings: list[Problem] = []
    if not problems:
        config = config_of(raw, source)
        # the certificates may come from --tls or --token, and this host may not be the agent's
        for check in (
            check_join,
            lambda config, source: check_host(config.functions, f"{source}: functions"),
        ):
            try:
                check(config, source)
            except ConfigError as error:
                warnings.append(_placed(error, source, places))
    return Checked(source, "configuration", holds, tuple(in_order), tuple(warnings))


def _placed(error: ConfigError, source: str, places: dict[tuple[str, ...], TextPlace]) -> Problem:
    where = error.where.removeprefix(source).removeprefix(": ")
    path = tuple(where.replace("[...]", "").split(".")) if where else ()
    if unknown := re.match(r"unknown key '(.*)'$", error.message):
        path = (*path, unknown[1])
    place = place_of(places, path)
    line, column = (place.line, place.column) if place else (0, 0)
    message = f"{where}: {error.message}" if where else error.message
    return Problem(source, line, column, message, error.hint, error.exit_code)


def _not_toml(text: str, source: str, message: str) -> Problem:
    found = _AT.search(message)
    line, column = text.count("\n") + 1, 1
    if found and found[1]:
        line, column = int(found[1]), int(found[2])
    hint = 'Strings need quotes: key = "value".' if "Invalid value" in message else ""
    return Problem(source, line, column, f"is not TOML: {_AT.sub('', message)}", hint, ConfigError.exit_code)


def _config_errors(raw: dict[str, Any], source: str) -> Iterator[ConfigError]:
    """Yield the errors of each setting alone, then of the whole configuration; some errors occur twice."""
    for each in (*_pieces(raw), raw):
        try:
            config = config_of(each, source)
        except ConfigError as error:
            yield error
            continue
        yield from _format_errors(config, source)


def _pieces(raw: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Split the configuration into single settings. A setting of a stream keeps the source of the stream."""
    for key, value in raw.items():
        if not isinstance(value, dict):
            yield {key: value}
        elif key in ("streams", "lookups"):
            yield from ({key: {name: piece}} for name, each in value.items() for piece in _of_stream(each))
        elif key == "sinks":
            yield from ({key: {name: piece}} for name, each in value.items() for piece in _of_sink(each))
        elif key in ("functions", "manifests"):  # several settings together define which signatures count
            trust = {
                name: value[name] for name in ("python", "require", "keys", "signatures") if name in value
            }
            yield {key: trust}
            yield from ({key: {**trust, name: each}} for name, each in value.items() if name not in trust)
        else:
            yield from ({key: {name: each}} for name, each in value.items())


def _of_stream(given: Any) -> Iterator[Any]:
    if not isinstance(given, dict):
        yield given
        return
    origin = {name: given[name] for name in ("path", "listen", "journal", "kafka") if name in given}
    yield origin
    sound: dict[str, Any] = {"path": "-"} if len(origin) != 1 else origin
    yield from ({**sound, name: value} for name, value in given.items() if name not in origin)
    yield given


def _of_sink(given: Any) -> Iterator[Any]:
    """Yield a sink with each of its settings alone, together with the required settings."""
    kind = TYPES.get(str(given.get("type"))) if isinstance(given, dict) else None
    if kind is not None:
        needed = {"type", *(field.name for field in fields(kind) if field.required)}
        base = {name: value for name, value in given.items() if name in needed}
        yield base
        yield from ({**base, name: value} for name, value in given.items() if name not in needed)
    yield given


def _format_errors(config: AgentConfig, source: str) -> Iterator[ConfigError]:
    kinds: tuple[tuple[str, dict[str, StreamConfig]], ...] = (
        ("streams", config.streams),
        ("lookups", config.lookups),
    )
    for kind, given in kinds:
        for name, stream in given.items():
            try:
                format_of(stream, name=name)
            except ConfigError as error:
                where = error.where.replace("streams.", f"{kind}.", 1)
                yield ConfigError(error.message, where=f"{source}: {where}", hint=error.hint)


def _plural(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"
