"""Write the blocking face, `laneway/sync/generated/`, from the classes whose calls are awaited: `make sync`.

Each public coroutine becomes a method with the same name, parameters and docstring, as they are written in the source.
It passes the coroutine to the face's event loop and waits for it. A part of the scheduler (`app.lanes`, `app.jobs`)
also passes on what is not awaited. `sync/base.py` has by hand how the face is entered, left and closed.

The source is read, not imported: the scheduler's module imports what is made here.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "src" / "laneway" / "sync" / "generated"
Method = ast.FunctionDef | ast.AsyncFunctionDef


class Twin(NamedTuple):
    """A class of the blocking face, and the class that it calls."""

    name: str
    module: str
    source: str
    doc: str = ""  # of the class, if not that of the source

    @property
    def is_part(self) -> bool:
        """Whether it is a part of the scheduler, and not the scheduler itself."""
        return self.source != "Scheduler"


ADMIN, CONTROL = "laneway.engine.client.admin", "laneway.engine.client.run_control"
PARTS = {
    "lanes": Twin("SyncLanes", ADMIN, "Lanes"),
    "users": Twin("SyncUsers", ADMIN, "Users"),
    "sessions": Twin("SyncSessions", ADMIN, "Sessions"),
    "tasks": Twin("SyncTasks", ADMIN, "Tasks"),
    "workers": Twin("SyncWorkers", CONTROL, "Workers"),
    "jobs": Twin("SyncJobs", "laneway.engine.jobs.jobs", "Jobs"),
}
FACE = Twin(
    "Sync",
    "laneway.scheduler",
    "Scheduler",
    """Every call of a scheduler in blocking form: `app.sync.submit(...)`.

    A thread that runs no event loop may call it; any other gets WrongThread. Ctrl-C cancels the call. `with app.sync:`
    opens the store and, at the end, closes everything.
    """,
)
FILES: dict[str, tuple[str, list[Twin]]] = {
    "admin": (
        "The blocking forms of `app.lanes`, `app.users`, `app.sessions`, `app.tasks` and `app.workers`.",
        [part for name, part in PARTS.items() if name != "jobs"],
    ),
    "jobs": ("The blocking form of `app.jobs`.", [PARTS["jobs"]]),
    "face": ("`Sync`, what `app.sync` is: the calls of `Scheduler` in blocking form.", [FACE]),
}
HOMES = {twin: name for name, (_, twins) in FILES.items() for twin in twins}
BLOCKING = {twin.source: twin for twin in PARTS.values()}
# What a method does before its call, if anything; {others} are its arguments without the connection.
FIRST = {
    "submit": """\
        if connection is not None:
            # On this thread: only here may the connection be used.
            return self.letter({others}).post(connection)
""",
    "submit_many": """\
        # Read here: what an iterable does (a query, a file) must not hold up the loop.
        items = list(items)
""",
}
WORDS = {"as `app.": "as `app.sync.", "`async with`": "`with`", "async with app.": "with app.sync."}


class Source:
    """A module that is read: the classes in it, and where the names that it uses come from."""

    def __init__(self, module: str) -> None:
        self.module = module
        self.classes: dict[str, ast.ClassDef] = {}
        self.homes: dict[str, tuple[str, str]] = {}  # name -> module and name there
        path = ROOT.joinpath("src", *module.split(".")).with_suffix(".py")
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            match node:
                case ast.ClassDef(name=name):
                    self.classes[name], self.homes[name] = node, (module, name)
                case ast.ImportFrom(module=str(origin), names=names):
                    self.homes |= {one.asname or one.name: (origin, one.name) for one in names}
                case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                    self.homes[name] = (module, name)
                case _:
                    pass

    def chain(self, name: str) -> Iterator[tuple[Source, ast.ClassDef]]:
        """Yield a class, then what it inherits from laneway's own."""
        yield self, self.classes[name]
        for base in self.classes[name].bases:
            module, inherited = self.homes.get(ast.unparse(base), ("", ""))
            if module.startswith("laneway."):
                yield from Source(module).chain(inherited)


