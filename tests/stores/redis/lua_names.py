"""Names in Lua files: the verbs, what a file has at its top level, and what it uses of others."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path

LUA = Path(str(files("laneway.stores.redis").joinpath("lua")))

_COMMENT = re.compile(r"--[^\n]*")
_TEXT = re.compile(r"'(?:[^'\\\n]|\\.)*'")
_TOP = re.compile(r"^local (?:function (\w+)|([\w, ]+?)(?: =|$))", re.MULTILINE)
_DECLARED = (
    re.compile(r"local function (\w+)"),
    re.compile(r"local ([\w, ]+)"),
    re.compile(r"function[^(\n]*\(([^)]*)\)"),
    re.compile(r"for ([\w, ]+) (?:in|=)"),
)
_READ = re.compile(r"(?<![.\w:])[A-Za-z_]\w*\b(?!\s*=[^=])")


def verbs() -> list[str]:
    """Return the names of all verbs, such as `runs/get`."""
    return sorted(path.relative_to(LUA / "verbs").with_suffix("").as_posix() for path in LUA.glob("verbs/*/*.lua"))


def code_of(text: str) -> str:
    """Return a file's text without comments, and with every text in it empty."""
    return _TEXT.sub("''", _COMMENT.sub("", text))


def top_level(code: str) -> set[str]:
    """Return the locals that stand outside of every function."""
    return {name for one, many in _TOP.findall(code) for name in _split(one or many)}


def used(code: str) -> set[str]:
    """Return the names that the code reads and does not declare itself."""
    declared = {word for pattern in _DECLARED for found in pattern.findall(code) for word in _split(found)}
    return set(_READ.findall(code)) - declared


def _split(names: str) -> list[str]:
    return [name.strip() for name in names.split(",")]
