"""A fleet as operators run it: an installed wheel, a CA, five hosts with addresses of their own, one job.

One story, told in order, because each step needs the last: certificates and a join token, a job on five
agents, a host cut off and back, a certificate renewed, an agent upgraded, who is refused, and the page in a
browser. `make try-fleet` runs it with the wheel; the operator sits on a sixth host.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from elfmesh.cli.host.local_agents import says_something
from tests.e2e.browser import chromium
from tests.e2e.fleet import eventually
from tests.e2e.live import now
from tests.fleet.namespaces import Namespaces, unavailable
from tests.patience import PATIENCE_S

WHEEL = os.environ.get("ELF_WHEEL_ELF", "")
ROOT = Path(__file__).parents[2]
"""What five agents, Chromium and the office may take for anything, on a machine that does much else."""

WEBS = ("web1", "web2", "web3", "web4", "web5")
OFFICE = "office"
JOB = "shop/hits"
TEXT = """CREATE JOB shop.hits EVERY '1 s' AS SELECT k, count(*) AS n FROM access
GROUP BY TUMBLE(ts, INTERVAL '1' SECOND), k ORDER BY k"""
FUNCTION = """CREATE JOB shop.shout AS WITH FUNCTION shout(k STRING) RETURNS STRING LANGUAGE PYTHON AS $$
def shout(k):
    return k.upper()
