"""The documentation site: Sphinx over the Markdown files as they lie in the repository (ADR 0042).

The source directory is the root of the repository, so links mean the same on the site and in the repository.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(Path(__file__).parent / "_site")]

from elfmesh.version import VERSION  # noqa: E402 - after the path that it is found by

project, author = "elfmesh", "the elfmesh contributors"
version = release = VERSION
copyright = "the elfmesh contributors, Apache License 2.0"

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "elf_commands", "elf_pages"]
root_doc = "README"
include_patterns = ["*.md", "docs/*.md", "docs/**/*.md", "deploy/README.md"]
exclude_patterns = [
    *(".*", "build", "dist"),
    *("elfmesh", "tests", "tools", "examples", "benchmarks", "pyspark_elf"),
]
suppress_warnings = ["misc.highlighting_failure"]  # Pygments' SQL has no Python functions, ELF-QL has

myst_heading_anchors = 6
myst_enable_extensions = ["strikethrough"]
smartquotes = False  # a dash of a flag stays a dash
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
napoleon_use_admonition_for_examples = False

html_theme = "furo"
html_title = f"elfmesh {VERSION}"
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {"navigation_with_keys": True}
