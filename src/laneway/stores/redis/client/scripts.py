"""The store's scripts, assembled from Lua files.

A file of `lua/` may begin with lines `-- needs: folder/name, folder/name` (without `.lua`) and one line `-- gives: one,
two`: which of its locals other files may use; without that line, the one with the file's name. A script is
`runtime/frame.lua`, then all files that it needs, each once, then its own file in `lua/verbs/<noun>/`. Comments stay
in: a server caches scripts, so fewer bytes save nothing, and its errors name lines.

Each file between the first and the last is in a function of its own. Lua makes all functions of a script at every call,
and each of them searches the list of all outer locals that the others use; the function around a file keeps these lists
short.

The scripts that are called most are also a library of functions, which Redis 7 and newer load once. The code is the
same: `begin` in `runtime/frame.lua` resets what the call before has cached.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from hashlib import sha1
from importlib.resources import files
from importlib.resources.abc import Traversable

from laneway.errors import StoreError

_LUA = files("laneway.stores.redis").joinpath("lua")
_HEAD = re.compile(r"-- (needs|gives):(.*)")
_LINE = re.compile(r"user_(?:script|function): ?(\d+)")


FRAME = "runtime/frame"
BIND, BEGIN = "bind()\n", "begin(KEYS, ARGV)\n"
# The verbs of the library, and the flag of those that may write when the server's memory is full.
HOT = {"runs/submit": "", "workers/step": "'allow-oom'", "workers/renew": "'allow-oom'"}

# The verbs that a move may forbid (`gate` in runtime/frame.lua): those that bring new runs, those that change anything,
# and those that then find nothing to do. The other verbs only read, or check the move themselves.
GATED = {
    **dict.fromkeys(("runs/submit", "jobs/fire"), "local refused = gate(true) if refused then return refused end "),
    **dict.fromkeys(
        (
            *(f"control/{verb}" for verb in ("answer", "cancel", "cancel_where", "pause", "resume", "stop")),
            *(f"settings/{verb}" for verb in ("close_breaker", "declare_lanes", "disable", "hold", "index_lane")),
            *(f"settings/{verb}" for verb in ("set_cap", "set_lane", "set_session")),
            *(f"jobs/{verb}" for verb in ("add", "change", "remove", "restart_time")),
            "upkeep/repair",
        ),
        "local refused = gate(false) if refused then return refused end ",
    ),
    "upkeep/prune": "if gate(false) then return pack(0) end ",
    "upkeep/untrimmed": "if gate(false) then return pack({}) end ",
    "upkeep/trim": "if gate(false) then return pack(false) end ",
}

Parts = tuple[tuple[int, str], ...]


@dataclass(frozen=True, slots=True)
class Library:
    """A library of functions for the server."""

    name: str
    text: str
    parts: Parts = field(repr=False)


@dataclass(frozen=True, slots=True)
class Script:
    """A script for the server. `sha` is its SHA-1, `parts` are the lines at which its files begin.

    `library` is the library that has it as `function`, if there is one.
    """

    name: str
    text: str
    sha: str
    parts: Parts = field(repr=False)
    library: Library | None = None

    @property
    def function(self) -> str:
        """The name of its function in the library."""
        return _function(self.library.name, self.name) if self.library else ""

    def place(self, error: str) -> str:
        """Return `rules/queue/turns.lua:12` for the first line that the server's error names, or an empty text."""
        found = _LINE.search(error)
        if found is None:
            return ""
        line = int(found[1])
        parts = self.library.parts if self.library and "user_function" in error else self.parts
        first, file = max((part for part in parts if part[0] <= line), default=(1, self.name))
        return f"{file}.lua:{line - first + 1}"


@cache
def script(name: str) -> Script:
    """Return the script of `lua/verbs/<name>.lua`; a name has its folder, such as `runs/get`."""
    made = assembled(f"verbs/{name}", _LUA, name, gate_of(name))
    return replace(made, library=library()) if name in HOT else made