$$ SELECT shout(k) AS k, count(*) AS n FROM access GROUP BY TUMBLE(ts, INTERVAL '1' SECOND), shout(k)"""
CONFIG = """data_dir = "{root}/data"
cluster = "shop"
listen = "{address}:7400"
api = "{address}:7401"
join = [{join}]
labels = {{ role = "web" }}
[tls]
dir = "{root}/tls"
[streams.access]
path = "{root}/access.log"
format = "json"
"""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not WHEEL, reason="needs an installed wheel: make try-fleet"),
    pytest.mark.skipif(bool(WHEEL) and bool(unavailable()), reason=unavailable() if WHEEL else ""),
]


class Hosts:
    """Five web servers with their agents and logs, and the office."""

    def __init__(self, root: Path, network: Namespaces) -> None:
        self.root, self.network = root, network
        self.agents: dict[str, subprocess.Popen[bytes]] = {}
        self.written: dict[str, list[str]] = {web: [] for web in WEBS}
        self._stop = threading.Event()
        self._writer = threading.Thread(target=self._write, daemon=True)

    # -- the office --------------------------------------------------------------------------------------

    def elf(self, *words: str, host: str = OFFICE, ok: bool = True, tls: str | None = "boss") -> str:
        """What a command says on a host; as the office's operator unless told otherwise."""
        done = self.run(*words, host=host, tls=tls)
        assert not ok or done.returncode == 0, (words, done.stderr)
        return done.stdout

    def run(
        self, *words: str, host: str = OFFICE, tls: str | None = "boss"
    ) -> subprocess.CompletedProcess[str]:
        env = {**os.environ, "ELF_API": f"{self.network.address('web1')}:7401"}
        if tls is not None:
            place = self.root / "ca" / "issued" / tls
            env |= {f"ELF_{name.upper()}": str(place / f"{name}.pem") for name in ("cert", "key", "ca")}
        command = self.network.command(host, [WHEEL, *words])
        return subprocess.run(
            command, capture_output=True, text=True, env=env, check=False, timeout=PATIENCE_S, cwd=self.root
        )

    def results(self) -> dict[int, dict[str, Any]]:
        """All intervals of the job by index; each must be there once."""

        def answered() -> subprocess.CompletedProcess[str] | None:
            """Return None while the job has no master, because the command then ends with 69."""
            done = self.run("results", JOB, "-o", "json")
            return None if done.returncode == 69 else done

        done = eventually(answered, what="the results")
        assert done.returncode == 0, done.stderr
        records = [json.loads(line) for line in done.stdout.splitlines()]
        indices = [record["interval"]["index"] for record in records]
        assert indices == sorted(set(indices))
        return dict(zip(indices, records, strict=True))

    def whole(self, after: int) -> int | None:
        """The newest interval behind `after` that all five are in, None if there is none yet."""
        found = [i for i, record in self.results().items() if i > after and record["completeness"] == 1.0]
        return max(found, default=None)

    def described(self, web: str = "web2") -> dict[str, Any] | None:
        """What the fleet knows of one agent; None while an agent that is busy has not answered."""
        done = self.run("describe", "agent", web, "-o", "json")
        assert done.returncode in (0, 69), done.stderr
        found: dict[str, Any] | None = json.loads(done.stdout) if done.returncode == 0 else None
        return found

    # -- the web servers ---------------------------------------------------------------------------------

    def place(self, web: str) -> Path:
        return self.root / web

    def configure(self, web: str) -> None:
        place = self.place(web)
        place.mkdir(exist_ok=True)
        (place / "access.log").touch()
        seeds = WEBS[: min(2, WEBS.index(web))]
        join = ", ".join(f'"{self.network.address(each)}:7400"' for each in seeds)
        address = self.network.address(web)
        (place / "agent.toml").write_text(CONFIG.format(root=place, address=address, join=join))

    def start(self, web: str, elf: str = WHEEL) -> None:
        """An agent, ready."""
        stdout = self.spawn(web, elf).stdout
        assert stdout is not None
        ready = stdout.readline() if says_something(stdout, PATIENCE_S) else b""
        assert ready.startswith(b"ready "), (self.place(web) / "stderr").read_text()

    def spawn(self, web: str, elf: str = WHEEL) -> subprocess.Popen[bytes]:
        with (self.place(web) / "stderr").open("ab") as stderr:
            command = [elf, "agent", "-c", str(self.place(web) / "agent.toml"), "--name", web]
            agent = subprocess.Popen(
                self.network.command(web, command),
                stdout=subprocess.PIPE,
                stderr=stderr,
                stdin=subprocess.DEVNULL,
            )
        self.agents[web] = agent
        return agent

    def stop(self, web: str) -> int:
        agent = self.agents.pop(web)
        agent.terminate()
        code = agent.wait(PATIENCE_S)
        assert agent.stdout is not None
        agent.stdout.close()
        return code

    def _write(self) -> None:
        rng = random.Random(11)
        while not self._stop.wait(0.02):
            for web in WEBS:
                line = json.dumps({"ts": now(), "k": rng.choice("abcd")})
                with (self.place(web) / "access.log").open("a") as log:
                    log.write(line + "\n")
                self.written[web].append(line)

    def __enter__(self) -> Hosts:
        return self

    def begin_writing(self) -> None:
        self._writer.start()

    def end_writing(self) -> None:
        if self._writer.is_alive():
            self._stop.set()
            self._writer.join()

    def __exit__(self, *error: object) -> None:
        self.end_writing()
        for web in list(self.agents):
            self.agents[web].kill()
            self.stop(web)
        if error[0] is not None:
            for web in WEBS:
                stderr = self.place(web) / "stderr"
                print(f"--- {web}\n{stderr.read_text()[-2500:] if stderr.exists() else ''}", file=sys.stderr)


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[Hosts]:
    with Namespaces([*WEBS, OFFICE]) as network, Hosts(tmp_path, network) as hosts:
        yield hosts


def test_a_fleet_with_certificates_from_its_wheel_to_its_page(hosts: Hosts) -> None:
    certify(hosts)
    for web in WEBS:
        hosts.start(web)
    hosts.begin_writing()
    job = hosts.root / "hits.elfql"
    job.write_text(TEXT)

    def acknowledged() -> int:
        return int(json.loads(hosts.elf("apply", "-f", str(job), "-o", "json"))["acknowledged"])

    eventually(lambda: acknowledged() == 5, what="five members: one that is busy comes a little later")
    first = eventually(lambda: hosts.whole(-1), PATIENCE_S, "an interval of all five")

    cut_off_and_back(hosts, first)
    renew(hosts)
    upgrade(hosts)
    refuse(hosts)
    last = eventually(lambda: hosts.whole(max(hosts.results())), PATIENCE_S, "an interval after all that")
    if chromium() is not None:
        look(hosts)
    exact(hosts, first, last)


