"""The deb and the rpm of a wheel: `make packages`.

Both hold a virtual environment under /opt/elfmesh, made when the package is built. Nothing is fetched or run
by pip on a server; `dpkg -V` and `rpm -V` know every file; a web server need not reach a package index. The
price: a package is for one version of Python, that of the interpreter which runs this, and one architecture.

    python deploy/packages/build.py --wheel dist/elfmesh-*.whl --out dist

What the wheel needs comes from `deploy/release/requirements.lock`: pip refuses any other version or file.
"""

from __future__ import annotations

import argparse
import compileall
import csv
import gzip
import hashlib
import os
import platform
import py_compile
import re
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
DEPLOY = HERE.parent
ROOT = DEPLOY.parent
PREFIX = "opt/elfmesh"
LOCK = DEPLOY / "release" / "requirements.lock"
"""The dependencies and those of the small extras (`LOCK_EXTRAS` in the Makefile). Spark, Kafka and PostgreSQL
are for hosts that have them: /opt/elfmesh/bin/python -m pip."""

DEB_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
PYTHON = f"{sys.version_info[0]}.{sys.version_info[1]}"
NEXT_PYTHON = f"{sys.version_info[0]}.{sys.version_info[1] + 1}"
LAUNCHER = """#!/{prefix}/bin/python -I
import sys

from elfmesh.cli.entry import main

sys.exit(main())
"""


def main() -> None:
    """Stage the files once, pack them twice."""
    parser = argparse.ArgumentParser(description="Build the deb and the rpm of a wheel.")
    parser.add_argument("--wheel", type=Path, default=Path())
    parser.add_argument("--out", type=Path, default=Path())
    parser.add_argument("--check", action="store_true", help="only say whether the tools are there")
    parser.add_argument("--work", type=Path, default=ROOT / "build" / "packages")
    parser.add_argument("--formats", default="deb,rpm", help="deb, rpm or both, comma between [deb,rpm]")
    given = parser.parse_args()
    formats = given.formats.split(",")
    tools = {"deb": "dpkg-deb", "rpm": "rpmbuild"}
    if unknown := [name for name in formats if name not in tools]:
        sys.exit(f"--formats: {', '.join(unknown)} is neither deb nor rpm")
    if missing := [tools[name] for name in formats if shutil.which(tools[name]) is None]:
        sys.exit(f"not found: {', '.join(missing)}. On Debian: apt-get install dpkg-dev rpm")
    if given.check:
        return
    if not given.wheel.is_file():
        sys.exit(f"{given.wheel}: there is no such wheel; `make wheel` builds one")
    version = given.wheel.name.split("-")[1]
    os.environ.setdefault("SOURCE_DATE_EPOCH", _epoch())
    os.umask(0o022)
    given.out.mkdir(parents=True, exist_ok=True)
    stage = given.work / "root"
    shutil.rmtree(given.work, ignore_errors=True)
    stage_files(stage, given.wheel)
    for name in formats:
        made = (build_deb if name == "deb" else build_rpm)(stage, given.work, given.out, version)
        print(made)