class Module:
    """A generated module, as it is made."""

    def __init__(self, name: str) -> None:
        self._doc, self._twins = FILES[name]
        self._imports = {"from __future__ import annotations"}

    def text(self) -> str:
        """Return the module's text, formatted."""
        classes = "\n\n".join("\n".join(self._class(twin)) for twin in self._twins)
        head = f'"""{self._doc}\n\nMade by `make sync`; do not edit.\n"""'
        return formatted("\n\n".join([head, "\n".join(sorted(self._imports)), classes]))

    def _class(self, twin: Twin) -> Iterator[str]:
        chain = list(Source(twin.module).chain(twin.source))
        base = "SyncPart" if twin.is_part else "SyncBase"
        self._imports.add(f"from laneway.sync.base import {base}")
        if twin.is_part:
            self._imports.add(f"from {twin.module} import {twin.source}")
        yield f"class {twin.name}({base}{f'[{twin.source}]' if twin.is_part else ''}):"
        yield f'    """{twin.doc or summary(chain[0][1])}"""'
        seen = {"aclose"}
        for source, node in chain:
            new = [one for one in node.body if isinstance(one, Method) and one.name not in seen and is_public(one)]
            for method in new:
                if twin.is_part or isinstance(method, ast.AsyncFunctionDef):
                    yield from self._method(source, method, twin)
            seen |= {method.name for method in new}
        if not twin.is_part:
            for name, part in PARTS.items():
                yield from self._part(name, part)

    def _method(self, source: Source, method: Method, twin: Twin) -> Iterator[str]:
        """Yield the lines of a method's blocking form."""
        decorators = [ast.unparse(one) for one in method.decorator_list]
        returns = "None" if method.returns is None else ast.unparse(method.returns)
        if "asynccontextmanager" in decorators:
            decorators[decorators.index("asynccontextmanager")], returns = "contextmanager", "AsyncIterator[Self]"
            self._imports |= {"from contextlib import contextmanager", "from typing import Self"}
        shown = BLOCKING[returns].name if returns in BLOCKING else returns.removeprefix("Async")
        self._import_names(source, method.args, ast.parse(shown))
        yield ""
        yield from (f"    @{decorator}" for decorator in decorators)
        yield f"    def {method.name}({ast.unparse(method.args)}) -> {shown}:"
        yield f'        """{docstring(method)}"""'
        if "overload" in decorators:
            yield "        ..."
            return
        if method.name in FIRST:
            yield FIRST[method.name].format(others=", ".join(arguments(method, "connection"))).rstrip()
        yield from (f"        {line}" for line in body(method, decorators, returns, twin))

    def _part(self, name: str, part: Twin) -> Iterator[str]:
        self._imports.add(f"from laneway.sync.generated.{HOMES[part]} import {part.name}")
        [(_, node), *_] = Source(part.module).chain(part.source)
        yield "\n    @property"
        yield f"    def {name}(self) -> {part.name}:"
        yield f'        """{summary(node)}"""'
        yield f"        return {part.name}(self._scheduler.{name}, self._call)"

    def _import_names(self, source: Source, *parts: ast.AST) -> None:
        names = {node.id for part in parts for node in ast.walk(part) if isinstance(node, ast.Name)}
        for name in names:
            module, origin = source.homes.get(name, ("", ""))
            if name == "Iterator":
                module, origin = "collections.abc", name
            if module:
                self._imports.add(f"from {module} import {origin}{'' if origin == name else f' as {name}'}")


def body(method: Method, decorators: list[str], returns: str, twin: Twin) -> list[str]:
    """Return the lines that call a method's other form."""
    owner = "self._async" if twin.is_part else "self._scheduler"
    given = ", ".join(arguments(method))
    call = f"{owner}.{method.name}" if "property" in decorators else f"{owner}.{method.name}({given})"
    coroutine = f"lambda: {call}" if given else f"{owner}.{method.name}"
    if "contextmanager" in decorators:
        return [f"with self._entered({call}):", "    yield self"]
    if returns.startswith("AsyncIterator"):
        return [f"return self._iterate({coroutine})"]
    if not isinstance(method, ast.AsyncFunctionDef):
        answer = f"{BLOCKING[returns].name}({call}, self._call)" if returns in BLOCKING else call
    elif twin.is_part or returns in ("None", "Any"):
        answer = f"self._call({coroutine})"
    else:
        # The scheduler is not typed there, so the answer is.
        return [f"returned: {returns} = self._call({coroutine})", "return returned"]
    return [answer if returns == "None" else f"return {answer}"]


def arguments(method: Method, *left_out: str) -> Iterator[str]:
    """Yield what passes a method's parameters on."""
    given = method.args
    yield from (one.arg for one in (*given.posonlyargs, *given.args)[1:] if one.arg not in left_out)
    if given.vararg:
        yield f"*{given.vararg.arg}"
    yield from (f"{one.arg}={one.arg}" for one in given.kwonlyargs if one.arg not in left_out)
    if given.kwarg:
        yield f"**{given.kwarg.arg}"


def is_public(method: Method) -> bool:
    """Tell whether users call the method."""
    return not method.name.startswith("_") or method.name == "__iter__"


def docstring(node: Method | ast.ClassDef) -> str:
    """Return a docstring as it is written, in the words of the blocking face."""
    text = ast.get_docstring(node, clean=False) or ""
    for awaited, blocking in WORDS.items():
        text = text.replace(awaited, blocking)
    return text


def summary(node: ast.ClassDef) -> str:
    """Return the first sentence of a class's docstring, which ends its line."""
    return docstring(node).partition("\n")[0]


def formatted(text: str) -> str:
    """Return the text as ruff writes it."""
    ruff = Path(sys.executable).with_name("ruff")
    for command in (["check", "--quiet", "--fix", "--select=I"], ["format", "--quiet"]):
        done = subprocess.run(
            [ruff, *command, f"--stdin-filename={FOLDER}/made.py", "-"],
            cwd=ROOT,
            input=text,
            stdout=subprocess.PIPE,
            encoding="utf-8",
            check=True,
        )
        text = done.stdout
    return text


def made() -> dict[Path, str]:
    """Return the generated files with their texts."""
    return {FOLDER / f"{name}.py": Module(name).text() for name in FILES}


if __name__ == "__main__":
    for path, text in made().items():
        path.write_text(text, encoding="utf-8")
