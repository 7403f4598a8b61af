"""What makes a site of files that are written for the repository: their order, and links to folders.

A link between documents becomes a link between pages, and a link to another file leads to a copy of that
file. A link to a folder shows its text only, because a site has no folders. A link that leads nowhere stays
an error.
"""

from __future__ import annotations

from pathlib import Path

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment

ORDER = {
    "Start": [
        *("docs/guide", "docs/elf-ql", "docs/formats"),
        *("docs/reference/commands", "docs/reference/python"),
    ],
    "Use": [
        *("docs/updates", "docs/spark", "docs/sinks", "docs/programs", "docs/functions", "docs/page"),
        "docs/plugins",
        "docs/coordination", "docs/failure-domains", "docs/wide-area",
        "docs/compatibility",
    ],
    "Operate": [
        "docs/operations/configuration", "docs/operations/inputs", "docs/operations/monitoring",
        "docs/operations/runbook", "docs/operations/backup-and-upgrade", "docs/security", "docs/identity",
        "deploy/README",
    ],
    "Understand": [
        "docs/architecture", "docs/guarantees", "docs/reliability", "docs/benchmarks", "docs/benchmarks/*",
        "docs/glossary", "docs/adr/README", "docs/paper-map", "docs/history/*",
    ],
    "Contribute": ["CONTRIBUTING", "CHANGELOG", "SECURITY", "CODE_OF_CONDUCT"],
}  # fmt: skip
ROOT_DOC, DECISIONS = "README", "docs/adr/README"


def add_order(app: Sphinx, name: str, source: list[str]) -> None:
    """Give the first page the tables of contents, and that of the decisions the list of them."""
    if name == ROOT_DOC:
        source[0] += "".join(_toctree(entries, caption) for caption, entries in ORDER.items())
    elif name == DECISIONS:
        source[0] += _toctree(["0*"])


def _toctree(entries: list[str], caption: str = "") -> str:
    lines = [f":caption: {caption}"] if caption else []
    return "\n".join(["\n```{toctree}", *lines, ":hidden:", ":glob:", "", *entries, "```\n"])


def link_to_folder(
    app: Sphinx, env: BuildEnvironment, node: addnodes.pending_xref, text: nodes.Element
) -> nodes.Node | None:
    """The text of a link to a folder of the repository; None: the link leads nowhere."""
    if node.get("reftype") != "myst":
        return None
    target = Path(app.srcdir, node.get("refdoc", ROOT_DOC)).parent / node["reftarget"].partition("#")[0]
    return text if target.is_dir() else None


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the two."""
    app.connect("source-read", add_order)
    app.connect("missing-reference", link_to_folder)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
