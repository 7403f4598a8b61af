"""Annotation files of coordination: bytes to labels and pictures."""

from __future__ import annotations

import random

from elfmesh.api.annotation_files import parse_document
from elfmesh.control.coordination.analysis import analyse
from elfmesh.control.coordination.annotations import read_annotations
from elfmesh.control.coordination.drawing import dot, svg
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
            assert dot(found).endswith("}")
            assert svg(found).endswith("</svg>")

    return Harness("annotations", "annotation files", generate, run, DEAR, calls_per_byte=200.0)
