"""The two native modules; all else stands in pyproject.toml.

Both are plain C against CPython's stable ABI, so one wheel per platform serves every Python from 3.11 on.
Both are optional: where no compiler works the build goes on without them, and elfmesh says at start which
slower path it takes instead. ELFMESH_NO_NATIVE=1 leaves them out on purpose (a pure wheel for any platform),
ELFMESH_REQUIRE_NATIVE=1 makes a build that lacks them fail.
"""

from __future__ import annotations

import os
from pathlib import Path

from setuptools import Extension, setup

STABLE_ABI = "0x030B0000"
WHEEL_ABI = "cp311"
FLAGS = ["-std=c11", "-O3", "-fvisibility=hidden", "-Wall", "-Wextra"]
MODULES = {
    "elfmesh.cbt.kernel._native": "elfmesh/cbt/kernel/csrc",
    "elfmesh.ingest.parsers._scan": "elfmesh/ingest/parsers/csrc",
}


def extensions() -> list[Extension]:
    """One module per folder of C sources. ELFMESH_CFLAGS adds flags, such as those of a sanitizer."""
    if os.environ.get("ELFMESH_NO_NATIVE") == "1":
        return []
    extra = os.environ.get("ELFMESH_CFLAGS", "").split()
    found = []
    for name, folder in MODULES.items():
        sources = sorted(path.as_posix() for path in Path(folder).glob("*.c"))
        if sources:
            headers = sorted(path.as_posix() for path in Path(folder).glob("*.h"))
            found.append(
                Extension(
                    name,
                    sources,
                    depends=[*headers, "setup.py"],
                    define_macros=[("Py_LIMITED_API", STABLE_ABI)],
                    extra_compile_args=[*FLAGS, *extra],
                    extra_link_args=extra,
                    libraries=["m"],
                    py_limited_api=True,
                    optional=os.environ.get("ELFMESH_REQUIRE_NATIVE") != "1",
                )
            )
    return found


NATIVE = extensions()
MAN_PAGES = sorted(path.as_posix() for path in Path("deploy/man").glob("*.1"))
"""Written by `make wheel` (deploy/release/man_pages.py); a build without them has none."""

setup(
    data_files=[("share/man/man1", MAN_PAGES)],
    ext_modules=NATIVE,
    options={"bdist_wheel": {"py_limited_api": WHEEL_ABI}} if NATIVE else {},
)
