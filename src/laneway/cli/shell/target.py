"""The scheduler of a command: that of an APP (`module:attribute`), or one for the address of a store."""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
import traceback
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, TypeVar

import click

from laneway.cli.shell.commands import awaited
from laneway.cli.shell.errors import UNREACHABLE, Problem

if TYPE_CHECKING:
    from laneway.scheduler import Scheduler

T = TypeVar("T")
APP = "LANEWAY_APP"
MEMORY = "memory://"


def app_argument(function: click.decorators.FC) -> click.decorators.FC:
    """Add the APP argument."""
    return click.argument("app", envvar=APP, metavar="APP")(function)


def store_option(function: click.decorators.FC) -> click.decorators.FC:
    """Add `--store`."""
    text = "The store's address.  [default: LANEWAY_STORE, else sqlite:///laneway.db]"
    return click.option("--store", metavar="URL", help=text)(function)


def load(spec: str) -> Scheduler:
    """Import and return the scheduler `module:attribute`; raise Problem with what is wrong if there is none."""
    from laneway.scheduler import Scheduler

    name, colon, attribute = spec.partition(":")
    if name.endswith(".py") or "/" in name or os.sep in name:
        dotted = name.removesuffix(".py").strip("./").replace("/", ".")
        raise Problem(f"APP {spec!r} names a file; name the module instead: {dotted}:{attribute or 'app'}")
    if not name or (colon and not attribute):
        raise Problem(f"APP {spec!r} is incomplete; write module:attribute, such as app:app")
    module = _import(name)
    if not colon:
        raise Problem(f"APP {spec!r} has no colon; write module:attribute", hint=_schedulers(module))
    value = getattr(module, attribute, None)
    if isinstance(value, Scheduler):
        return value
    if hasattr(module, attribute):
        kind = type(value).__name__
        raise Problem(f"{spec} is of type {kind}, not a Scheduler", hint=_schedulers(module))
    from laneway.errors import did_you_mean

    near = did_you_mean(attribute, _names(module))
    raise Problem(f"module {name!r} has no {attribute!r}{near}", hint=None if near else _schedulers(module))


def read_store(url: str | None) -> Scheduler:
    """Return a scheduler for a store that exists; it knows no tasks.

    It declares no lanes either: the environment and the directory of this shell are not those of the app.
    """
    from laneway.scheduler import Scheduler

    return Scheduler(url_of(url), lanes=None)


def call(scheduler: Scheduler, work: Callable[[Scheduler], Awaitable[T]]) -> T:
    """Open a scheduler, return the result of `work(scheduler)`, and close it."""

    async def called() -> T:
        async with scheduler:
            return await work(scheduler)

    return awaited(called())


def url_of(url: str | None) -> str:
    """Return the address of a store that exists: the one given, else the default."""
    from laneway.scheduler import Scheduler

    address = Scheduler(url, lanes=None).url
    if address.startswith(MEMORY):
        raise Problem("memory:// lives inside one process; this command cannot see it")
    path = file_of(address)
    if path is not None and not path.exists():
        hint = "" if url else "; another one? give --store URL or set LANEWAY_STORE"
        raise Problem(
            f"there is no store at {address}",
            hint=f"looked for {path.absolute()}{hint}",
            code=UNREACHABLE,
        )
    return address


def file_of(url: str) -> Path | None:
    """Return the file of a SQLite address; None for other addresses."""
    scheme, _, rest = url.partition(":///")
    return Path(rest) if scheme == "sqlite" and rest else None


def _import(name: str) -> ModuleType:
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        # stdout is for the data of this command, not for what a module prints while it is imported.
        with contextlib.redirect_stdout(sys.stderr):
            return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name and (name == error.name or name.startswith(f"{error.name}.")):
            raise _missing(name) from error
        raise _broken(name, error) from error
    except (Exception, SystemExit) as error:
        raise _broken(name, error) from error


def _missing(name: str) -> Problem:
    from laneway.errors import did_you_mean

    path = name.replace(".", "/")
    near = did_you_mean(name, [file.stem for file in Path().glob("*.py")])
    hint = f"looked for {path}.py and {path}/__init__.py in {Path.cwd()}, and among the installed packages"
    return Problem(f"there is no module {name!r}{near}", hint=hint)


def _broken(name: str, error: BaseException) -> Problem:
    said = traceback.format_exception_only(error)[-1].strip()
    return Problem(
        f"module {name!r} cannot be imported: {said}", hint=f"at {_where(error)}; --debug shows the traceback"
    )


def _where(error: BaseException) -> str:
    """Return file and line of the innermost frame in the user's code, else of the innermost frame of all."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{_short(error.filename)}:{error.lineno}"
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith("<frozen")]
    ours = str(Path(__file__).parents[2])
    outside = [frame for frame in frames if not frame.filename.startswith(ours)]
    own = [
        frame
        for frame in outside
        if frame.filename.startswith(str(Path.cwd())) and "site-packages" not in frame.filename
    ]
    frame = (own or outside or frames)[-1]
    return f"{_short(frame.filename)}:{frame.lineno}"


def _short(path: str) -> str:
    here = Path.cwd()
    return str(Path(path).relative_to(here)) if Path(path).is_relative_to(here) else path


def _names(module: ModuleType) -> list[str]:
    from laneway.scheduler import Scheduler

    return [name for name, value in vars(module).items() if isinstance(value, Scheduler)]


def _schedulers(module: ModuleType) -> str:
    found = [f"{module.__name__}:{name}" for name in _names(module)]
    if not found:
        return f"{module.__name__} holds no Scheduler"
    return f"did you mean {' or '.join(found)}?"
