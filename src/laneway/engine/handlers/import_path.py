"""Find a handler again in a child process, by its module and name.

Functions do not travel between processes; names do. The child imports what this process imported, and looks the name
up. The script that started a process is no module to import. The child executes it once more under another name, so
that what stands below `if __name__ == "__main__"` does not run.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec

from laneway.errors import BadSetting

MAIN = "__main__"
MAIN_AGAIN = "__laneway_main__"

inside_child = False  # set in child processes


def refuse_inside_child() -> None:
    """Raise BadSetting in a child process: a script that works when it is imported would start children for ever."""
    if inside_child:
        raise BadSetting(
            "this is a child process, which only executes handlers: put what starts the work below"
            ' `if __name__ == "__main__":`'
        )


class ImportPath(msgspec.Struct, frozen=True):
    """Where a handler is defined. `script` is the file, if that was executed and not imported."""

    module: str
    name: str
    script: str | None = None


def check_importable(function: Callable[..., Any]) -> None:
    """Raise BadSetting if a child process could not find this function again."""
    name, module = getattr(function, "__qualname__", None), getattr(function, "__module__", None)
    if not isinstance(name, str) or not isinstance(module, str) or inspect.ismethod(function):
        raise BadSetting(
            f"{function!r} cannot be executed in a child process: it is an object's, not a module's;"
            " wrap it in a function at the top of a module"
        )
    if "<" in name:
        raise BadSetting(
            f"{name} cannot be executed in a child process: a child finds a handler by its name in a module; define it"
            " with `def` at the top of one (and give its decorators functools.wraps)"
        )
    if module == MAIN:
        _home_of_main(name)


def place_of(function: Callable[..., Any]) -> ImportPath:
    """Return where a child process finds this function. Raises BadSetting if it would find another one there."""
    check_importable(function)
    place = ImportPath(function.__module__, function.__qualname__)
    if place.module == MAIN:
        place = _home_of_main(place.name)
    there = _looked_up(sys.modules.get(function.__module__), place)
    if function is not there and function is not getattr(there, "function", None):
        raise BadSetting(
            f"{place.name} of module {function.__module__} is not the handler any more: the name was used again;"
            " a child process would execute the wrong function"
        )
    return place


def find(place: ImportPath) -> Any:
    """Return what is defined there, the function or its task; import the module if needed."""
    module = importlib.import_module(place.module) if place.script is None else _main_again(place.script)
    return _looked_up(module, place)


def _looked_up(value: Any, place: ImportPath) -> Any:
    for part in place.name.split("."):
        try:
            value = getattr(value, part)
        except AttributeError:
            raise BadSetting(f"module {place.module} has no {place.name}; a child process cannot find it") from None
    return value


def _home_of_main(name: str) -> ImportPath:
    main = sys.modules[MAIN]
    spec, file = getattr(main, "__spec__", None), getattr(main, "__file__", None)
    if spec is not None and spec.name != MAIN:
        return ImportPath(spec.name, name)  # started by `python -m`
    if file is None or not Path(file).is_file():
        raise BadSetting(
            f"{name} cannot be executed in a child process: it was typed in, not read from a file that a child could"
            " read again"
        )
    return ImportPath(MAIN, name, str(Path(file).absolute()))


def _main_again(script: str) -> ModuleType:
    if MAIN_AGAIN in sys.modules:
        return sys.modules[MAIN_AGAIN]
    spec = importlib.util.spec_from_file_location(MAIN_AGAIN, script)
    if spec is None or spec.loader is None:
        raise BadSetting(f"{script} cannot be executed in a child process: it is no Python file")
    # Dataclasses and annotations look up their module by name while it is being executed.
    module = sys.modules[MAIN_AGAIN] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[MAIN_AGAIN]
        raise
    return module
