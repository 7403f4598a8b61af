"""`elf page`: an agent's live page in a browser of this host, shown the user's own certificate or token."""

from __future__ import annotations

import asyncio
import contextlib
import html
import signal
import tempfile
import webbrowser
from pathlib import Path

import click

from elfmesh.api.client.client import Client
from elfmesh.api.identity.bearer import write_private
from elfmesh.api.identity.credentials import default_credentials
from elfmesh.cli.common import api_option
from elfmesh.errors import RuntimeFailure


@click.command("page")
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Local port. [default: any free port]")
@click.option("--open/--no-open", "opens", default=True, help="Open the browser, or only print the address.")
@api_option
def page_command(port: int, opens: bool, api: str | None) -> None:
    """Serve the live page of the agent at --api on this host, until Ctrl-C.

    Browsers have no certificate of yours. This command has (--cert, --key, --ca, or the token of your own
    agent): it asks the agent for the page, on an address of this host, with a token that is in the printed
    address alone.
    """
    Client(api).health()  # says at once what is wrong with the address or the certificate
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_serve(api, port, opens))


async def _serve(api: str | None, port: int, opens: bool) -> None:
    from elfmesh.api.web.page.relay import Relay

    done = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, done.set)
    try:
        async with Relay(api, default_credentials(), port) as relay:
            click.echo(f"page {relay.url}")
            with tempfile.TemporaryDirectory(prefix="elf-page-") as place:
                if opens:
                    await asyncio.to_thread(webbrowser.open, leading_to(relay.url, Path(place)).as_uri())
                await done.wait()
    except OSError as error:
        raise RuntimeFailure(f"cannot listen on port {port}: {error.strerror}", where="--port") from None


def leading_to(url: str, place: Path) -> Path:
    """A file of this user's own that leads a browser to `url`: other users see a browser's arguments.

    Raises:
        OSError: it cannot be written.
    """
    path = place / "page.html"
    there = html.escape(url, quote=True)
    refresh = f'<meta http-equiv="refresh" content="0; url={there}">'
    text = f'<!doctype html><meta charset="utf-8">{refresh}<a href="{there}">elf page</a>\n'
    write_private(path, text.encode())
    return path