def certify(hosts: Hosts) -> None:
    """A CA in the office, certificates issued there for four hosts, and a join token for the fifth."""
    ca = str(hosts.root / "ca")
    hosts.elf("ca", "init", ca, "--cluster", "shop", tls=None)
    hosts.elf("ca", "issue", ca, "boss", "--role", "operator", tls=None)
    hosts.elf("ca", "issue", ca, "rita", "--role", "reader", tls=None)
    for web in WEBS:
        hosts.configure(web)
        if web != "web5":
            address, tls = hosts.network.address(web), str(hosts.place(web) / "tls")
            hosts.elf("ca", "issue", ca, web, "--role", "agent", "--ip", address, "-o", tls, tls=None)
    at = f"{hosts.network.address(OFFICE)}:7402"
    address = hosts.network.address("web5")
    token = str(hosts.root / "web5.token")
    hosts.elf("ca", "token", ca, "web5", "--at", at, "--ip", address, "-o", token, tls=None)
    desk = subprocess.Popen(
        hosts.network.command(OFFICE, [WHEEL, "ca", "serve", ca, "--listen", at]), stdout=subprocess.PIPE
    )
    try:
        assert desk.stdout is not None
        assert says_something(desk.stdout, PATIENCE_S)
        enroll = ("ca", "enroll", "--token", token, "-o")
        hosts.elf(*enroll, str(hosts.place("web5") / "tls"), host="web5", tls=None)
        again = hosts.run(*enroll, str(hosts.root / "again"), host="web4", tls=None)
        assert again.returncode != 0, "a token is good once"
    finally:
        desk.terminate()
        desk.wait(PATIENCE_S)
        assert desk.stdout is not None
        desk.stdout.close()


def cut_off_and_back(hosts: Hosts, after: int) -> None:
    """A host without its cable is missing by name; back again it is inside, and what it wrote is declared."""
    hosts.network.cut("web3")

    def without() -> int | None:
        found = [
            i for i, each in hosts.results().items() if i > after and each["agents"]["missing"] == ["web3"]
        ]
        return max(found, default=None)

    alone = eventually(without, PATIENCE_S, "an interval without web3")
    hosts.network.mend("web3")
    eventually(lambda: hosts.whole(alone), PATIENCE_S, "an interval with web3 again")


def renew(hosts: Hosts) -> None:
    """A new certificate is in use without a restart, and the id stays."""
    ca, place = str(hosts.root / "ca"), hosts.place("web2") / "tls" / "cert.pem"
    before, process = eventually(hosts.described, PATIENCE_S, "web2 in the list"), hosts.agents["web2"].pid
    hosts.elf("ca", "renew", ca, str(place), tls=None)
    read = ["openssl", "x509", "-noout", "-serial"]
    serial = subprocess.run([*read, "-in", place], capture_output=True, text=True, check=True).stdout.strip()

    def shown() -> bool:
        command = ["openssl", "s_client", "-connect", f"{hosts.network.address('web2')}:7401"]
        boss = hosts.root / "ca" / "issued" / "boss"
        command += ["-cert", str(boss / "cert.pem"), "-key", str(boss / "key.pem")]
        done = subprocess.run(
            hosts.network.command(OFFICE, command),
            input=b"",
            capture_output=True,
            check=False,
            timeout=PATIENCE_S,
        )
        reported = subprocess.run(read, input=done.stdout, capture_output=True, check=False).stdout
        return reported.decode().strip() == serial

    eventually(shown, PATIENCE_S, "the new certificate")
    assert hosts.agents["web2"].pid == process
    assert hosts.agents["web2"].poll() is None
    after = eventually(hosts.described, PATIENCE_S, "web2 in the list again")
    assert after["id"] == before["id"]


def upgrade(hosts: Hosts) -> None:
    """One agent goes on with another installation, over the same data."""
    newest = max(hosts.results())
    assert hosts.stop("web4") == 0
    hosts.start("web4", elf=str(Path(sys.executable).parent / "elf"))
    eventually(lambda: hosts.whole(newest), PATIENCE_S, "an interval after the upgrade")


