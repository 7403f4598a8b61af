"""What the parsing contest asks for: four columns of each format, and how far a text is from them."""

from __future__ import annotations

FIELDS = {
    "json": ("product", "clicks_count", "price", "user.location"),
    "csv": ("product", "clicks_count", "price", "location"),
    "logfmt": ("product", "clicks_count", "price", "location"),
    "combined": ("host", "path", "status", "bytes"),
}
CSV_HEADER = ("ts", "product", "directory", "clicks_count", "price", "location")
COMBINED_WORDS = ("host", "ident", "user", "time", "zone", "request", "status", "bytes", "referer", "agent")
"""A combined line cut at its spaces, quotes kept together."""

COMBINED = rb'^(\S+) \S+ \S+ \[[^\]]+\] "\S+ (\S+) [^"]*" (\d{3}) (\d+|-) "[^"]*" "[^"]*"'
LOGFMT = rb'^ts=\S+ product=(\S+) directory="[^"]*" clicks_count=(\d+) price=(\S+) location="([^"]*)"'
