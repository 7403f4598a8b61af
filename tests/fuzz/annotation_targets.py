"""Annotation files of coordination and sources of programs: bytes to labels, findings and pictures."""

from __future__ import annotations

import json
import random
import re
from xml.etree import ElementTree

from elfmesh.api.annotation_files import parse_document
from elfmesh.control.coordination.analysis import analyse
from elfmesh.control.coordination.annotations import read_annotations
from elfmesh.control.coordination.declared import read_programs
from elfmesh.control.coordination.derivation import Analysis
from elfmesh.control.coordination.drawing import dot, svg
from elfmesh.control.coordination.findings import Linted, findings
from elfmesh.control.coordination.program_flows import with_programs
from elfmesh.control.coordination.reports import lines, sarif
from elfmesh.control.coordination.statements import dataflow
from elfmesh.control.jobs.graph import job_graph
from tests.control.coordination.papers import AD_NETWORK, WORD_COUNT
from tests.fuzz.engine import DEAR, Harness
from tests.fuzz.mutate import BYTES, mutated

STREAMS = """\
A: {annotation: {from: a, to: b, label: OW, lineage: {k: hex(id)}, idempotent: true}}
streams:
  - {name: again, from: A.b, to: A.a, delayed: true, order: M2, seal: [k]}
  - {name: first, to: A.a, once: false, rep: true, seal: order(ts)}
dependencies: ["id -> campaign", "a, b <-> c"]
"""
EXAMPLES = [
    AD_NETWORK.encode(),
    WORD_COUNT.encode(),
    b"A: {annotation: {from: a, to: b, label: OW, lineage: {k: hex(id)}, idempotent: true}}\n"
    + STREAMS.encode(),
    b'{"A": {"Rep": true, "annotation": [{"from": "a", "to": "b", "label": "OR", "subscript": ["id"]}]}}',
]
WORDS = tuple(
    word.encode()
    for word in (
        *("from:", "to:", "label:", "subscript:", "lineage:", "Rep: true", "streams:", "dependencies:"),
        *("OR", "OW", "CR", "CW", "M1", "id -> id", "- {", "&a ", "*a", "!!str ", "---\n", "? ", "|\n"),
    )
)


def files() -> Harness:
    """YAML and JSON, to the labels by both rule sets and the pictures."""

    def generate(rng: random.Random) -> bytes:
        return mutated(rng, rng.choice(EXAMPLES), (*BYTES, *WORDS))

    def run(data: bytes) -> None:
        name = "f.json" if data.startswith(b"{") else "f.yaml"
        for graph in read_annotations(parse_document(data, name)).graphs({}).values():
            for rules in ("sound", "paper"):
                found = analyse(graph, rules)
            assert_drawn(found)

    return Harness("annotations", "annotation files", generate, run, DEAR, calls_per_byte=200.0)


_QUOTED = r'"(?:[^"\\\x00-\x1f\x7f]|\\[\\"l])*"'
_LIST = rf"\[\w+=(?:\w+|{_QUOTED})(?:, \w+=(?:\w+|{_QUOTED}))*\]"
_STATEMENT = rf"(?:rankdir=LR|(?:node|{_QUOTED}(?: -> {_QUOTED})?) {_LIST});"
_DOT = re.compile(rf"digraph blazes \{{\n(?:  {_STATEMENT}\n)*\}}")
"""All that a picture may have: statements of Graphviz, whose texts end where they began."""


def assert_drawn(found: Analysis) -> None:
    """Refuse pictures that a hostile name has broken."""
    assert _DOT.fullmatch(dot(found)), "DOT"
    ElementTree.fromstring(svg(found))


PROGRAM = b"""\
import elfmesh as e
from elfmesh import Job as J, path
class Base(J):
    async def on_route(self, message):
        return await self.other()
    async def other(self):
        await self.insert([], stream="coupons")
class P(Base):
    query = "CREATE JOB a.p EVERY '1 s' AS SELECT u, count(*) AS n FROM clicks GROUP BY u"
    topics = ("ads.clicks", "ads.views")
    @e.path("results", "multicast", "OW", by=("u",), why="the newest wins")
    @path("results", "insert:clicks", "CW", idempotent=True)
    async def on_result(self, result):
        await self.post("ads.clicks", 1)
    @path("post:ads.clicks", "outside", "OR", by=("campaign",))
    async def on_post(self, topic, batch): ...
    async def on_timer(self): await self.send_to("top", [self])
class T(e.Job):
    query = "CREATE TOPIC ads.clicks DELIVERY SEQUENCED EVERY '1 s'"
"""
SOURCES = tuple(
    word.encode()
    for word in (
        *("class Q(P):", "(((((", "lambda: ", "async def on_early(self): ...\n", "\t", "\f", "*", "\\\n"),
        *("@path(", "e.path", "by=", "name = ", "query = ", "topics = ()", "import elfmesh", "f'{x!r}'"),
        *("match x:", "# elf: allow B004 because", "CREATE TOPIC a.b DELIVERY AUTO", "'" * 3),
        "await self.route('a/b', 1)",
    )
)


def programs() -> Harness:
    """Python sources, to the labels, the findings and the pictures; none is run."""

    def generate(rng: random.Random) -> bytes:
        return mutated(rng, PROGRAM, (*BYTES, *SOURCES))

    def run(data: bytes) -> None:
        found = read_programs(data, "f.py")
        jobs = job_graph([each.statement for each in found if each.statement])
        analysis = analyse(with_programs(dataflow(jobs), found))
        assert_drawn(analysis)
        shown = findings(Linted(analysis, jobs, found))
        json.dumps([sarif(shown), list(lines(shown))], allow_nan=False)

    return Harness("programs", "Python sources of programs", generate, run, DEAR, calls_per_byte=200.0)
