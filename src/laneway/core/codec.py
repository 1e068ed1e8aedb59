"""Text and back: the one form in which values enter stores, wires and programs that read `--json`.

Arguments and results are JSON text, checked and bounded here. Records become versioned plain dicts: `{"v": 1, ...}`
with instants as RFC 3339 text. A reader ignores names it does not know and refuses a newer version.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from laneway.core.events import Event
from laneway.core.liveness import WorkerInfo
from laneway.core.run import Receipt, Run
from laneway.errors import BadArguments, StoreTooNew

VERSION = 1
ARGS_LIMIT = 256 * 1024
RESULT_LIMIT = 1024 * 1024
DEPTH_LIMIT = 100  # levels of nesting: what can be written must be readable from any depth of the reader's stack

_SHALLOW = 2 * DEPTH_LIMIT  # bytes
_encode = msgspec.json.Encoder(decimal_format="string").encode


def to_json(value: object, what: str, limit: int, plural: bool = True) -> str:
    """Return `value` as JSON text, or raise BadArguments that says what in it is not JSON, or how much too large it is.

    >>> to_json({"doc": "42"}, "the arguments", 100)
    '{"doc":"42"}'
    >>> to_json({"f": float("nan")}, "the arguments", 100)
    Traceback (most recent call last):
    laneway.errors.BadArguments: the arguments are not JSON: f is nan, which JSON has no word for
    >>> to_json({"x": "a" * 200}, "the arguments", 100)
    Traceback (most recent call last):
    laneway.errors.BadArguments: the arguments take 208 bytes as JSON; at most 100 are allowed
    """
    if value is None:
        return "null"
    try:
        data = _encode(value)
        text = data.decode()
        if len(data) <= _SHALLOW and len(data) <= limit and "null" not in text:
            return text  # as most is: too short to be deep
        # msgspec writes nan and inf as null; only where a null stands can one of them have been.
        if "null" in text:
            _refuse_unreal(msgspec.to_builtins(value), "")
        # Each level takes two brackets, so a short text cannot be deep.
        if len(text) > _SHALLOW and text.count("[") + text.count("{") > DEPTH_LIMIT:
            _refuse_deep(msgspec.to_builtins(value), DEPTH_LIMIT)
    except (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError) as error:
        verb = "are" if plural else "is"
        raise BadArguments(f"{what} {verb} not JSON: {str(error) or type(error).__name__}") from error
    if len(data) > limit:
        verb = "take" if plural else "takes"
        raise BadArguments(f"{what} {verb} {len(data)} bytes as JSON; at most {limit} are allowed")
    return text


def flat_json(value: Mapping[str, Any], what: str, limit: int) -> str:
    """Do the same for values that are whole numbers, texts, true or false: nothing in them is unreal or deep.

    >>> flat_json({"doc": "null"}, "the arguments", 100)
    '{"doc":"null"}'
    >>> flat_json({"doc": "x" * 100}, "the arguments", 100)
    Traceback (most recent call last):
    laneway.errors.BadArguments: the arguments take 110 bytes as JSON; at most 100 are allowed
    """
    try:
        data = _encode(value)
    except (ValueError, OverflowError, msgspec.MsgspecError):
        return to_json(value, what, limit)  # which says what is wrong
    return data.decode() if len(data) <= limit else to_json(value, what, limit)


def flat_jsons(values: Sequence[Mapping[str, Any]], what: str, limit: int) -> list[str]:
    """Do the same for each of these.

    >>> flat_jsons([{"number": 1}, {"number": 2}], "the arguments", 100)
    ['{"number":1}', '{"number":2}']
    """
    try:
        texts = [data.decode() for data in map(_encode, values)]
    except (ValueError, OverflowError, msgspec.MsgspecError):
        return [flat_json(value, what, limit) for value in values]
    # A character takes at most four bytes.
    if 4 * max(map(len, texts), default=0) > limit:
        return [flat_json(value, what, limit) for value in values]
    return texts


from_json: Callable[[str], Any] = msgspec.json.Decoder().decode
"""Return the value that JSON text stands for."""


def _refuse_unreal(value: object, path: str) -> None:
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{path or 'the value'} is {value}, which JSON has no word for")
    if isinstance(value, dict):
        for key, item in value.items():
            _refuse_unreal(item, f"{path}.{key}" if path else str(key))
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            _refuse_unreal(item, f"{path}[{index}]")


def _refuse_deep(value: object, levels: int) -> None:
    if not levels:
        raise ValueError(f"it is nested more than {DEPTH_LIMIT} levels deep")
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        for item in value:
            _refuse_deep(item, levels - 1)


def to_dict(record: Run | Event | Receipt | WorkerInfo) -> dict[str, Any]:
    """Return a record as a versioned plain dict, ready for JSON.

    >>> from laneway.core.run import ReceiptOutcome
    >>> to_dict(Receipt(ReceiptOutcome.ACCEPTED, "a"))
    {'v': 1, 'outcome': 'accepted', 'run_id': 'a', 'reason': None, 'position': None, 'state': None}
    """
    return {"v": VERSION, **msgspec.to_builtins(record)}


def run_from_dict(data: dict[str, Any]) -> Run:
    """Return the run a dict stands for; the inverse of `to_dict`."""
    version = data.get("v", VERSION)
    if version > VERSION:
        raise StoreTooNew(f"this run is written in form {version}; this laneway reads up to {VERSION}: upgrade it")
    return msgspec.convert(data, Run)