@cache
def library() -> Library:
    """Return the library of the hot verbs. Its name differs in every version."""
    done: set[str] = set()
    files_of = {verb: f"verbs/{verb}" for verb in HOT}
    order = [part for file in files_of.values() for part in _in_order(file, _LUA, (), done)]
    texts = dict(order)
    modules = [(file, _enclosed(file, text)) for file, text in order if file not in files_of.values()]
    frame = (FRAME, _read(FRAME, _LUA, ()))
    whole = "".join([text for _, text in (frame, *order)] + [gate_of(name) for name in HOT])
    digest = sha1(whole.encode(), usedforsecurity=False).hexdigest()
    name = f"laneway_{digest[:12]}"
    verbs_made = [
        (file, f"verbs['{verb}'] = function(KEYS, ARGV) {gate_of(verb)}{texts[file]}end\n")
        for verb, file in files_of.items()
    ]
    registered = "".join(_registration(_function(name, verb), verb, flags) for verb, flags in HOT.items())
    parts = [
        ("", f"#!lua name={name}\n"),
        frame,
        ("", f"local verbs\nIN_LIBRARY = true\nlocal function make()\n{BIND}verbs = {{}}\n"),
    ]
    return Library(name, *_joined([*parts, *modules, *verbs_made, ("", f"end\n{registered}")]))


def gate_of(verb: str) -> str:
    """Return the check before a verb; not on a line of its own, so that errors name the lines of the verb's file."""
    return GATED.get(verb, "")


def assembled(last: str, folder: Traversable, name: str | None = None, gate: str = "") -> Script:
    """Return the script that ends with the file `last` of a folder. Raises StoreError for a missing file or a cycle."""
    *modules, (_, verb) = _in_order(last, folder, (), set())
    enclosed = [(file, _enclosed(file, text)) for file, text in modules]
    whole, parts = _joined([(FRAME, _read(FRAME, _LUA, ())), ("", BIND), *enclosed, ("", BEGIN), (last, gate + verb)])
    return Script(name or last, whole, sha1(whole.encode(), usedforsecurity=False).hexdigest(), parts)


def _joined(texts: Iterable[tuple[str, str]]) -> tuple[str, Parts]:
    whole, parts, line = [], [], 1
    for file, text in texts:
        whole.append(text)
        parts.append((line, file))
        line += text.count("\n")
    return "".join(whole), tuple(parts)


def _function(library: str, verb: str) -> str:
    return f"{library}_{verb.rpartition('/')[2]}"


def _registration(name: str, verb: str, flags: str) -> str:
    # While a library is loaded, most of Lua is not available to it, so the first call makes the functions.
    return f"""redis.register_function{{function_name='{name}', flags={{{flags}}}, callback=function(KEYS, ARGV)
  if not verbs then make() end
  {BEGIN.strip()}
  return verbs['{verb}'](KEYS, ARGV)
end}}
"""


def _in_order(name: str, folder: Traversable, above: tuple[str, ...], done: set[str]) -> Iterator[tuple[str, str]]:
    if name in above:
        raise StoreError(f"lua/{above[-1]}.lua needs {name!r}, which needs it: {' -> '.join((*above, name))}")
    if name in done:
        return
    text = _read(name, folder, above)
    for needed in _head("needs", text):
        yield from _in_order(needed, folder, (*above, name), done)
    done.add(name)
    yield name, text if text.endswith("\n") else f"{text}\n"


def _read(name: str, folder: Traversable, above: tuple[str, ...]) -> str:
    try:
        return folder.joinpath(*f"{name}.lua".split("/")).read_text(encoding="utf-8")
    except FileNotFoundError:
        who = f"lua/{above[-1]}.lua needs {name!r}, but there" if above else "there"
        raise StoreError(f"{who} is no lua/{name}.lua") from None


def _enclosed(name: str, text: str) -> str:
    given = ", ".join(_head("gives", text)) or name.rpartition("/")[2]
    return f"local {given} = (function() {text}return {given} end)()\n"


def _head(word: str, text: str) -> Iterator[str]:
    for line in text.splitlines():
        found = _HEAD.match(line)
        if found is None:
            return
        if found[1] == word:
            yield from (name.strip() for name in found[2].split(",") if name.strip())
