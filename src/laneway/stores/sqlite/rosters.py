"""A session's row and its book: what is stored of it, and what that means."""

from __future__ import annotations

import msgspec

from laneway.core.policy import NO_RULE, Rule
from laneway.core.sessions import SessionBook, Window
from laneway.stores.sqlite.statements import Row, as_json


class Rest(msgspec.Struct, frozen=True, omit_defaults=True):
    """What few sessions have, so that the rows of the others stay small."""

    outside: list[int] = []
    windows: list[Window] = []
    given: Rule = NO_RULE
    throttled: bool = False
    alone: bool = False


_numbers = msgspec.json.Decoder(list[int]).decode
_rest = msgspec.json.Decoder(Rest).decode


def facts(book: SessionBook) -> Row:
    """Return what is stored of a session, behind its name."""
    rest = None
    if book.outside or book.windows or book.throttled or book.alone or book.given is not NO_RULE:
        kept = Rest(book.outside, book.windows, book.given, book.throttled, book.alone)
        rest = msgspec.json.encode(kept).decode()
    admitted = as_json(book.admitted)
    return admitted, book.unstarted, book.held, book.back, book.joined, book.front, rest


def opened(
    admitted: str, unstarted: int, held: int, back: int, joined: int, front: int, rest: str | None
) -> SessionBook:
    """Return the book of a stored session; what operators have set of it is not there."""
    book = SessionBook(_numbers(admitted), unstarted, held, back, joined, front)
    if rest is not None:
        kept = _rest(rest)
        book.outside, book.windows = kept.outside, kept.windows
        book.throttled, book.alone = kept.throttled, kept.alone
        if kept.given != NO_RULE:
            book.given = kept.given
            book.judge()
    return book


def ruled(book: SessionBook, rule: Rule, *, paused: bool) -> SessionBook:
    """Return the book with what operators have set."""
    book.ruled, book.paused = rule, paused
    book.judge()
    return book
