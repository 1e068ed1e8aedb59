"""The core reads no clock and rolls no dice, and core and ports speak the glossary's words."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[2] / "src" / "laneway"
CORE = sorted((SOURCE / "core").rglob("*.py"))
SPOKEN = [*CORE, *sorted((SOURCE / "ports").rglob("*.py")), SOURCE / "errors.py"]

# What the import contract cannot see: calls on things that are imported for other reasons, and built-ins.
IMPURE_CALLS = {"now", "utcnow", "today", "fromtimestamp", "open", "print", "input", "exec", "eval", "__import__"}
IMPURE_MODULES = {"time", "random", "secrets", "uuid", "os", "sys", "asyncio", "logging", "threading"}

# The glossary's "not" column, as far as a word can be nothing else; and names that say nothing.
SYNONYMS = {
    "actor": "Task",
    "backend": "Store",
    "broker": "Store",
    "execution": "Run",
    "helper": "what it does",
    "manager": "what it does",
    "pool": "Lane",
    "queue": "Lane",
    "tenant": "User",
    "trigger": "Schedule",
    "util": "what it does",
    "utils": "what it does",
}


def impure(source: str) -> list[str]:
    """Return the impure calls and module uses in a source text."""
    found = []
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)) if name in IMPURE_CALLS:
                found.append(f"line {node.lineno}: {name}()")
            case ast.Attribute(value=ast.Name(id=module)) if module in IMPURE_MODULES:
                found.append(f"line {node.lineno}: {module}.{node.attr}")
            case ast.Import(names=names) if any(name.name.split(".")[0] in IMPURE_MODULES for name in names):
                found.append(f"line {node.lineno}: import")
            case ast.ImportFrom(module=str(module)) if module.split(".")[0] in IMPURE_MODULES:
                found.append(f"line {node.lineno}: import")
    return found


def identifiers(source: str) -> Iterator[tuple[int, str]]:
    """Return every name that a source text gives to something."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield node.lineno, name
            case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield node.lineno, name


def wrong_words(source: str) -> list[str]:
    """Return the identifiers that use a word the glossary does not."""
    found = []
    for line, name in identifiers(source):
        words = {word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)}
        singular = {word.removesuffix("s") for word in words}
        found += [f"line {line}: {name}: say {SYNONYMS[word]}" for word in sorted((words | singular) & SYNONYMS.keys())]
    return found


@pytest.mark.parametrize("file", CORE, ids=lambda file: file.name)
def test_the_core_reads_no_clock_and_rolls_no_dice(file: Path) -> None:
    assert impure(file.read_text(encoding="utf-8")) == []


def test_only_one_file_of_the_core_asks_about_time_zones() -> None:
    asking = [file.name for file in CORE if "zoneinfo import" in file.read_text(encoding="utf-8")]

    # A zone's history is data that comes with the machine; decision 20 says why it may be read, and only there.
    assert asking == ["zones.py"]


@pytest.mark.parametrize("file", SPOKEN, ids=lambda file: f"{file.parent.name}/{file.name}")
def test_core_and_ports_speak_the_glossarys_words(file: Path) -> None:
    found = wrong_words(file.read_text(encoding="utf-8"))

    # "queue" is what a mode of a session is called, for people who know it from everywhere else.
    assert [line for line in found if "QUEUE: say Lane" not in line] == []


@pytest.mark.parametrize(
    "planted",
    [
        "from datetime import datetime\ndatetime.now()",
        "import datetime\nx = datetime.datetime.utcnow()",
        "from datetime import date\ndate.today()",
        "import time\ntime.time()",
        "from time import monotonic",
        "from random import random",
        "print('x')",
        "open('x')",
    ],
)
def test_what_is_impure_is_found(planted: str) -> None:
    assert impure(planted)


@pytest.mark.parametrize(
    ("planted", "word"),
    [
        ("def put_in_queue(): ...", "Lane"),
        ("class RedisBroker: ...", "Store"),
        ("def f(actor_id): ...", "Task"),
        ("executions = []", "Run"),
        ("self.backend = 1", "Store"),
        ("class LaneManager: ...", "what it does"),
    ],
)
def test_a_synonym_is_found(planted: str, word: str) -> None:
    assert [word in line for line in wrong_words(planted)] == [True]


def test_a_word_inside_a_word_is_no_synonym() -> None:
    assert wrong_words("def conqueue(jobless, spooling): ...") == []
