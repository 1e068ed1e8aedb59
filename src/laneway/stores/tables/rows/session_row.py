"""The row of a session, and the `SessionBook` that it stands for."""

from __future__ import annotations

from functools import lru_cache

import msgspec

from laneway.core.queue.sessions import SessionBook, Window
from laneway.core.records.policy import DEFAULT_RULE, NO_RULE, Rule
from laneway.stores.tables.sql.statements import Row, as_json


class RareFields(msgspec.Struct, frozen=True, omit_defaults=True):
    """Fields that few sessions have, in one column: the rows of the others stay small."""

    outside: list[int] = []
    asking: list[int] = []
    windows: list[Window] = []
    given: Rule = NO_RULE
    throttled: bool = False
    alone: bool = False


_numbers = msgspec.json.Decoder(list[int]).decode
_rest = msgspec.json.Decoder(RareFields).decode


def row_of(name: str, book: SessionBook) -> Row | None:
    """Return the row of a session; None for an idle one, which is not stored."""
    admitted, given = book.admitted, book.given
    if not admitted and book.idle:
        return None
    rest = None
    if book.outside or book.asking or book.windows:
        rest = _encoded(RareFields(book.outside, book.asking, book.windows, given, book.throttled, book.alone))
    elif given is not NO_RULE or book.throttled or book.alone:
        rest = _short(given, book.throttled, book.alone)
    return name, as_json(admitted), book.unstarted, book.held, book.back, book.joined, book.front, rest


def opened(
    admitted: str, unstarted: int, held: int, back: int, joined: int, front: int, rest: str | None
) -> SessionBook:
    """Return the book of a stored session, without operator settings."""
    book = SessionBook(_numbers(admitted), unstarted, held, back, joined, front)
    if rest is not None:
        kept, rule = _opened(rest)
        book.outside, book.asking, book.windows = kept.outside.copy(), kept.asking.copy(), kept.windows.copy()
        book.throttled, book.alone = kept.throttled, kept.alone
        book.given, book.rule = kept.given, rule
    return book


# Cached: most sessions have equal values.


@lru_cache(maxsize=256)
def _short(given: Rule, throttled: bool, alone: bool) -> str:
    return _encoded(RareFields(given=given, throttled=throttled, alone=alone))


@lru_cache(maxsize=256)
def _opened(text: str) -> tuple[RareFields, Rule]:
    rest = _rest(text)
    given = NO_RULE if rest.given == NO_RULE else rest.given
    return msgspec.structs.replace(rest, given=given), given.over(DEFAULT_RULE)


def _encoded(rest: RareFields) -> str:
    return msgspec.json.encode(rest).decode()


def ruled(book: SessionBook, rule: Rule, *, paused: bool) -> SessionBook:
    """Return the book with the operator settings added."""
    book.ruled, book.paused = rule, paused
    book.judge()
    return book
