"""The images built and the compose file brought up by a real Docker daemon: part of `make test-deploy`."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.patience import PATIENCE_S

ROOT = Path(__file__).parents[2]
DOCKER = ROOT / "deploy" / "docker"
BASE = "python:3.11-slim-bookworm"
HOST_FILES = ("etc/pip.conf", "etc/apt/apt.conf.d", "etc/ssl/certs")
"""How this machine reaches its registries: a base that is made here has them too."""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not os.environ.get("ELF_TEST_DEPLOY"), reason="minutes, a daemon: make test-deploy"),
]


def docker(*words: str | Path, timeout: float = 900) -> str:
    done = subprocess.run(
        ["docker", *map(str, words)], capture_output=True, text=True, check=False, timeout=timeout,
        env={**os.environ, "DOCKER_BUILDKIT": "0"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:] + done.stdout[-2000:]
    return done.stdout


def works(*words: str) -> bool:
    """Whether there is such a command and it ends well."""
    if shutil.which(words[0]) is None:
        return False
    return subprocess.run(words, capture_output=True, check=False, timeout=300).returncode == 0


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The base image: from its registry, or made of Debian's packages where that is out of reach."""
    if not works("docker", "info"):
        pytest.skip("no Docker daemon is running")
    if not works("docker", "image", "inspect", BASE) and not works("docker", "pull", BASE):
        if shutil.which("debootstrap") is None or os.geteuid() != 0:
            pytest.skip(f"{BASE} cannot be pulled, and there is no debootstrap to make it")
        made = tmp_path_factory.mktemp("base") / "root"
        wanted = "python3,python3-dev,python3-pip,python3-venv,ca-certificates"
        subprocess.run(
            ["debootstrap", "--variant=minbase", f"--include={wanted}", "bookworm", made],
            check=True, timeout=600, stdout=subprocess.DEVNULL,
        )  # fmt: skip
        (made / "usr/bin/python").symlink_to("python3")
        known = [name for name in HOST_FILES if (Path("/") / name).exists()]
        subprocess.run(
            ["cp", "--archive", "--parents", *known, made], check=True, cwd="/", timeout=PATIENCE_S
        )
        (made / "usr/lib/python3.11/EXTERNALLY-MANAGED").unlink(missing_ok=True)
        packed = made.with_suffix(".tar")
        subprocess.run(["tar", "-C", made, "-cf", packed, "."], check=True, timeout=PATIENCE_S)
        docker("import", packed, BASE)
    return BASE.removeprefix("python:")


@pytest.fixture(scope="module")
def images(base: str) -> dict[str, str]:
    """Tags of the built targets."""
    tags = {"agent": "elfmesh:latest", "spark": "elfmesh-spark:latest"}
    for target, tag in tags.items():
        docker(
            "build", "--network", "host", "-f", DOCKER / "Dockerfile", "--build-arg", f"PYTHON={base}",
            "--target", target, "-t", tag, ROOT,
        )  # fmt: skip
    return tags


def test_the_agent_is_no_root_and_has_its_kernel(images: dict[str, str]) -> None:
    assert docker("inspect", "-f", "{{.Config.User}}", images["agent"]).strip() == "10001:10001"
    run = ["run", "--rm", "--network", "none", "--read-only", "-e", "ELF_KERNEL=native", images["agent"]]
    assert docker(*run, "--version").startswith("elf")
    query = "SELECT _raw, COUNT(*) AS n FROM log GROUP BY _raw"
    assert "root:x:0:0" in docker(*run, "run", "--format", "raw", query, "/etc/passwd")


@pytest.fixture
def compose(images: dict[str, str], tmp_path: Path) -> Iterator[list[str]]:
    """The words that begin a compose command, on a copy with logs of 100, 200 and 300 lines."""
    here = tmp_path / "docker"
    shutil.copytree(DOCKER, here)
    for host in (1, 2, 3):
        (here / "logs" / str(host)).mkdir(parents=True)
        lines = (
            f'10.0.0.1 - - [17/May/2026:10:00:{k % 30:02} +0000] "GET /p{k % 5} HTTP/1.1" 200 91 "-" "curl"\n'
            for k in range(100 * host)
        )
        (here / "logs" / str(host) / "access.log").write_text("".join(lines))
    words = ["docker", "compose"]
    if not works(*words, "version"):
        if not works("docker-compose", "version"):
            pytest.skip("neither `docker compose` nor docker-compose is here")
        words = ["docker-compose", "--compatibility"]
        file = here / "docker-compose.yml"  # version 1 knows no names, and asks for a version
        file.write_text(re.sub(r"^name: .*$", 'version: "3.9"', file.read_text(), flags=re.M))
    words += ["-f", str(here / "docker-compose.yml"), "-p", "elftest"]
    yield words
    subprocess.run([*words, "down", "-v"], capture_output=True, check=False, timeout=PATIENCE_S)


def test_three_agents_answer_a_job_and_spark_reads_it(compose: list[str]) -> None:
    def run(*words: str) -> str:
        done = subprocess.run([*compose, *words], capture_output=True, text=True, check=False, timeout=300)
        assert done.returncode == 0, done.stderr[-2000:]
        return done.stdout

    run("up", "-d", "--no-build", "agent-1", "agent-2", "agent-3")

    def elf(*words: str) -> str:
        return run("exec", "-T", "agent-1", "elf", *words)

    def until(holds: Callable[[str], bool], *words: str) -> str:
        for _ in range(100):
            if holds(shown := elf(*words)):
                return shown
        raise AssertionError(shown)

    until(lambda shown: shown.count("127.0.0.1:74") == 3, "get", "agents")
    assert "3 of 3 agents" in run("run", "--rm", "submit")
    shown = until(lambda shown: "FINAL" in shown, "results", "web/top", "-o", "json")
    assert '"completeness":1.0' in shown
    assert shown.count('"hits":120') == 5
    assert len(re.findall(r"\|FINAL\|.*\|120 *\|", run("run", "--rm", "spark"))) == 5
