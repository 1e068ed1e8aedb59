"""Reads the signature and the annotations of a handler, whatever kind of callable it is."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable
from types import CellType
from typing import Any, get_args, get_origin

import msgspec

from laneway.errors import BadSetting

_EMPTY = CellType()
# Types that a JSON decoder returns by itself: such values need no conversion.
_NATIVE = (str, bool, list, dict, type(None), Any)


def signature_of(task: str, function: Callable[..., Any]) -> list[inspect.Parameter]:
    """Return the handler's parameters. Raises BadSetting if it cannot be a handler."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError) as error:
        raise BadSetting(f"task {task!r}: its parameters cannot be read ({error}); wrap it in a function") from None
    for parameter in parameters:
        if parameter.kind is parameter.POSITIONAL_ONLY:
            raise BadSetting(f"task {task!r}: parameter {parameter.name!r} is positional-only; arguments have names")
    return parameters


def hints_of(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the annotations, each resolved; one that only a type checker can resolve stays text."""
    while isinstance(function, functools.partial):
        function = function.func
    if not inspect.isroutine(function):
        function = type(function).__call__
    function = inspect.unwrap(function)
    names = {**getattr(function, "__globals__", {}), **_closed_over(function)}
    return {name: _resolved(hint, names) for name, hint in inspect.get_annotations(function).items()}


def mentions(hint: Any, wanted: type) -> bool:
    """Tell whether the annotation is that type: perhaps optional, annotated, or imported for type checkers only."""
    if isinstance(hint, str):
        return re.search(rf"(?<![\w.])(laneway\.)?{wanted.__name__}\b", hint) is not None
    return hint is wanted or any(mentions(part, wanted) for part in get_args(hint))


def checkable(hint: Any) -> Any:
    """Return the annotation if msgspec can check JSON against it, else Any."""
    try:
        msgspec.json.Decoder(hint | msgspec.UnsetType if hint is not Any else hint)
    except Exception:  # noqa: BLE001  # msgspec raises for a type that it cannot take, or that a field of it has
        return Any
    return hint


def is_native(hint: Any) -> bool:
    """Tell whether JSON decodes to this type by itself."""
    origin, inside = get_origin(hint), get_args(hint)
    if origin is dict and inside[0] is not str:
        return False  # keys in JSON are text
    return all(map(is_native, inside)) if origin in (list, dict) else hint in _NATIVE


def _resolved(hint: Any, names: dict[str, Any]) -> Any:
    if not isinstance(hint, str):
        return hint
    try:
        return eval(hint, names)  # noqa: S307  # the handler's own annotation, as typing.get_type_hints does it
    except Exception:  # noqa: BLE001  # not resolvable here, for whatever reason
        return hint


def _closed_over(function: Callable[..., Any]) -> dict[str, Any]:
    if not inspect.isfunction(function):
        return {}
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    # A name that is not assigned yet, such as the task's own, has an empty cell.
    return {name: cell.cell_contents for name, cell in cells if cell != _EMPTY}
