"""Plain jobs on real agents that want every manifest signed: begun, changed, taken back, ended."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.fleet import Fleet, eventually
from tests.e2e.live import Traffic
from tests.e2e.programs.test_functions import run

TEXT = """CREATE JOB shop.plain DEADLINE '300 s' AS SELECT k, count(*) AS n FROM log WHERE {where}
GROUP BY TUMBLE(ts, INTERVAL '1' SECOND), k ORDER BY k"""


class Site:
    """Two agents; `elf` with keys that they trust."""

    def __init__(self, root: Path, fleet: Fleet) -> None:
        self.root, self.fleet = root, fleet
        self.job = root / "plain.elfql"

    def text(self, where: str) -> None:
        self.job.write_text(TEXT.format(where=where))
        Path(f"{self.job}.sig").unlink(missing_ok=True)

    def sign(self, serial: int, *more: str, key: str = "a") -> None:
        words = ("sign", "-f", str(self.job), "--key", str(self.root / f"{key}.pem"), "--serial", str(serial))
        assert run(*words, *more).exit_code == 0

    def elf(self, *words: str) -> tuple[int, str]:
        done = run(*words, "--api", self.fleet[0].api)
        return done.exit_code, done.stdout + done.stderr

    def apply(self) -> tuple[int, str]:
        return self.elf("apply", "-f", str(self.job))


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    public = [run("key", "create", str(tmp_path / f"{key}.pem")).stdout.strip() for key in "ab"]
    config = tmp_path / "agent.toml"
    config.write_text(f"[manifests]\nrequire = 'signed'\nkeys = {json.dumps(public[:1])}\n")
    with Fleet(tmp_path / "fleet") as fleet:
        fleet.start(2, extra=["-c", str(config)])
        with Traffic(fleet, [0, 1], every_s=0.02):
            yield Site(tmp_path, fleet)


def test_every_version_and_the_end_of_a_job_are_signed(site: Site) -> None:
    site.text("true")
    code, reported = site.apply()
    assert (code, "its manifest is not signed" in reported) == (65, True), reported
    site.sign(5, key="b")
    code, reported = site.apply()
    assert (code, "0 trusted keys" in reported) == (65, True), reported
    site.text("true")
    site.sign(5)
    code, reported = site.apply()
    assert code == 0, reported
    eventually(lambda: len(site.fleet[0].results("shop/plain")) >= 2, what="results")

    site.text("k IS NOT NULL")
    site.sign(6)
    assert site.apply()[0] == 0
    code, reported = site.elf("rollout", "undo", "shop/plain")
    assert (code != 0, "serial 5 is older" in reported) == (True, True), reported
    site.text("true")
    site.sign(5)
    code, reported = site.apply()
    assert (
        code,
        "serial 5 is older than a version that ran here; the lowest allowed serial is 6" in reported,
    ) == (65, True), reported

    code, reported = site.elf("delete", "shop/plain")
    assert (code, "ends by a signed tombstone only" in reported) == (1, True), reported
    end = str(site.root / "end.sig")
    words = ("sign", "--tombstone", "shop/plain", "--serial", "6", "--key", str(site.root / "a.pem"))
    assert run(*words, "-o", end).exit_code == 0
    code, reported = site.elf("delete", "shop/plain", "--signature", end)
    assert code == 0, reported
    site.text("k IS NOT NULL")
    site.sign(6)
    code, reported = site.apply()
    assert (code, "serial 6 was revoked" in reported) == (65, True), reported
    site.sign(7)
    assert site.apply()[0] == 0
    eventually(lambda: len(site.fleet[0].results("shop/plain")) >= 2, what="results")