def _epoch() -> str:
    """The time of the last commit: the same sources give the same package."""
    asked = subprocess.run(
        ["git", "log", "-1", "--format=%ct"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return asked.stdout.strip() or "1"


# -- files ---------------------------------------------------------------------------------------------


def operators_pages() -> list[Path]:
    """The pages for operators, which a host has without a network."""
    return sorted((ROOT / "docs" / "operations").glob("*.md"))


def stage_files(stage: Path, wheel: Path) -> None:
    """All files as they will lie on a host."""
    make_environment(stage / PREFIX, wheel)
    units = DEPLOY / "systemd"
    for source, target in (
        (units / "elf-agent.service", "usr/lib/systemd/system/elf-agent.service"),
        (units / "elf-agent@.service", "usr/lib/systemd/system/elf-agent@.service"),
        (units / "elfmesh.sysusers", "usr/lib/sysusers.d/elfmesh.conf"),
        (units / "elfmesh.tmpfiles", "usr/lib/tmpfiles.d/elfmesh.conf"),
        (units / "elf-agent.default", "etc/default/elf-agent"),
        (units / "agent.toml.example", "usr/share/doc/elfmesh/examples/agent.toml"),
        (units / "logrotate.example", "usr/share/doc/elfmesh/examples/logrotate"),
        *((page, f"usr/share/doc/elfmesh/operations/{page.name}") for page in operators_pages()),
        (HERE / "debian" / "copyright", "usr/share/doc/elfmesh/copyright"),
    ):
        (stage / target).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, stage / target)
    stage_man_pages(stage)
    (stage / "usr/bin").mkdir(parents=True)
    (stage / "usr/bin/elf").symlink_to(f"/{PREFIX}/bin/elf")


def stage_man_pages(stage: Path) -> None:
    """The manual pages of the wheel, which pip has put beside the packages."""
    share = stage / PREFIX / "lib" / f"python{PYTHON}" / "site-packages" / "share"
    pages = sorted((share / "man" / "man1").glob("elf*.1"))
    if not pages:
        sys.exit("the wheel has no manual pages; `make wheel` writes them")
    target = stage / "usr/share/man/man1"
    target.mkdir(parents=True)
    for page in pages:
        (target / f"{page.name}.gz").write_bytes(_zipped(page.read_text()))
    shutil.rmtree(share)


def make_environment(prefix: Path, wheel: Path) -> None:
    """A virtual environment around the system's Python: what `python -m venv` makes, and no pip in it."""
    packages = prefix / "lib" / f"python{PYTHON}" / "site-packages"
    packages.mkdir(parents=True)
    install = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    install += ["--only-binary", ":all:", "--no-compile", "--no-deps", "--target", str(packages)]
    for what in (["--require-hashes", "-r", str(LOCK)], [str(wheel)]):
        subprocess.run([*install, *what], check=True)
        shutil.rmtree(packages / "bin", ignore_errors=True)
    for left in packages.glob("*.dist-info/direct_url.json"):
        left.unlink()  # where the wheel lay on the machine that built this
    for left in (*packages.rglob("tests"), *packages.glob("pyarrow/include"), *packages.glob("pyarrow/src")):
        shutil.rmtree(left, ignore_errors=True)
    for record in packages.glob("*.dist-info/RECORD"):
        leave_out_missing(record)
    for left in packages.rglob("*.so*"):
        left.chmod(0o644)
    hashes = py_compile.PycInvalidationMode.UNCHECKED_HASH  # no times inside: the same bytes each time
    shown = f"/{packages.relative_to(prefix.parents[1])}"
    if not compileall.compile_dir(
        packages, quiet=1, invalidation_mode=hashes, stripdir=packages, prependdir=shown
    ):
        sys.exit("a module does not compile")
    (prefix / "bin").mkdir()
    (prefix / "bin" / "python").symlink_to(f"/usr/bin/python{PYTHON}")
    (prefix / "pyvenv.cfg").write_text(
        f"home = /usr/bin\ninclude-system-site-packages = false\nversion = {PYTHON}\n"
    )
    launcher = prefix / "bin" / "elf"
    launcher.write_text(LAUNCHER.format(prefix=PREFIX))
    launcher.chmod(0o755)


def leave_out_missing(record: Path) -> None:
    """Of a list of installed files, those that are not packed: their hashes are of paths of this machine."""
    with record.open(newline="") as file:
        rows = [row for row in csv.reader(file) if (record.parent.parent / row[0]).exists()]
    with record.open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(rows)


# -- deb -----------------------------------------------------------------------------------------------


def build_deb(stage: Path, work: Path, out: Path, version: str) -> Path:
    """A deb of the staged files."""
    architecture = DEB_ARCHITECTURES[platform.machine()]
    root = work / "deb"
    shutil.copytree(stage, root, symlinks=True)
    documents = root / "usr/share/doc/elfmesh"
    (documents / "changelog.gz").write_bytes(_zipped(changelog(version)))
    overrides = root / "usr/share/lintian/overrides/elfmesh"
    overrides.parent.mkdir(parents=True)
    shutil.copyfile(HERE / "debian" / "lintian-overrides", overrides)
    control = root / "DEBIAN"
    control.mkdir()
    size = sum(path.lstat().st_size for path in root.rglob("*") if not path.is_dir()) // 1024
    values = {
        "version": version, "architecture": architecture, "size": size,
        "python": PYTHON, "next_python": NEXT_PYTHON,
    }  # fmt: skip
    (control / "control").write_text(filled(HERE / "debian" / "control", values))
    (control / "conffiles").write_text("/etc/default/elf-agent\n")
    for script in ("postinst", "prerm", "postrm"):
        shutil.copyfile(HERE / "debian" / script, control / script)
        (control / script).chmod(0o755)
    sums = [
        f"{hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest()}  {path.relative_to(root)}\n"
        for path in sorted(root.rglob("*"))
        if path.is_file() and not path.is_symlink() and not path.is_relative_to(control)
        and path != root / "etc/default/elf-agent"
    ]  # fmt: skip
    (control / "md5sums").write_text("".join(sums))
    made = out / f"elfmesh_{version}_{architecture}.deb"
    subprocess.run(
        ["dpkg-deb", "--root-owner-group", "-Zxz", "--build", str(root), str(made)],
        check=True, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    return made


def changelog(version: str) -> str:
    """One entry, dated as the sources."""
    date = subprocess.run(
        ["date", "-u", "-R", f"--date=@{os.environ['SOURCE_DATE_EPOCH']}"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return (
        f"elfmesh ({version}) unstable; urgency=medium\n\n  * Release {version}.\n\n"
        f" -- elfmesh <elfmesh@localhost.invalid>  {date.stdout}"
    )


def _zipped(text: str) -> bytes:
    return gzip.compress(text.encode(), 9, mtime=0)


def filled(template: Path, values: dict[str, object]) -> str:
    """A template with each @name@ replaced.

    Raises:
        KeyError: it names something that has no value.
    """
    return re.sub(r"@([a-z_]+)@", lambda match: str(values[match[1]]), template.read_text())


# -- rpm -----------------------------------------------------------------------------------------------


def build_rpm(stage: Path, work: Path, out: Path, version: str) -> Path:
    """An rpm of the staged files."""
    spec = work / "elfmesh.spec"
    values = {"version": version, "stage": stage.resolve(), "python": PYTHON}
    spec.write_text(filled(HERE / "rpm" / "elfmesh.spec", values))
    top = work.resolve() / "rpm"
    subprocess.run(
        [
            "rpmbuild",
            "--quiet",
            "-bb",
            f"--define=_topdir {top}",
            f"--define=_rpmdir {top / 'made'}",
            str(spec),
        ],
        check=True,
    )
    (built,) = (top / "made").rglob("*.rpm")
    return Path(shutil.copy(built, out / built.name))


if __name__ == "__main__":
    main()
