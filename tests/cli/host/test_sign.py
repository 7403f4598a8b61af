"""`elf key create` and `elf sign`: key files, and envelopes of the jobs of a file."""

from __future__ import annotations

import time
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from elfmesh.cli.common import read_envelopes
from elfmesh.cli.host.sign import create_command, read_private, sign_command, signable
from elfmesh.control.jobs.signing import Envelope, show_key, text_digest
from elfmesh.errors import ConfigError, DataError, ElfError, QueryError, RuntimeFailure, UsageError

JOB = "CREATE JOB shop.top AS SELECT count(*) AS n FROM log GROUP BY TUMBLE(ts, INTERVAL '10' SECOND)"


def invoke(command: click.Command, *words: object) -> str:
    done = CliRunner().invoke(
        command, [str(word) for word in words], standalone_mode=False, catch_exceptions=True
    )
    if done.exception is not None:
        raise done.exception
    return done.stdout.strip()


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "job.elfql").write_text(JOB)
    for name in ("one", "two"):
        invoke(create_command, tmp_path / name)
    return tmp_path


def sign(place: Path, *words: object, key: str = "one", out: str = "job.sig") -> list[Envelope]:
    invoke(sign_command, "--key", place / key, "-o", place / out, *words)
    return read_envelopes(str(place / out))


def test_a_key_is_the_owners_alone_and_never_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "key"
    shown = invoke(create_command, path)
    assert path.stat().st_mode & 0o777 == 0o600
    before = path.read_bytes()
    assert shown == show_key(read_private(str(path)).public_key().public_bytes_raw())
    with pytest.raises(RuntimeFailure, match="exists already"):
        invoke(create_command, path)
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(RuntimeFailure, match="exists already"):
        invoke(create_command, tmp_path / "link")
    with pytest.raises(RuntimeFailure, match="No such file or directory"):
        invoke(create_command, tmp_path / "none" / "key")
    assert path.read_bytes() == before
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize(
    ("mode", "data", "message"),
    [
        (0o640, None, "other users can read this private key"),
        (0o604, None, "other users can read this private key"),
        (0o600, b"no key", "is not an Ed25519 private key"),
    ],
)
def test_a_file_that_is_no_private_key_is_refused(
    mode: int, data: bytes | None, message: str, place: Path
) -> None:
    path = place / "one"
    if data is not None:
        path.write_bytes(data)
    path.chmod(mode)
    with pytest.raises(ConfigError) as refused:
        read_private(str(path))
    assert (refused.value.message, refused.value.where) == (message, str(path))
    with pytest.raises(ConfigError, match="No such file"):
        read_private(str(place / "none"))


def test_a_job_is_signed_with_its_text_and_serial(place: Path) -> None:
    before = int(time.time())
    (found,) = sign(place, "-f", place / "job.elfql", "--expires", "10 s")
    reported = found.reported
    assert (reported.cluster, reported.job, reported.sha256) == ("elf", "shop/top", text_digest(JOB))
    assert before <= reported.serial == reported.undo_to <= time.time()
    assert before + 10 <= reported.expires <= time.time() + 10
    (found,) = sign(place, "-f", place / "job.elfql", "--serial", 9, "--undo-to", 12, "--cluster", "c")
    assert (found.reported.serial, found.reported.undo_to, found.reported.cluster) == (9, 9, "c")
    (found,) = sign(place, "-f", place / "job.elfql", "--serial", 9, "--undo-to", 4)
    assert found.reported.undo_to == 4


def test_a_second_signer_adds_to_the_same_envelope_unless_the_serial_is_another(place: Path) -> None:
    words = ("-f", place / "job.elfql")
    (first,) = sign(place, *words, "--serial", 5)
    (second,) = sign(place, *words, key="two")
    assert second.payload == first.payload
    assert second.signatures[:1] == first.signatures
    assert len(second.signatures) == 2
    (other,) = sign(place, *words, "--cluster", "c", key="two")
    assert len(other.signatures) == 1
    (raised,) = sign(place, *words, "--serial", 6)
    assert (len(raised.signatures), raised.reported.serial) == (1, 6)
    (place / "job.elfql").write_text(JOB.replace("log", "other"))
    (changed,) = sign(place, *words)
    assert (len(changed.signatures), changed.reported.serial > 6) == (1, True)


def test_the_end_of_a_job_has_a_serial_and_takes_a_second_signature(place: Path) -> None:
    (first,) = sign(place, "--tombstone", "shop.top", "--serial", 8)
    assert (first.reported.tombstone, first.reported.job, first.reported.serial) == (True, "shop/top", 8)
    (second,) = sign(place, "--tombstone", "shop/top", "--serial", 8, key="two")
    assert len(second.signatures) == 2
    (later,) = sign(place, "--tombstone", "shop/top", "--serial", 9, key="two")
    assert len(later.signatures) == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "give either --file or --tombstone"),
        (("-f", "x", "--tombstone", "a.b"), "give either --file or --tombstone"),
        (("-f", "-"), "the file for the signatures is not specified"),
        (("--tombstone", "a.b"), "the file for the signatures is not specified"),
        (("--tombstone", "a.b", "-o", "x"), "--tombstone needs --serial"),
        (("--tombstone", "a.b.c", "-o", "x", "--serial", "1"), "a.b.c"),
        (("-f", "x", "--expires", "soon"), "--expires: "),
    ],
)
def test_options_that_do_not_fit_are_refused(words: tuple[str, ...], message: str, place: Path) -> None:
    with pytest.raises(UsageError) as refused:
        invoke(sign_command, "--key", place / "one", *words)
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("", QueryError, "there is no query in the text"),
        ("SELECT a FROM log", DataError, "a query without a name"),
        (f"{JOB}; SELECT a FROM log", DataError, "a query without a name"),
        (JOB.replace("SELECT", "SELCT"), QueryError, "SELCT"),
    ],
)
def test_what_cannot_be_signed_is_refused(
    text: str, error: type[ElfError], message: str, tmp_path: Path
) -> None:
    (tmp_path / "job.elfql").write_text(text)
    with pytest.raises(error, match=message):
        signable(str(tmp_path / "job.elfql"))


def test_a_function_that_is_seen_to_depend_on_more_than_its_arguments_is_not_signed(place: Path) -> None:
    text = (
        "CREATE JOB shop.f EVERY '1 s' AS WITH FUNCTION f(x STRING) RETURNS BIGINT LANGUAGE PYTHON {}AS $$\n"
        "def f(x): return hash(str(x)) % 1000\n$$ SELECT f(k) AS f, count(*) AS n FROM log GROUP BY f(k)"
    )
    (place / "job.elfql").write_text(text.format(""))
    with pytest.raises(DataError, match=r"f\(.*\) gave \d+, and in another process \d+"):
        sign(place, "-f", place / "job.elfql")
    assert not (place / "job.sig").exists()
    (place / "job.elfql").write_text(text.format("ORDERED READ "))
    assert len(sign(place, "-f", place / "job.elfql")) == 1
