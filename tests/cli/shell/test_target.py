"""APP: whatever is wrong with it is said in one line, with a way on."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Invoke


def submit(invoke: Invoke, app: str) -> tuple[int, str]:
    result = invoke("submit", app, "add", "a=1")
    assert "Traceback" not in result.stderr
    return result.exit_code, result.stderr


@pytest.mark.parametrize(
    ("spec", "said", "hint"),
    [
        ("app", "APP 'app' has no colon; write module:attribute", "did you mean app:app or app:other?"),
        ("app:", "APP 'app:' is incomplete; write module:attribute, such as app:app", None),
        (":app", "APP ':app' is incomplete", None),
        ("app.py:app", "APP 'app.py:app' names a file; name the module instead: app:app", None),
        ("./shop/tasks.py", "APP './shop/tasks.py' names a file; name the module instead: shop.tasks:app", None),
        ("app:ap", "module 'app' has no 'ap', did you mean 'app'?", None),
        ("app:zzz", "module 'app' has no 'zzz'", "did you mean app:app or app:other?"),
        ("app:number", "app:number is of type int, not a Scheduler", "did you mean app:app or app:other?"),
        ("app:summarize", "app:summarize is of type Task, not a Scheduler", "did you mean app:app or app:other?"),
        ("ap:app", "there is no module 'ap', did you mean 'app'?", "looked for ap.py and ap/__init__.py in"),
        ("shop.tasks:app", "there is no module 'shop.tasks'", "looked for shop/tasks.py and shop/tasks/__init__.py in"),
        ("json:app", "module 'json' has no 'app'", "json holds no Scheduler"),
    ],
)
def test_a_wrong_app_is_explained(invoke: Invoke, spec: str, said: str, hint: str | None) -> None:
    code, stderr = submit(invoke, spec)

    first, *rest = stderr.splitlines()
    assert code == 2
    assert first.startswith(f"laneway: {said}")
    assert len(rest) == (hint is not None)
    assert hint is None or rest[0].startswith(f"  {hint}")


@pytest.mark.parametrize(
    ("source", "said", "place"),
    [
        ("x = 1\nraise ValueError('no key')", "ValueError: no key", "broken.py:2"),
        ("import nowhere_to_be_found", "ModuleNotFoundError: No module named 'nowhere_to_be_found'", "broken.py:1"),
        ("def f(:\n  pass", "SyntaxError: invalid syntax", "broken.py:1"),
        ("import sys\n\nsys.exit(3)", "SystemExit: 3", "broken.py:3"),
        (
            "from laneway import Scheduler\napp = Scheduler('sqlite:///a.db', concurency=3)",
            "laneway.errors.BadSetting: unknown setting 'concurency', did you mean 'concurrency'?",
            "broken.py:2",
        ),
        ("import json\n\njson.loads('{')", "json.decoder.JSONDecodeError: Expecting property name", "broken.py:3"),
    ],
)
def test_a_module_that_raises_is_blamed_where_it_does(
    invoke: Invoke, folder: Path, source: str, said: str, place: str
) -> None:
    (folder / "broken.py").write_text(source, encoding="utf-8")

    code, stderr = submit(invoke, "broken:app")

    first, second = stderr.splitlines()
    assert code == 2
    assert first.startswith(f"laneway: module 'broken' cannot be imported: {said}")
    assert second == f"  at {place}; --debug shows the traceback"


def test_debug_shows_the_traceback(invoke: Invoke, folder: Path) -> None:
    (folder / "broken.py").write_text("raise ValueError('no key')", encoding="utf-8")

    result = invoke("submit", "broken:app", "add", "--debug")

    assert result.exit_code == 2
    assert "Traceback (most recent call last)" in result.stderr
    assert 'broken.py", line 1' in result.stderr
    assert "laneway: module 'broken' cannot be imported: ValueError: no key" in result.stderr


def test_an_app_in_a_package_is_found_from_the_current_directory(invoke: Invoke, folder: Path) -> None:
    (folder / "shop").mkdir()
    (folder / "shop" / "tasks.py").write_text((folder / "app.py").read_text(encoding="utf-8"), encoding="utf-8")
    sys.modules.pop("shop", None)

    assert submit(invoke, "shop.tasks:app")[0] == 0


def test_what_a_module_prints_does_not_mix_with_the_data(invoke: Invoke, folder: Path) -> None:
    source = (folder / "app.py").read_text(encoding="utf-8")
    (folder / "app.py").write_text(f"print('hello from the module')\n{source}", encoding="utf-8")

    result = invoke("submit", "app:app", "add", "a=1")

    assert len(result.stdout.strip()) == 32
    assert "hello from the module" in result.stderr


def test_the_app_can_come_from_the_environment(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANEWAY_APP", "app:app")

    assert invoke("submit", "add", "a=1").exit_code == 0
    assert invoke("submit", "app:app", "add", "a=1").exit_code == 0
    assert invoke("submit", "anything", "value=a:b").exit_code == 0
    assert invoke("drain").stderr == "3 succeeded\n"


@pytest.mark.parametrize(
    "words", [["runs", "list"], ["runs", "show", "a"], ["runs", "events", "a"], ["runs", "wait", "a"]]
)
def test_reading_a_store_that_is_not_there_says_so_and_makes_none(
    invoke: Invoke, folder: Path, words: list[str]
) -> None:
    result = invoke(*words)

    assert result.exit_code == 6
    assert result.stderr.splitlines() == [
        "laneway: there is no store at sqlite:///laneway.db",
        f"  looked for {folder}/laneway.db; another one? give --store URL or set LANEWAY_STORE",
    ]
    assert not list(folder.glob("laneway.db*"))


@pytest.mark.parametrize(
    ("url", "code", "said"),
    [
        ("sqlit:///a.db", 2, "sqlit:// is not a store laneway knows"),
        ("sqlite://a.db", 2, "'sqlite://a.db' names no file"),
        ("memory://", 2, "memory:// lives inside one process"),
        ("sqlite:///app.py", 6, ""),
        ("redis://me:secret@host/x", 2, "redis://: the database is a number, such as /0, not 'x'"),
    ],
)
def test_a_wrong_store_is_explained(invoke: Invoke, url: str, code: int, said: str) -> None:
    result = invoke("runs", "list", "--store", url)

    assert result.exit_code == code
    assert result.stderr.startswith(f"laneway: {said}")
    assert "secret" not in result.stderr
    assert "Traceback" not in result.stderr


def test_the_store_can_come_from_the_environment_and_the_option_wins(
    invoke: Invoke, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert invoke("submit", "app:app", "add", "a=1").exit_code == 0
    monkeypatch.setenv("LANEWAY_STORE", f"sqlite:///{folder}/laneway.db")

    assert "add" in invoke("runs", "list").stdout
    assert invoke("runs", "list", "--store", "sqlite:///none.db").exit_code == 6
