"""The inputs of a query over history: the logs, tables or results of each stream, divided into tasks.

The module opens files only to inspect their beginning. It does not know Spark.
"""

from __future__ import annotations

import glob
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from elfmesh.errors import ConfigError, UsageError
from elfmesh.ingest.parsers import AutoParser, Parser, StreamFormat
from elfmesh.ingest.parsers.formats import AUTO
from elfmesh.ingest.sources.blocks import check_readable, is_compressed
from elfmesh.ingest.sources.position import HEAD_BYTES
from elfmesh.ingest.stream_formats import format_of
from elfmesh.ingest.stream_settings import StreamConfig, parse_stream
from elfmesh.text import suggest

PARQUET, RESULTS, ARCHIVE = "parquet", "elf", "archive"
SPLIT_BYTES = 32 << 20
"""Size of a task's share of a plain file. Parsing it takes some seconds, so the start of a task costs little.
"""

SHARES_MAX = 4096
"""Maximum number of tasks of one query over logs; with more pieces, each task gets several."""


@dataclass(frozen=True, slots=True)
class HistoryInput:
    """Input of a stream: settings as of an agent's `[streams.NAME]`, or a Spark DataFrame."""

    stream: str
    config: StreamConfig
    frame: Any = None

    @property
    def kind(self) -> str:
        """One of frame, parquet, archive, elf (results of a job), remote (files that Spark reads) and log."""
        if self.frame is not None:
            return "frame"
        if self.config.format.startswith(PARQUET + ":"):
            return ARCHIVE
        if self.config.format in (PARQUET, RESULTS):
            return self.config.format
        return "remote" if is_remote(self.config.path) else "log"

    def format(self, host: str) -> StreamFormat:
        """Return the format of its lines, with a schema that is not shared."""
        config = self.config
        if self.kind == ARCHIVE:
            config = msgspec.structs.replace(config, format=config.format.partition(":")[2])
        elif self.kind not in ("log", "remote"):  # its records are columns already
            config = msgspec.structs.replace(config, format="json")
        return format_of(config, name=self.stream, host=host)


@dataclass(frozen=True, slots=True)
class FilePiece:
    """Part of a file that one task reads: all lines that begin in it.

    If `stop` is None, it is the whole file, which may be compressed. `content` contains the bytes if Spark
    has read the file.
    """

    stream: str
    path: str
    start: int = 0
    stop: int | None = None
    content: bytes | None = None

    @property
    def key(self) -> str:
        """Key that identifies the piece."""
        return self.path if self.stop is None else f"{self.path}\0{self.start}"


def is_remote(path: str) -> bool:
    """Whether only Spark can read the path, such as s3a:// or hdfs://."""
    return "://" in path and not path.startswith("file://")


def given_inputs(streams: Mapping[str, Any], option: str = "streams") -> dict[str, HistoryInput]:
    """Return the inputs that a caller named.

    An input is a path and a format, a text as `--stream` takes, a dict of settings, or a DataFrame.
    """
    found = {}
    for name, given in streams.items():
        settings: Mapping[str, Any] = {}
        if isinstance(given, str):
            _, settings = parse_stream(f"{name}={given}", option)
        elif isinstance(given, Mapping):
            settings = given
        elif isinstance(given, tuple) and len(given) == 2:
            settings = dict(zip(("path", "format"), map(str, given), strict=True))
        elif hasattr(given, "mapInArrow"):
            found[name] = HistoryInput(name, StreamConfig(path=""), given)
            continue
        else:
            hint = 'Give ("PATH", "FORMAT"), a text "PATH,format=F", a dict of settings or a DataFrame.'
            raise UsageError(f"{option}: {name} is {type(given).__name__}", hint=hint)
        try:
            config = msgspec.convert(dict(settings), StreamConfig, strict=False)
        except msgspec.ValidationError as error:
            raise ConfigError(f"{option}: {name}: {error}") from None
        if not config.path:
            raise ConfigError(f"{option}: {name} has no path", hint="Spark reads files; an agent can listen.")
        path = config.path.removeprefix("file://")
        found[name] = HistoryInput(name, msgspec.structs.replace(config, path=path))
    return found


def check_named(streams: Sequence[str], inputs: Mapping[str, HistoryInput]) -> None:
    """Refuse a query over a stream without an input.

    Raises:
        UsageError: a stream has no input; the message names the known ones.
    """
    for name in streams:
        if name not in inputs:
            known = (
                f"There are {', '.join(inputs)}." if inputs else f"Say --stream {name}=PATH[,format=FORMAT]."
            )
            hint = suggest(name, inputs) or known
            raise UsageError(f"the query reads the stream {name}, which has no input", hint=hint)


def files_of(path: str) -> list[str]:
    """Return the files of a path, pattern or directory in the order of reading."""
    if Path(path).is_dir():
        each = sorted(str(found) for found in Path(path).rglob("*") if found.is_file())
        return [found for found in each if not Path(found).name.startswith((".", "_"))]
    paths = [path]
    if glob.has_magic(path) and not Path(path).exists():
        paths = sorted(glob.glob(path, recursive=True)) or paths  # noqa: PTH207 - Path.glob takes no absolute pattern
    for each_path in paths:
        check_readable(each_path)
    return [each_path for each_path in paths if not Path(each_path).is_dir()]


def pieces_of(each: HistoryInput, host: str, split_bytes: int = SPLIT_BYTES) -> Iterator[FilePiece]:
    """Divide the logs of one stream for tasks. Only plain files whose records are single lines are split."""
    formats = each.format(host)
    for path in files_of(each.config.path):
        whole = FilePiece(each.stream, path)
        size = Path(path).stat().st_size
        if size <= split_bytes or not _by_lines(formats, path):
            yield whole
            continue
        for start in range(0, size, split_bytes):
            yield replace(whole, start=start, stop=min(size, start + split_bytes))


def check_headless(parser: Parser, data: bytes, stream: str) -> None:
    """Refuse an archive of raw lines whose format needs a header, because tasks read parts without it.

    The parser has read nothing yet; `data` is the lines that it will read.
    """
    inner = parser
    if isinstance(parser, AutoParser):
        parser.choose(data)
        inner = parser.inner or parser
    if inner.known_columns() is None and inner.header_columns(data) is not None:
        raise UsageError(
            f"{stream}: lines of {inner.name} mean nothing without their header, and an archive of raw lines "
            "is read in parts",
            hint='Archive such a log with what = "parsed", or read the log itself.',
        )


def head_of(path: str) -> bytes:
    """Return the beginning of a file, which contains the header and from which `auto` detects the format."""
    with Path(path).open("rb") as file:
        return file.read(HEAD_BYTES)


def _by_lines(formats: StreamFormat, path: str) -> bool:
    if is_compressed(path) or (formats.name != AUTO and formats.directive):
        return False
    parser = formats.parser(path)
    if not isinstance(parser, AutoParser):
        return formats.framing is None and parser.framing is None
    parser.choose(head_of(path))
    inner = parser.inner
    return inner is not None and inner.framing is None and inner.name != "w3c"
