r"""Container logs: CRI (Kubernetes) and Docker's json-file, with the parts of long lines joined.

    2016-10-06T00:17:09.669794202Z stdout P the first part of
    2016-10-06T00:17:09.669794203Z stdout F  a long line
    {"log":"a line\n","stream":"stdout","time":"2016-10-06T00:17:09.669794202Z"}

Columns: ts and stream (of the first part), message (all parts, without the line's end), and namespace, pod
and container, which the path of the file names (`container_of`). A part is marked P in CRI, and is a `log`
without a final newline in Docker. A record is the bytes from its first part to its last; parts of the other
stream may be in between.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import pyarrow as pa

from elfmesh.arrow_kernels import pc
from elfmesh.ingest.parsers.base import Parsed, ParsedColumns, Parser
from elfmesh.ingest.parsers.framing import PartFraming
from elfmesh.ingest.parsers.json_lines import JsonParser
from elfmesh.ingest.parsers.lines import Lines, Positions
from elfmesh.ingest.parsers.pattern_formats.patterns import PatternParser
from elfmesh.ingest.parsers.pattern_formats.servers import CRI
from elfmesh.ingest.parsers.schema import STRING, StreamSchema
from elfmesh.ingest.parsers.text_fields import TextOptions

PATH_COLUMNS = ("namespace", "pod", "container")
CONTAINER_COLUMNS = ("ts", "stream", "message", *PATH_COLUMNS)
_MESSAGE = "message"

_NAME = r"[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?"
_PATHS = (
    # /var/log/pods/NAMESPACE_POD_UID/CONTAINER/RESTARTS.log, also rotated
    re.compile(
        rf"(?:^|/)(?P<namespace>{_NAME})_(?P<pod>{_NAME})_[0-9A-Za-z-]+/(?P<container>{_NAME})/\d+\.log[^/]*$"
    ),
    # /var/log/containers/POD_NAMESPACE_CONTAINER-ID.log, a link to it
    re.compile(
        rf"(?:^|/)(?P<pod>{_NAME})_(?P<namespace>{_NAME})_(?P<container>{_NAME})-[0-9a-f]{{64}}\.log$"
    ),
    # /var/lib/docker/containers/ID/ID-json.log
    re.compile(r"(?:^|/)(?P<container>[0-9a-f]{64})/(?P=container)-json\.log[^/]*$"),
)


@lru_cache(maxsize=1024)
def container_of(path: str) -> dict[str, str]:
    """Return the namespace, the pod and the container that the path of a log names, by column."""
    found = next(filter(None, (pattern.search(path) for pattern in _PATHS)), None)
    return {} if found is None else found.groupdict()


CRI_PARTS = PartFraming(r"^\S+ (?P<stream>stdout|stderr) [PF]", r"^\S+ (?:stdout|stderr) P(?::\S*)? ")
DOCKER_PARTS = PartFraming(r'"stream":"(?P<stream>\w*)"', r'^\{"log":"', r'^\{"log":"(?:[^"\\]|\\.)*\\n"[,}]')


class ContainerParser(Parser):
    """Parser whose `inner` parses the lines; the parts of one record are then joined according to `parts`."""

    def __init__(
        self, source: str, host: str, *, name: str, inner: Parser, parts: PartFraming, message: str
    ) -> None:
        super().__init__(source, host)
        self.name, self.framing = name, parts
        self._inner, self._parts, self._message = inner, parts, message
        self._block: tuple[Lines, Positions] | None = None

    def known_columns(self) -> tuple[str, ...] | None:
        return CONTAINER_COLUMNS

    def parse_lines(self, lines: Lines, columns: Sequence[str]) -> Parsed:
        numbers, _ = self._parts.records(lines)
        self._block = lines, numbers
        self._inner.source = self.source
        _, firsts = np.unique(numbers, return_index=True)
        if len(firsts) < len(lines):
            lasts = np.zeros(len(firsts), np.int64)
            np.maximum.at(lasts, numbers, np.arange(len(lines)))
            lines = lines.part(lines.starts[firsts], lines.ends[lasts])
        return super().parse_lines(lines, columns)

    def columns(self, lines: Lines, wanted: Sequence[str]) -> ParsedColumns:
        assert self._block is not None
        parts, numbers = self._block
        known = [name for name in wanted if name in CONTAINER_COLUMNS and name not in PATH_COLUMNS]
        asked = [self._message if name == _MESSAGE else name for name in known]
        found = self._inner.columns(parts, asked)
        numbers = numbers if found.rows is None else numbers[found.rows]
        records, firsts = np.unique(numbers, return_index=True)
        arrays: dict[str, pa.Array] = {}
        for name, inner in zip(known, asked, strict=True):
            array = found.arrays.get(inner, pa.nulls(len(numbers), pa.string()))
            if name == _MESSAGE:
                arrays[name] = _joined(array, numbers, len(records))
            else:
                arrays[name] = array if len(firsts) == len(array) else array.take(pa.array(firsts))
        about = container_of(self.source)
        for name in PATH_COLUMNS:
            if name in wanted:
                arrays[name] = pa.repeat(pa.scalar(about.get(name), pa.string()), len(records))
        rows = records if len(records) < len(lines) else None
        unfit = np.searchsorted(records, numbers[list(found.unfit)]).tolist() if found.unfit else ()
        return ParsedColumns(arrays, rows, found.samples, unfit)


def _joined(texts: pa.Array, numbers: Positions, count: int) -> pa.Array:
    if pa.types.is_null(texts.type):
        texts = texts.cast(pa.string())
    texts = pc.replace_substring_regex(texts.fill_null(""), r"\r?\n$", "")
    if count == len(texts):
        return texts
    order = np.argsort(numbers, kind="stable")
    offsets = np.append(0, np.cumsum(np.unique(numbers, return_counts=True)[1])).astype(np.int32)
    return pc.binary_join(pa.ListArray.from_arrays(pa.array(offsets), texts.take(pa.array(order))), "")


def cri_parser(source: str, host: str, options: TextOptions) -> Parser:
    table = CRI
    inner = PatternParser(source, host, options, name="cri", patterns=table.patterns, names=table.names)
    return ContainerParser(source, host, name="cri", inner=inner, parts=CRI_PARTS, message=_MESSAGE)


def docker_parser(source: str, host: str, options: TextOptions) -> Parser:
    schema = StreamSchema({"log": STRING, "stream": STRING})
    inner = JsonParser(source, host, schema=schema, timestamp=options.timestamp or "time")
    return ContainerParser(source, host, name="docker", inner=inner, parts=DOCKER_PARTS, message="log")
