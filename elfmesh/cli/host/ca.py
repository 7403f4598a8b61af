"""`elf ca`: manages certificates for agents and users.

The module owns the command line. `elfmesh.api.identity` defines the content of certificates.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from elfmesh.api.client.client_base import api_address
from elfmesh.api.identity.names import TOKEN_PREFIX
from elfmesh.api.identity.principal import Role
from elfmesh.cli.common import output_option, print_rows, say
from elfmesh.control.jobs.signing import check_cryptography
from elfmesh.errors import ConfigError, DataError, ElfError, RuntimeFailure, UsageError
from elfmesh.units import parse_duration_us

if TYPE_CHECKING:
    from elfmesh.api.identity.ca import Authority

CERT_DAYS, CA_DAYS = 90.0, 3650.0
_DIRECTORY = click.argument("directory", metavar="DIR")
_DAYS = click.option(
    "--days",
    type=click.FloatRange(min=0, min_open=True),
    default=CERT_DAYS,
    show_default=True,
    help="Validity period.",
)


@click.group("ca")
def ca_group() -> None:
    """Manage a certificate authority. Keep its directory on a host that runs no agent."""


@ca_group.command("init")
@_DIRECTORY
@click.option(
    "--cluster", default="elf", show_default=True, help="Overlay for which the authority issues certificates."
)
@click.option("--days", type=click.FloatRange(min=1), default=CA_DAYS, show_default=True)
def init_command(directory: str, cluster: str, days: float) -> None:
    """Create an authority in DIR. Distribute ca.pem to all hosts; keep ca.key secret."""
    check_cryptography()
    from elfmesh.api.identity.ca import create

    found = create(directory, cluster, days)
    say(f"a CA for cluster {cluster} is in {directory}")
    click.echo(f"sha256:{found.fingerprint}")


@ca_group.command("issue")
@_DIRECTORY
@click.argument("name", metavar="NAME")
@click.option(
    "--role",
    "roles",
    multiple=True,
    required=True,
    metavar="ROLE",
    help="Role: agent, operator, reader or submitter:NAMESPACE; repeatable.",
)
@click.option("--dns", multiple=True, metavar="HOST", help="DNS name of the agent's API; repeatable.")
@click.option(
    "--ip", "ips", multiple=True, metavar="ADDRESS", help="IP address of the agent's API; repeatable."
)
@click.option("--id", "agent", metavar="HEX", help="Id of the agent. [default: random]")
@click.option(
    "-o",
    "--out",
    metavar="DIR",
    help="Directory for cert.pem, key.pem and ca.pem. [default: DIR/issued/NAME]",
)
@_DAYS
def issue_command(
    directory: str,
    name: str,
    roles: tuple[str, ...],
    dns: tuple[str, ...],
    ips: tuple[str, ...],
    agent: str | None,
    out: str | None,
    days: float,
) -> None:
    """Create a key and issue a certificate for it."""
    authority = _authority(directory)
    from elfmesh.api.identity.key_files import key_for, write_public

    wanted = authority.wanted(name, [parse_role(role) for role in roles], dns=dns, ips=ips, agent=_id(agent))
    place = Path(out) if out else authority.directory / "issued" / name
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    key = key_for(place)
    write_public(place / "cert.pem", authority.sign(wanted, key.public_key(), days))
    write_public(place / "ca.pem", authority.pem)
    say(f"{name}: {', '.join(wanted.uris)}")
    click.echo(place)


@ca_group.command("renew")
@_DIRECTORY
@click.argument("name", metavar="NAME|FILE")
@_DAYS
def renew_command(directory: str, name: str, days: float) -> None:
    """Renew the certificate that was issued for NAME, or the certificate in FILE, which is replaced.

    The new certificate has the same names, roles, key and agent id. A running agent loads the new file
    without a restart.
    """
    authority = _authority(directory)
    from elfmesh.api.identity.key_files import write_public

    path = _issued(authority, name)
    try:
        wanted, public = authority.renewed(_read(path))
    except DataError as error:
        raise DataError(error.message, where=str(path), hint=error.hint) from None
    write_public(path, authority.sign(wanted, public, days))
    say(f"{wanted.name}: {', '.join(wanted.uris)}")
    click.echo(path)


@ca_group.command("revoke")
@_DIRECTORY
@click.argument("name", metavar="NAME|FILE")
def revoke_command(directory: str, name: str) -> None:
    """Add a certificate to the deny list DIR/deny. Copy this file to all agents.

    The command also revokes all other certificates of the same key, because a thief of the key can use
    the certificates from before a renewal.
    """
    authority = _authority(directory)
    path = _issued(authority, name)
    serials = authority.revoke(_read(path))
    say(f"{len(serials)} certificates are on the deny list {authority.directory / 'deny'}")
    for serial in serials:
        click.echo(serial)


@ca_group.command("token")
@_DIRECTORY
@click.argument("host", metavar="HOST")
@click.option("--at", required=True, metavar="HOST:PORT", help="Address of `elf ca serve`.")
@click.option(
    "-o", "--out", metavar="FILE", help="Write the token to FILE (mode 0600) instead of standard output."
)
@click.option("--ttl", default="1 h", show_default=True, metavar="DURATION", help="Validity period.")
@click.option("--dns", multiple=True, metavar="HOST", help="DNS name of the agent's API; repeatable.")
@click.option(
    "--ip", "ips", multiple=True, metavar="ADDRESS", help="IP address of the agent's API; repeatable."
)
def token_command(
    directory: str, host: str, at: str, out: str | None, ttl: str, dns: tuple[str, ...], ips: tuple[str, ...]
) -> None:
    """Create a token with which HOST gets one agent certificate. Keep the token secret."""
    authority = _authority(directory)
    from elfmesh.api.identity.joining import make_token

    ttl_s = parse_duration_us(ttl) / 1e6
    api_address(at)
    made = make_token(authority, host, at, now_s=time.time(), ttl_s=ttl_s, dns=dns, ips=ips).encode()
    if out is None:
        click.echo(made)
        return
    from elfmesh.api.identity.bearer import write_private

    try:
        write_private(Path(out), f"{made}\n".encode())
    except OSError as error:
        raise RuntimeFailure(error.strerror or str(error), where=out) from None
    click.echo(out)


@ca_group.command("serve")
@_DIRECTORY
@click.option("--listen", default="127.0.0.1:7402", show_default=True, metavar="HOST:PORT")
@_DAYS
def serve_command(directory: str, listen: str, days: float) -> None:
    """Issue certificates to hosts that present a token, until SIGTERM. Prints "ready ca=HOST:PORT"."""
    authority = _authority(directory)
    host, _, port = listen.rpartition(":")
    if not host or not port.isdigit() or int(port) > 0xFFFF:
        raise ConfigError(f"{listen!r} is not HOST:PORT", where="--listen")
    asyncio.run(_serve(authority, host.strip("[]"), int(port), days))


async def _serve(authority: Authority, host: str, port: int, days: float) -> None:
    from elfmesh.api.identity.enrolment import Listener

    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    try:
        runner, bound = await Listener(authority, days).serve(host, port)
    except OSError as error:
        raise RuntimeFailure(f"cannot listen on {host}:{port}: {error.strerror}", where="--listen") from None
    click.echo(f"ready ca={f'[{host}]' if ':' in host else host}:{bound}")
    sys.stdout.flush()
    try:
        await stop.wait()
    finally:
        await runner.cleanup()


@ca_group.command("enroll")
@click.option(
    "--token",
    required=True,
    metavar="FILE",
    help="File that contains the token (mode 0600); - reads standard input.",
)
@click.option("-o", "--out", required=True, metavar="DIR", help="Directory for cert.pem, key.pem and ca.pem.")
def enroll_command(token: str, out: str) -> None:
    """Create a key on this host and get a certificate for it, as `elf agent --token` does."""
    check_cryptography()
    from elfmesh.api.identity.enrolment import enrol
    from elfmesh.api.identity.joining import parse_token

    enrol(parse_token(token_text(token)), Path(out))
    click.echo(out)


def token_text(given: str) -> str:
    """Return the join token in a file that only its owner can read; "-" reads standard input.

    The token itself is not accepted as an argument, because every user of a host can see the arguments of all
    processes.

    Raises:
        ConfigError: the file does not exist, or other users can read it.
        UsageError: the argument is the token itself.
    """
    from elfmesh.api.identity.bearer import read_private
    from elfmesh.api.identity.joining import TOKEN_CHARACTERS_MAX

    if given.strip().startswith(TOKEN_PREFIX):
        hint = "Write it to a file of mode 0600 and name that (`elf ca token -o FILE` does), or - for stdin."
        raise UsageError("--token takes the name of a file because other users can see arguments", hint=hint)
    if given == "-":
        return sys.stdin.read(TOKEN_CHARACTERS_MAX + 2)
    data = read_private(given, what="the join token", bytes_max=TOKEN_CHARACTERS_MAX + 2)
    return data.decode("ascii", "replace")


@ca_group.command("list")
@_DIRECTORY
@output_option
def list_command(directory: str, output: str) -> None:
    """List all certificates that the authority has issued."""
    authority = _authority(directory)
    denied = authority.denied()
    rows = [{**row, "revoked": row["serial"] in denied} for row in authority.issued()]
    print_rows(output, ("name", "uris", "not_after", "revoked", "serial"), rows)


def parse_role(text: str) -> tuple[Role, str]:
    """Parse "agent", "operator", "reader" or "submitter:NAMESPACE" to a role and its namespace.

    Raises:
        UsageError: the text is not a role.
    """
    name, colon, namespace = text.partition(":")
    if name not in list(Role) or bool(colon and namespace) != (name == Role.SUBMITTER):
        raise UsageError(f"{text!r} is not a role", hint="agent, operator, reader or submitter:NAMESPACE.")
    return Role(name), namespace


def _authority(directory: str) -> Authority:
    check_cryptography()
    from elfmesh.api.identity.ca import Authority

    try:
        return Authority(directory)
    except ElfError as error:
        if not (Path(directory) / "ca.key").exists():
            hint = f"`elf ca init {directory}` makes one."
            raise ConfigError("contains no CA", where=directory, hint=hint) from None
        raise error from None


def _issued(authority: Authority, name: str) -> Path:
    place = authority.directory / "issued" / name / "cert.pem"
    return place if "/" not in name and place.exists() else Path(name)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        hint = "Give the name of an issued certificate, or its file."
        raise RuntimeFailure(error.strerror or str(error), where=str(path), hint=hint) from None


def _id(text: str | None) -> bytes | None:
    from elfmesh.ids import check_id

    try:
        return None if text is None else check_id(bytes.fromhex(text))
    except ValueError:
        raise UsageError(
            f"--id {text!r} is not an id", hint="40 hexadecimal digits, as in a ready line."
        ) from None
