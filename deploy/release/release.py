"""What `make release` adds to the wheel and the packages: SBOM, lock, checksums and one signature.

    release.py check --key KEY          refuse before anything is built
    release.py sdist FILE               give a source distribution the same bytes for the same sources
    release.py finish --key KEY --out dist --tools build/wheel/tools/bin

The key is a private SSH key. `ssh-keygen -Y` signs the list of checksums, and the list covers every other
file, so that one signature covers the release. A user needs `sha256sum` and `ssh-keygen` to verify it:
deploy/README.md shows the two commands.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import io
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
LOCK = Path(__file__).with_name("requirements.lock")
SUMS, SIGNATURE = "SHA256SUMS", "SHA256SUMS.sig"
NAMESPACE = "elfmesh-release"
"""Of the signature: one that was made with the same key for another purpose does not verify."""


def main() -> None:
    """Run one of the three steps."""
    parser = argparse.ArgumentParser(description="Complete and sign a release.")
    steps = parser.add_subparsers(dest="step", required=True)
    check = steps.add_parser("check")
    check.add_argument("--key", required=True)
    sdist = steps.add_parser("sdist")
    sdist.add_argument("file", type=Path)
    last = steps.add_parser("finish")
    last.add_argument("--key", required=True)
    last.add_argument("--out", type=Path, required=True)
    last.add_argument("--tools", type=Path, required=True)
    given = parser.parse_args()
    if given.step == "check":
        usable(given.key)
    elif given.step == "sdist":
        repack(given.file, int(os.environ["SOURCE_DATE_EPOCH"]))
    else:
        finish(usable(given.key), given.out, given.tools)


def usable(key: str) -> Path:
    """The path of the key; ends the process where it cannot sign."""
    if not key:
        sys.exit(
            "no key: make release KEY=path of a private SSH key (ssh-keygen -t ed25519 -f path makes one)"
        )
    if shutil.which("ssh-keygen") is None:
        sys.exit("not found: ssh-keygen. On Debian: apt-get install openssh-client")
    if not Path(key).is_file():
        sys.exit(f"{key}: there is no such key")
    tried = subprocess.run(
        ["ssh-keygen", "-q", "-Y", "sign", "-f", key, "-n", NAMESPACE],
        input=b"", capture_output=True, check=False,
    )  # fmt: skip
    if tried.returncode:
        why = tried.stderr.decode(errors="replace").strip()
        sys.exit(f"{key}: cannot sign with it: {why}. It has to be a private SSH key, or one in the agent.")
    return Path(key).resolve()


def repack(archive: Path, epoch: int) -> None:
    """Write a .tar.gz again with its members in order and without times, owners and modes of this machine."""
    packed = io.BytesIO()
    with (
        tarfile.open(archive) as source,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.GNU_FORMAT) as target,
    ):
        for member in sorted(source.getmembers(), key=lambda each: each.name):
            member.mtime, member.uid, member.gid, member.uname, member.gname = epoch, 0, 0, "", ""
            member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
            member.pax_headers = {}
            target.addfile(member, source.extractfile(member) if member.isfile() else None)
    archive.write_bytes(gzip.compress(packed.getvalue(), 9, mtime=0))


def finish(key: Path, out: Path, tools: Path) -> None:
    """Add lock and SBOM to the built files, then checksums of all, then their signature."""
    (wheel,) = out.glob("elfmesh-*.whl")
    version = wheel.name.split("-")[1]
    lock = out / f"elfmesh-{version}.requirements.lock"
    shutil.copyfile(LOCK, lock)
    write_sbom(lock, out / f"elfmesh-{version}.cdx.json", tools)
    sign(out, key)
    for path in sorted(out.iterdir()):
        print(path)


def write_sbom(lock: Path, made: Path, tools: Path) -> None:
    """A CycloneDX list of everything that the lock names, with its hashes."""
    subprocess.run(
        [tools / "cyclonedx-py", "requirements", lock, "--pyproject", ROOT / "pyproject.toml",
         "--mc-type", "application", "--output-reproducible", "--of", "JSON", "-o", made],
        check=True,
    )  # fmt: skip


def sign(out: Path, key: Path) -> None:
    """Write the checksums of all files of a directory, and the signature of that list."""
    for name in (SUMS, SIGNATURE):
        (out / name).unlink(missing_ok=True)
    sums = [
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n"
        for path in sorted(out.iterdir())
        if path.is_file()
    ]
    (out / SUMS).write_text("".join(sums))
    subprocess.run(["ssh-keygen", "-q", "-Y", "sign", "-f", key, "-n", NAMESPACE, out / SUMS], check=True)


if __name__ == "__main__":
    main()