def refuse(hosts: Hosts) -> None:
    """Who has no certificate, one of another cluster, too small a role, or an unsigned function."""
    bare = hosts.run("get", "agents", tls=None)
    assert bare.returncode == 69, bare.stderr
    delete = hosts.run("delete", JOB, tls="rita")
    assert delete.returncode == 1
    assert "submitter" in delete.stderr

    shout = hosts.root / "shout.elfql"
    shout.write_text(FUNCTION)
    unsigned = hosts.run("apply", "-f", str(shout))
    assert unsigned.returncode != 0
    assert "function" in unsigned.stderr

    other = str(hosts.root / "other-ca")
    address = hosts.network.address("web5")
    tls = hosts.place("web5") / "tls"
    shutil.move(tls, hosts.root / "kept-tls")
    assert hosts.stop("web5") == 0
    hosts.elf("ca", "init", other, "--cluster", "other", tls=None)
    hosts.elf("ca", "issue", other, "web5", "--role", "agent", "--ip", address, "-o", str(tls), tls=None)
    config = hosts.place("web5") / "agent.toml"
    right = config.read_text()
    config.write_text(right.replace('"shop"', '"other"').replace("/data", "/other-data"))
    hosts.spawn("web5")
    refused = "a peer is refused: TLS: self-signed certificate in certificate chain"
    eventually(
        lambda: refused in (hosts.place("web1") / "stderr").read_text(), PATIENCE_S, "a refusal by web1"
    )

    def alive() -> set[str]:
        listed = [json.loads(line) for line in hosts.elf("get", "agents", "-o", "json").splitlines()]
        return {agent["name"] for agent in listed if agent["status"] == "alive"}

    # An agent of another cluster is no member; the stopped one is listed as dead.
    eventually(lambda: alive() == set(WEBS[:4]), what="four agents alive")
    hosts.stop("web5")
    shutil.rmtree(tls)
    shutil.move(hosts.root / "kept-tls", tls)
    config.write_text(right)
    hosts.start("web5")


def exact(hosts: Hosts, first: int, last: int) -> None:
    """What all five were in is what one process computes of everything that was written."""
    hosts.end_writing()
    paths = []
    for web, lines in hosts.written.items():
        path = hosts.root / f"{web}.ndjson"
        path.write_text("".join(line + "\n" for line in lines))
        paths.append(str(path))
    reported = hosts.elf(
        "run", TEXT.split(" AS ", 1)[1], *paths, "--format", "json", "-o", "json", tls=None
    ).splitlines()
    oracle = {record["interval"]["index"]: record["rows"] for record in map(json.loads, reported)}
    whole = {
        i: each["rows"]
        for i, each in hosts.results().items()
        if first <= i <= last and each["completeness"] == 1.0
    }
    assert len(whole) >= 5
    assert whole == {i: oracle[i] for i in whole}


def look(hosts: Hosts) -> None:
    """The page, through `elf page` and the operator's certificate, shows the numbers of the API."""
    boss = hosts.root / "ca" / "issued" / "boss"
    env = {**os.environ, "ELF_API": f"{hosts.network.address('web1')}:7401"}
    env |= {f"ELF_{name.upper()}": str(boss / f"{name}.pem") for name in ("cert", "key", "ca")}
    relay = subprocess.Popen(
        hosts.network.command(OFFICE, [WHEEL, "page", "--no-open"]), stdout=subprocess.PIPE, env=env
    )
    try:
        assert relay.stdout is not None
        assert says_something(relay.stdout, PATIENCE_S)
        url = relay.stdout.readline().decode().split()[1]
        command = hosts.network.command(OFFICE, [sys.executable, "-m", "tests.fleet.look", url, JOB])
        seen = subprocess.run(
            command, capture_output=True, text=True, check=False, cwd=ROOT, timeout=PATIENCE_S
        )
        assert seen.returncode == 0, seen.stderr
        shown = json.loads(seen.stdout)
        assert not shown["errors"]
        shown_rows = [{"k": k, "n": int(n)} for k, n in shown["rows"]]
        assert shown_rows
        assert shown_rows in [record["rows"] for record in hosts.results().values()]
    finally:
        relay.terminate()
        relay.wait(PATIENCE_S)
        assert relay.stdout is not None
        relay.stdout.close()
