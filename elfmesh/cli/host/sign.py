"""`elf key create` and `elf sign`: create keys and sign jobs.

The module owns key files (private keys as PEM with mode 0600, never overwritten) and signature files (one
envelope per line). `elfmesh.control.jobs.signing` defines what a signature means and which component checks
it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from elfmesh.cli.common import read_envelopes, say, with_caret
from elfmesh.control.jobs import signing
from elfmesh.control.jobs.manifest import split_name
from elfmesh.errors import ConfigError, DataError, QueryError, RuntimeFailure, UsageError
from elfmesh.local.text_input import read_text
from elfmesh.units import parse_duration_us

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from elfmesh.ql import Statement

CLUSTER = "elf"
EXPIRES = "90 d"


@click.group("key")
def key_group() -> None:
    """Manage keys that sign jobs."""


@key_group.command("create")
@click.argument("path", metavar="FILE")
def create_command(path: str) -> None:
    """Write a new private key to FILE and print its public key in the form that agent.toml accepts."""
    signing.check_cryptography()
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    key = Ed25519PrivateKey.generate()
    data = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    try:
        number = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with os.fdopen(number, "wb") as file:
            file.write(data)
    except FileExistsError:
        hint = "A key is never overwritten."
        raise RuntimeFailure("the file exists already", where=path, hint=hint) from None
    except OSError as error:
        raise RuntimeFailure(error.strerror or str(error), where=path) from None
    click.echo(signing.show_key(key.public_key().public_bytes_raw()))


@click.command("sign")
@click.option("-f", "--file", "path", metavar="FILE", help="ELF-QL file; the command signs all its jobs.")
@click.option("--key", "keys", multiple=True, required=True, metavar="FILE", help="Private key; repeatable.")
@click.option("--cluster", default=CLUSTER, show_default=True, help="Overlay in which the jobs may run.")
@click.option(
    "--serial",
    type=click.IntRange(min=1),
    help=("Serial number; must be higher than that of every earlier version. [default: seconds since 1970]"),
)
@click.option(
    "--undo-to",
    type=click.IntRange(min=1),
    metavar="SERIAL",
    help="Oldest serial to which an undo may return. [default: the serial itself]",
)
@click.option("--expires", default=EXPIRES, show_default=True, metavar="DURATION", help="Validity period.")
@click.option(
    "--tombstone",
    metavar="JOB",
    help=("Sign a tombstone, which permanently revokes all versions of JOB up to --serial."),
)
@click.option("-o", "--output", metavar="FILE", help="File for the signatures. [default: FILE.sig]")
def sign_command(
    path: str | None,
    keys: tuple[str, ...],
    cluster: str,
    serial: int | None,
    undo_to: int | None,
    expires: str,
    tombstone: str | None,
    output: str | None,
) -> None:
    """Sign the jobs in FILE. A second signer adds a signature to the existing file.

    Without --serial, the command adds its signature to an existing envelope of the same text.
    """
    signing.check_cryptography()
    private = [read_private(each) for each in keys]
    if (path is None) == (tombstone is None):
        raise UsageError("give either --file or --tombstone")
    output = output or (f"{path}.sig" if path not in (None, "-") else None)
    if output is None:
        raise UsageError("the file for the signatures is not specified", hint="Name a file: -o FILE.")
    now_s = int(time.time())
    there = read_envelopes(output) if Path(output).exists() else []
    if tombstone is not None:
        envelopes = [_tombstone(tombstone, serial, cluster, private, there)]
    else:
        assert path is not None
        until = now_s + _seconds(expires)
        before = {} if serial is not None else {each.reported.sha256: each for each in there}
        envelopes = []
        for statement in signable(path):
            known = before.get(signing.text_digest(statement.text))
            if known is not None and known.reported.cluster == cluster:
                envelopes.append(signing.signed(known.payload, private, known.signatures))
                continue
            assert statement.job is not None
            number = serial or now_s
            reported = signing.Payload(
                cluster=cluster,
                job=statement.job.qualified,
                serial=number,
                undo_to=min(undo_to or number, number),
                expires=until,
                sha256=signing.text_digest(statement.text),
            )
            envelopes.append(signing.signed(reported, private))
    Path(output).write_bytes(b"".join(envelope.encode() + b"\n" for envelope in envelopes))
    for envelope in envelopes:
        reported = envelope.reported
        what = "tombstone of " if reported.tombstone else ""
        count = len(envelope.signatures)
        signed = f"{count} signature{'s' * (count != 1)}"
        say(f"{what}{reported.job} serial {reported.serial}: {signed} in {output}")


def _tombstone(
    job: str,
    serial: int | None,
    cluster: str,
    keys: Sequence[Ed25519PrivateKey],
    there: Sequence[signing.Envelope],
) -> signing.Envelope:
    if serial is None:
        raise UsageError("--tombstone needs --serial, the last serial that it revokes")
    try:
        qualified = "/".join(split_name(job))
    except ValueError as error:
        raise UsageError(str(error)) from None
    reported = signing.Payload(
        cluster=cluster, job=qualified, serial=serial, undo_to=serial, expires=2**62, tombstone=True
    )
    signatures = [each for known in there if known.reported == reported for each in known.signatures]
    return signing.signed(reported, keys, signatures)


def signable(path: str) -> list[Statement]:
    """Return the jobs in a file. Jobs with Python functions are tried in a worker process first.

    Raises:
        QueryError: a statement is wrong.
        DataError: the file contains no job, or a Python function fails.
    """
    from elfmesh.ingest.functions.evaluator import local_evaluator
    from elfmesh.ql import parse_many

    text, source = read_text(path)
    try:
        statements = parse_many(text, source=source)
    except QueryError as error:
        raise with_caret(error, text) from None
    if not statements or any(statement.job is None for statement in statements):
        raise DataError("the file contains no job, or a query without a name", where=source)
    for statement in statements:
        if statement.functions:
            local_evaluator(statement).close()
            _try(statement)
    return statements


def _try(statement: Statement) -> None:
    """Refuse functions whose result is seen to depend on more than their arguments."""
    from elfmesh.ingest.functions.trial import try_function

    for function in statement.functions:
        if function.ordered is None:
            found = try_function(function)
            if found.refutation is not None:
                hint = "Compute the result from the arguments alone, or declare the function ORDERED READ."
                message = f"the function depends on more than its arguments: {found}"
                raise DataError(message, where=statement.source, hint=hint)
            say(str(found))


def read_private(path: str) -> Ed25519PrivateKey:
    """Read a private key from a file that only its owner can read.

    Raises:
        ConfigError: other users can read the file, or it is not an Ed25519 private key.
    """
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    try:
        with Path(path).open("rb") as file:
            open_to_all = os.fstat(file.fileno()).st_mode & 0o077
            data = file.read(1 << 16)
    except OSError as error:
        raise ConfigError(error.strerror or str(error), where=path) from None
    if open_to_all:
        raise ConfigError("other users can read this private key", where=path, hint=f"chmod 600 {path}")
    try:
        key = serialization.load_pem_private_key(data, password=None)
    except (ValueError, TypeError):
        key = None
    if not isinstance(key, Ed25519PrivateKey):
        raise ConfigError(
            "is not an Ed25519 private key", where=path, hint="`elf key create FILE` makes one."
        )
    return key


def _seconds(duration: str) -> int:
    try:
        return max(1, parse_duration_us(duration) // 1_000_000)
    except ConfigError as error:
        raise UsageError(f"--expires: {error}") from None
