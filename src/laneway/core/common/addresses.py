"""Addresses as they may be shown. Everything before an @ may be a password, however the rest is misspelt."""

from __future__ import annotations

import re

FILE = "sqlite:///"  # a path follows, in which @ and ? are ordinary characters
SHOWN = ("namespace=", "schema=")
_SECRET = re.compile(r"^([^=]*pass[^=]*=).*")  # a parameter


def without_password(url: str) -> str:
    """Return the address as it may be shown: without user and password, and of the parameters only namespace or schema.

    >>> without_password("redis://ann:secret@host/0?timeout=1&namespace=x")
    'redis://host/0?namespace=x'
    >>> without_password("redis:/:secret@host/0")
    '...@host/0'
    """
    scheme, separator, rest = url.partition("://")
    if url.startswith(FILE):
        return url
    place, _, query = rest.rpartition("@")[2].partition("?")
    if not separator or "@" in scheme:
        _, at, rest = url.rpartition("@")
        return f"{'...' * bool(at)}{at}{rest.partition('?')[0]}"
    named = [f"?{part}" for part in query.split("&") if part.startswith(SHOWN)]
    return "".join((scheme, separator, place, *named[:1]))


def scheme_shown(url: str) -> str:
    """Return the scheme alone; if it is no address, the part of it that may be shown.

    >>> scheme_shown("mysql://ann:secret@host"), scheme_shown("host/0"), scheme_shown("ann:secret@mysql://host")
    ('mysql://', "'host/0'", "'...@mysql://host'")
    """
    scheme, separator, _ = url.partition("://")
    return f"{scheme}://" if separator and "@" not in scheme else repr(without_password(url))


def to_paste(url: str) -> str:
    """Return the address with dots for user and password, so that whoever pastes it sees what is missing.

    >>> to_paste("postgresql://ann:secret@host/app?password=secret&schema=x")
    'postgresql://...@host/app?password=...&schema=x'
    """
    if url.startswith(FILE):
        return url
    scheme, separator, rest = url.partition("://")
    _, at, place = rest.rpartition("@")
    place, mark, query = place.partition("?")
    words = [_SECRET.sub(r"\1...", word) for word in query.split("&")]
    return "".join((scheme, separator, "..." * bool(at), at, place, mark, "&".join(words)))
