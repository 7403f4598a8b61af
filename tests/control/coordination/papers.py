"""The annotation files that the paper prints, and the labels of their outputs."""

from __future__ import annotations

from elfmesh.api import coordination
from elfmesh.control.coordination.analysis import analyse
from elfmesh.control.coordination.derivation import Analysis
from elfmesh.control.coordination.rules import RuleSet

WORD_COUNT = """\
Splitter:
  annotation:
    - { from: tweets, to: words, label: CR }
Count:
  annotation:
    - { from: words, to: counts, label: OW, subscript: [word, batch] }
Commit:
  annotation: { from: counts, to: db, label: CW }
"""
"""Paper: VI-A1, as printed."""

AD_NETWORK = """\
Cache:
  annotation:
    - { from: request, to: response, label: CR }
    - { from: response, to: response, label: CW }
    - { from: request, to: request, label: CR }
Report:
  Rep: true
  annotation:
    - { from: click, to: response, label: CW }
POOR: { from: request, to: response, label: OR, subscript: [id] }
THRESH: { from: request, to: response, label: CR }
WINDOW: { from: request, to: response, label: OR, subscript: [id, window] }
CAMPAIGN: { from: request, to: response, label: OR, subscript: [id, campaign] }
"""
"""Paper: VI-B1, as printed."""

QUERIES = ("THRESH", "POOR", "WINDOW", "CAMPAIGN")


def analysed(text: str, rules: str | RuleSet = "sound", **variants: str) -> Analysis:
    return analyse(coordination.parse(text.encode(), "paper.yaml", variants), rules)


def word_count(seal: str, rules: str | RuleSet = "sound") -> Analysis:
    streams = f"streams: [{{name: tweets, seal: [{seal}]}}]\n" if seal else ""
    return analysed(WORD_COUNT + streams, rules)


def ad_network(query: str, seal: str, rules: str | RuleSet = "sound", more: str = "") -> Analysis:
    streams = f"streams: [{{name: click, seal: [{seal}]}}]\n" if seal else ""
    return analysed(AD_NETWORK + streams + more, rules, Report=query)
