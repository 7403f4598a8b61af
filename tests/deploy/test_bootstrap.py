"""The playbook: its syntax always; in `make test-deploy` a run against two prefixes here, twice."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from elfmesh.cli.host.local_agents import says_something
from tests.patience import PATIENCE_S

BOOTSTRAP = Path(__file__).parents[2] / "deploy" / "bootstrap"
ELF = Path(sys.executable).with_name("elf")
needs_ansible = pytest.mark.skipif(shutil.which("ansible-playbook") is None, reason="needs ansible-playbook")


def playbook(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["ansible-playbook", *words, str(BOOTSTRAP / "site.yml")],
        env={**os.environ, "HOME": str(folder), "ANSIBLE_NOCOLOR": "1", "LC_ALL": "C.UTF-8"},
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip


@needs_ansible
def test_the_playbook_is_one(tmp_path: Path) -> None:
    done = playbook(tmp_path, "--syntax-check", "-i", str(BOOTSTRAP / "inventory.example.yml"))
    assert done.returncode == 0, done.stdout + done.stderr


@needs_ansible
@pytest.mark.slow
@pytest.mark.skipif(not os.environ.get("ELF_TEST_DEPLOY"), reason="half a minute and root: make test-deploy")
def test_hosts_get_certificates_by_tokens_once(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root, whom the files belong to")
    ca = tmp_path / "ca"
    subprocess.run([ELF, "ca", "init", str(ca)], check=True, timeout=PATIENCE_S)
    with subprocess.Popen(
        [ELF, "ca", "serve", str(ca), "--listen", "127.0.0.1:0"], stdout=subprocess.PIPE, text=True
    ) as serving:
        try:
            assert serving.stdout is not None
            assert says_something(serving.stdout, 60)
            at = serving.stdout.readline().partition("ca=")[2].split()[0]
            inventory = tmp_path / "inventory.ini"
            inventory.write_text(
                "[agents]\none elf_address=127.0.0.1\ntwo elf_address=127.0.0.1\n[agents:vars]\n"
                "ansible_connection=local\nelf_service=false\nelf_owner=root\n"
                f"ansible_python_interpreter={sys.executable}\n"
                f"elf_ca={ca}\nelf_ca_at={at}\nelf_command={ELF}\nelf_local_command={ELF}\n"
                f"elf_etc={tmp_path}/{{{{ inventory_hostname }}}}\n"
            )
            first = playbook(tmp_path, "-i", str(inventory))
            assert first.returncode == 0, first.stdout + first.stderr
            again = playbook(tmp_path, "-i", str(inventory))
        finally:
            serving.terminate()
    assert again.stdout.count("changed=0") == 2, again.stdout
    for host in ("one", "two"):
        folder = tmp_path / host
        assert (folder / "tls/key.pem").stat().st_mode & 0o777 == 0o600
        assert not (folder / "tls/token").exists()
        assert tomllib.loads((folder / "agent.toml").read_text())["name"] == host
    assert (tmp_path / "one/tls/cert.pem").read_bytes() != (tmp_path / "two/tls/cert.pem").read_bytes()
