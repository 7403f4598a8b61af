"""Serves the files of the live page from the package, compressed once, with security headers.

The headers forbid loading resources from elsewhere, inline scripts and styles, and framing. File names of
requests are looked up in a table that is built once, never on disk.
"""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

import zstandard
from aiohttp import hdrs, web

INDEX = "index.html"
KINDS = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self';"
        " base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script';"
        " trusted-types 'none'"
    ),
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache",
    "Vary": "Accept-Encoding",
}


@dataclass(frozen=True, slots=True)
class PageFile:
    """A file of the page.

    Attributes:
        kind: content type.
        tag: ETag; equal bytes have equal tags.
        encoded: bytes by content coding, "" for uncompressed.
    """

    kind: str
    tag: str
    encoded: Mapping[str, bytes]

    def coding(self, accepted: str) -> str:
        """Return the best coding that an Accept-Encoding header allows, "" for none."""
        words = [each.strip().lower() for each in accepted.split(",")]
        allowed = {
            each.partition(";")[0].strip() for each in words if not each.replace(" ", "").endswith(";q=0")
        }
        return next((each for each in ("zstd", "gzip") if each in allowed), "")


@cache
def page_files() -> Mapping[str, PageFile]:
    """Return all files of the page by their path below /page/. Cost: about 0.1 s of CPU at the first call."""
    return dict(_walk(files(__package__) / "static", ""))


def _walk(folder: Traversable, prefix: str) -> list[tuple[str, PageFile]]:
    found = []
    for each in folder.iterdir():
        if each.is_dir():
            found += _walk(each, f"{prefix}{each.name}/")
        elif kind := KINDS.get("." + each.name.rpartition(".")[2]):
            found.append((prefix + each.name, _packed(kind, each.read_bytes())))
    return found


def _packed(kind: str, data: bytes) -> PageFile:
    tag = f'"{hashlib.sha256(data).hexdigest()[:20]}"'
    small = zstandard.ZstdCompressor(level=19).compress(data)
    return PageFile(kind, tag, {"": data, "gzip": gzip.compress(data, 9, mtime=0), "zstd": small})


def answer(request: web.Request, name: str) -> web.Response:
    """Return a file of the page, or 304 if the browser has it. Raises web.HTTPNotFound."""
    found = page_files().get(name)
    if found is None:
        raise web.HTTPNotFound
    coding = found.coding(request.headers.get(hdrs.ACCEPT_ENCODING, ""))
    tag = f'{found.tag[:-1]}-{coding}"' if coding else found.tag
    headers = {**HEADERS, "ETag": tag}
    if tag in [each.strip() for each in request.headers.get(hdrs.IF_NONE_MATCH, "").split(",")]:
        return web.Response(status=304, headers=headers)
    headers["Content-Type"] = found.kind
    if coding:
        headers["Content-Encoding"] = coding
    return web.Response(body=found.encoded[coding], headers=headers)
