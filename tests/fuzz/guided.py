"""A harness with coverage as its guide: python -m tests.fuzz.guided NAME SECONDS [CORPUS]. Needs atheris.

The corpus begins with what the harness makes itself; atheris keeps what reaches something new.
"""

from __future__ import annotations

import random
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

from tests.fuzz.catalog import NAMES, build

BEGIN = 200


def main() -> None:
    """Run until the time is over; atheris ends the process when it finds something."""
    try:
        import atheris
    except ImportError:
        sys.exit("atheris is not installed: pip install 'elfmesh[fuzz]'")
    name, seconds = sys.argv[1], int(sys.argv[2])
    if name not in NAMES:
        sys.exit(f"no harness {name!r}; one of {', '.join(NAMES)}")
    with atheris.instrument_imports(include=["elfmesh"]):
        harness = build(name)
    corpus = Path(sys.argv[3] if len(sys.argv) > 3 else tempfile.mkdtemp(prefix="fuzz-"))
    corpus.mkdir(parents=True, exist_ok=True)

    def one(data: bytes) -> None:
        with suppress(*harness.refusals):
            harness.run(data)

    with harness.around():
        rng = random.Random(1)
        for number in range(BEGIN):
            (corpus / f"made-{number}").write_bytes(harness.generate(rng))
        limits = [f"-max_total_time={seconds}", "-rss_limit_mb=2048", "-timeout=5"]
        atheris.Setup([sys.argv[0], *limits, str(corpus)], one)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
