"""Checks of names, numbers and choices from users, with messages that say what would be right."""

from __future__ import annotations

from enum import StrEnum
from typing import TypeVar

from laneway.errors import BadSetting

MOST = 2**63 - 1  # the largest count: every store can keep it
NAME_LIMIT = 200  # characters of the name of a lane, user, session or task

C = TypeVar("C", bound=StrEnum)


def checked_name(name: object, what: str) -> str:
    """Return `name` if it can name a lane, user, session or task. Raises BadSetting.

    >>> checked_name("", "session")
    Traceback (most recent call last):
    laneway.errors.BadSetting: a session needs a name: text of 1 to 200 characters, not ''
    """
    if not isinstance(name, str) or not 0 < len(name) <= NAME_LIMIT:
        shown = repr(name) if not isinstance(name, str) or not name else f"one of {len(name)}"
        raise BadSetting(f"a {what} needs a name: text of 1 to {NAME_LIMIT} characters, not {shown}")
    if "\x00" in name or not name.isprintable():
        raise BadSetting(f"the {what} name {name!r} has characters that cannot be printed")
    return name


def checked_count(value: object, what: str) -> int:
    """Return `value` if it is a whole number, 1 or more. Raises BadSetting."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise BadSetting(f"{what} is {value!r}; it must be a whole number, 1 or more")
    if value > MOST:
        raise BadSetting(f"{what} is too large; it must be at most {MOST}")
    return value


def checked_choice(choices: type[C], value: object, what: str) -> C:
    """Return the choice that `value` names. Raises BadSetting, which lists the choices."""
    try:
        return choices(str(value))
    except ValueError:
        raise BadSetting.unknown(what, str(value), [choice.value for choice in choices]) from None
