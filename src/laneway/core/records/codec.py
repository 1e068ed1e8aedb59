"""The text form of values and records, in stores, on wires, and for programs that read `--json`.

Arguments and results are JSON text, checked and bounded here. Records become plain dicts with a version: `{"v": 1,
...}`, with instants as RFC 3339 text. A reader ignores names that it does not know, and refuses a newer version.
"""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from itertools import zip_longest
from typing import Any

import msgspec

from laneway.core.records.events import Event
from laneway.core.records.liveness import WorkerInfo
from laneway.core.records.run import Receipt, Run
from laneway.errors import BadArguments, StoreTooNew

VERSION = 1
ARGS_LIMIT = 256 * 1024
RESULT_LIMIT = 1024 * 1024
DEPTH_LIMIT = 100  # levels of nesting, few enough to read the text from any depth of the reader's stack

Reading = Callable[[str], object]

_SHALLOW = 2 * DEPTH_LIMIT  # bytes
# Types that contain no other values and have one obvious text.
_SCALARS = frozenset((str, int, float, bool, type(None), datetime, date, timedelta, Decimal))
_BYTES = (bytes, bytearray, memoryview)
_ADVICE = "JSON has only text: decode it, or write it as text, such as base64"
_encoder = msgspec.json.Encoder(decimal_format="string")
_encode, _encode_lines = _encoder.encode, _encoder.encode_lines


def to_json(value: object, what: str, limit: int, plural: bool = True, read: Reading | None = None) -> str:
    """Return `value` as JSON text. Raises BadArguments, which says what is not JSON, or how much too large it is.

    Bytes are not JSON, unless `read`, the function that will read the text, makes bytes of it again.

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
        # Each level takes two brackets, so a short text, as most are, cannot be deep.
        if len(text) > _SHALLOW and text.count("[") + text.count("{") > DEPTH_LIMIT:
            _refuse_deep(_plain(value), DEPTH_LIMIT)
        if type(value) not in _SCALARS and not _is_plain(value):
            _refuse_changed(value, text, read)
        # msgspec writes nan and inf as null, so only a text with a null can hide one.
        if "null" in text:
            _refuse_unreal(_plain(value), "")
    except (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError) as error:
        verb = "are" if plural else "is"
        raise BadArguments(f"{what} {verb} not JSON: {str(error) or type(error).__name__}") from error
    if len(data) > limit:
        verb = "take" if plural else "takes"
        raise BadArguments(f"{what} {verb} {len(data)} bytes as JSON; at most {limit} are allowed")
    return text


def flat_json(value: Mapping[str, Any], what: str, limit: int) -> str:
    """Do the same for whole numbers, texts, true and false only: such values need no further check.

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
    """Do the same for each of these values.

    >>> flat_jsons([{"number": 1}, {"number": 2}], "the arguments", 100)
    ['{"number":1}', '{"number":2}']
    """
    try:
        # One call encodes all of them, a line each: JSON text has no line breaks of its own.
        data = _encode_lines(values)
        texts = data.decode().split("\n")[:-1]
    except (ValueError, OverflowError, msgspec.MsgspecError):
        return [flat_json(value, what, limit) for value in values]
    # Most are small, even all together. A character takes at most four bytes.
    if len(data) > limit and 4 * max(map(len, texts)) > limit:
        return [flat_json(value, what, limit) for value in values]
    return texts


from_json: Callable[[str], Any] = msgspec.json.Decoder().decode
"""Return the value that JSON text stands for."""


def _is_plain(value: object) -> bool:
    """Tell whether it consists of lists, dicts with text as keys, and scalars: then nothing in it can be bytes."""
    kind = type(value)
    inside: Any = value
    if kind is dict:
        for key in inside:
            if type(key) is not str:
                return False
        inside = inside.values()
    elif kind is not list and kind is not tuple:
        return kind in _SCALARS
    # A plain loop: for a handful of items, as most have, `all`, `set` and `map` take twice as long.
    for item in inside:  # noqa: SIM110
        if type(item) not in _SCALARS and not _is_plain(item):
            return False
    return True


def _plain(value: object) -> Any:
    """Return the value as dicts, lists, texts and numbers; bytes stay bytes."""
    return msgspec.to_builtins(value, builtin_types=_BYTES, enc_hook=_unwrapped)


def _unwrapped(value: object) -> Any:
    if isinstance(value, msgspec.Raw):
        return msgspec.json.decode(value)
    raise TypeError(f"Encoding objects of type {type(value).__name__} is unsupported")


def _refuse_changed(value: object, text: str, read: Reading | None) -> None:
    """Raise if msgspec wrote two keys as the same text, or bytes as base64 that nobody reads back as bytes."""
    json.loads(text, object_pairs_hook=_refuse_twins)
    plain, back = _plain(value), None
    try:
        _refuse_bytes(plain, back, "")
    except TypeError:
        if read is None:
            raise
        # If the text does not fit, or holds types that only its reader knows, it does not become bytes again.
        with contextlib.suppress(TypeError, ValueError, msgspec.MsgspecError):
            back = _plain(read(text))
        _refuse_bytes(plain, back, "")


def _refuse_twins(pairs: list[tuple[str, Any]]) -> None:
    seen: set[str] = set()
    for key, _ in pairs:
        if key in seen:
            raise ValueError(f"two keys of one dict are {key!r} as text, and JSON's keys are text; rename one")
        seen.add(key)


def _refuse_bytes(value: object, back: Any, path: str) -> None:
    """Raise TypeError for bytes, except where `back` has bytes too."""
    if isinstance(value, _BYTES) and not isinstance(back, _BYTES):
        raise TypeError(f"{path or 'the value'} is {type(value).__name__}; {_ADVICE}")
    if isinstance(value, dict):
        back = back if isinstance(back, dict) else {}
        for key, item in value.items():
            if isinstance(key, _BYTES) and key not in back:
                raise TypeError(f"the key {key!r} of {path or 'the value'} is {type(key).__name__}; {_ADVICE}")
            _refuse_bytes(item, back.get(key), f"{path}.{key}" if path else str(key))
    elif isinstance(value, (list, tuple)):
        back = back if isinstance(back, (list, tuple)) else ()
        for index, (item, again) in enumerate(zip_longest(value, back[: len(value)])):
            _refuse_bytes(item, again, f"{path}[{index}]")


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
    """Return a record as a plain dict with a version, ready for JSON.

    >>> from laneway.core.records.run import ReceiptOutcome
    >>> to_dict(Receipt(ReceiptOutcome.ACCEPTED, "a"))
    {'v': 1, 'outcome': 'accepted', 'run_id': 'a', 'reason': None, 'position': None, 'state': None}
    """
    return {"v": VERSION, **msgspec.to_builtins(record)}


def run_from_dict(data: dict[str, Any]) -> Run:
    """Return the run that a dict stands for; the inverse of `to_dict`."""
    version = data.get("v", VERSION)
    if version > VERSION:
        raise StoreTooNew(f"this run is written in form {version}; this laneway reads up to {VERSION}: upgrade it")
    return msgspec.convert(data, Run)
