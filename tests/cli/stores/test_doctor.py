"""`laneway doctor` and `laneway migrate`: what is well, what is not, and what to do about it."""

from __future__ import annotations

import json
import os
import sqlite3
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from laneway.cli.shell.hints import store_words
from laneway.cli.stores import diagnosis
from laneway.ports.upkeep import Examination
from laneway.stores.sqlite import examination
from laneway.stores.sqlite.connection import APPLICATION_ID, newest_layout
from tests.cli.conftest import Invoke

Submitted = Callable[..., str]


@pytest.fixture
def store(folder: Path, invoke: Invoke, submitted: Submitted) -> Path:
    """A store with two runs that ended and one that is pending."""
    submitted("add", "a=1")
    submitted("fail")
    invoke("drain", "app:app")
    submitted("add", "a=2")
    return folder / "laneway.db"


def edit(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        for statement in statements:
            db.execute(statement)


def found(invoke: Invoke, *words: str) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(invoke("doctor", *words, "--json").stdout)
    return value


def facts(found: dict[str, Any], name: str) -> list[tuple[str, str]]:
    return [(fact["level"], fact["text"]) for fact in found["facts"] if fact["name"] == name]


def scribble(path: Path) -> None:
    """Overwrite pages in the middle of the file, as a failing disk would."""
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(size // 2 // 4096 * 4096)
        file.write(b"\xa5" * (size // 4))


def first_layout(path: Path) -> None:
    """Make an empty store of the first layout."""
    text = files("laneway.stores.sqlite").joinpath("schema", "0001_first.sql").read_text(encoding="utf-8")
    with closing(sqlite3.connect(path)) as db:
        db.executescript(f"{text} PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = 1;")


# Doctor


@pytest.mark.usefixtures("store")
def test_a_healthy_store_is_told_fact_by_fact(invoke: Invoke) -> None:
    result = invoke("doctor")

    assert (result.exit_code, result.stderr) == (0, "")
    head, *lines = result.stdout.splitlines()
    told = {line.split()[1]: " ".join(line.split()[2:]) for line in lines}
    assert head == "sqlite:///laneway.db"
    assert list(told)[:6] == ["python", "laneway", "engine", "layout", "integrity", "counts"]
    assert told["python"] == sys.version.split()[0]
    assert told["laneway"] == version("laneway")
    assert told["layout"] == str(newest_layout())
    assert (told["integrity"], told["counts"], told["clock"]) == ("fine", "agree with what they count", "fine")
    assert told["runs"] == "1 pending, 1 failed, 1 succeeded"
    assert told["workers"] == "0 alive"


@pytest.mark.usefixtures("store")
def test_programs_get_json(invoke: Invoke) -> None:
    told = found(invoke)

    assert (told["v"], told["well"], told["store"]) == (1, True, "sqlite:///laneway.db")
    assert (told["layout"], told["newest_layout"]) == (newest_layout(), newest_layout())
    assert told["runs"] == {"pending": 1, "failed": 1, "succeeded": 1}
    assert (told["damage"], told["findings"], told["repaired"]) == ([], [], [])
    assert told["sizes"]["file"] > 0


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize(("engine", "warned"), [("3.40.1", True), ("3.51.2", True), ("3.51.3", False), ("4.0", False)])
def test_a_sqlite_with_the_wal_reset_bug_is_warned_of(
    invoke: Invoke, monkeypatch: pytest.MonkeyPatch, engine: str, warned: bool
) -> None:
    monkeypatch.setattr(examination, "_ENGINE", f"SQLite {engine}")

    result = invoke("doctor", "--json")

    [(level, text)] = facts(json.loads(result.stdout), "engine")
    assert (level == "warning", "WAL-reset bug" in text, result.exit_code) == (warned, warned, 0)


def test_wrong_counts_are_found_and_repaired(invoke: Invoke, store: Path) -> None:
    edit(store, "UPDATE lane SET active = 7 WHERE name = 'main'")

    result = invoke("doctor")
    assert result.exit_code == 1
    assert "lane main: active is 7, counted are 0" in result.stdout
    assert found(invoke)["findings"] == [{"what": "lane main", "wrong": "active is 7, counted are 0"}]

    result = invoke("doctor", "--repair")
    assert result.exit_code == 0
    assert "repaired   lane main: active is 7, counted are 0" in result.stdout
    assert found(invoke)["findings"] == []
    assert invoke("doctor", "--repair").exit_code == 0


def test_a_damaged_file_is_told_and_cannot_be_repaired(invoke: Invoke, submitted: Submitted, store: Path) -> None:
    for _ in range(5):
        submitted("anything", f"value={'x' * 30_000}")
    scribble(store)

    for words in ([], ["--repair"]):
        result = invoke("doctor", *words)
        assert result.exit_code == 1, result.output
        assert "integrity  the file is damaged: stop all workers" in result.stdout
        assert "Traceback" not in result.output
    assert found(invoke)["damage"]


def test_what_cannot_be_read_is_not_called_fine(invoke: Invoke, store: Path) -> None:
    with store.open("r+b") as file:
        file.seek(100)  # behind the file's head, where its tables are named
        file.write(b"\xa5" * 3000)

    told = json.loads(invoke("doctor", "--json").stdout)

    assert facts(told, "clock") == [("warning", "could not be compared")]
    assert facts(told, "runs") == [("warning", "could not be counted")]
    assert facts(told, "workers") == [("warning", "could not be read")]
    assert (told["runs"], told["well"]) == (None, False)


def test_a_clock_that_is_behind_the_store_is_wrong(invoke: Invoke, store: Path) -> None:
    ahead = (int(time.time()) + 7200) * 1_000_000
    edit(store, f"UPDATE run SET accepted_at = {ahead} WHERE number = (SELECT max(number) FROM run)")

    result = invoke("doctor")

    assert result.exit_code == 1
    assert "ahead of this machine's clock: it was set back, or had been wrong; set it right" in result.stdout


def test_a_clock_that_was_set_back_is_warned_of(invoke: Invoke, store: Path) -> None:
    edit(store, "UPDATE run SET accepted_at = accepted_at - 3600000000 WHERE number = (SELECT max(number) FROM run)")

    result = invoke("doctor")

    assert result.exit_code == 0
    assert "! clock      it was set back by 59m" in result.stdout.replace("1h00m", "59m")


def test_the_dead_are_named_with_what_they_hold(invoke: Invoke, store: Path) -> None:
    process = {"boot": "another boot", "namespace": "", "pid": 1, "started": 1}
    incarnation = json.dumps({"id": "w-dead", "host": "here", "tasks": ["add"], "process": process})
    edit(
        store,
        f"INSERT INTO worker (id, incarnation, lease, renewed_at) VALUES ('w-dead', '{incarnation}', 15000000, 1)",
        "INSERT INTO lease (number, fence, attempt, holder, call, nth, started_at, events)"
        " SELECT number, 1, 1, 'w-dead', 1, 0, 1, 0 FROM ready",
        "DELETE FROM ready",
    )
    invoke("doctor", "--repair")  # the counts

    result = invoke("doctor")

    assert result.exit_code == 0
    assert "w-dead on here has lapsed: not renewed for " in result.stdout
    assert "; holds 1, which the next worker takes over" in result.stdout


def test_an_older_layout_is_told_and_left_alone(invoke: Invoke, folder: Path) -> None:
    first_layout(folder / "laneway.db")

    result = invoke("doctor", "--repair")

    assert result.exit_code == 0
    assert f"! layout     1; this laneway uses {newest_layout()}: `laneway migrate` moves it forward" in result.stdout
    assert json.loads(invoke("migrate", "--dry-run", "--json").stdout)["from"] == 1


def test_many_findings_are_cut_on_a_terminal_only(invoke: Invoke, store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    edit(store, *(f"INSERT INTO due (rank, number, kind) VALUES (1, {number}, 0)" for number in range(1000, 1030)))

    assert invoke("doctor").stdout.count("there is no such run") == 30
    monkeypatch.setattr(diagnosis, "is_terminal", lambda: True)
    shown = invoke("doctor").stdout
    assert shown.count("there is no such run") == 10
    assert shown.count("... and more; --json shows all") == 1


@pytest.mark.parametrize("command", ["doctor", "migrate"])
def test_what_is_no_store_is_refused_clearly(invoke: Invoke, folder: Path, command: str) -> None:
    def refused(*words: str) -> tuple[int, str]:
        result = invoke(command, *words)
        assert (result.stdout, "Traceback" in result.stderr) == ("", False)
        return result.exit_code, result.stderr

    code, said = refused("--store", "memory://")
    assert (code, said) == (2, "laneway: memory:// lives inside one process; this command cannot see it\n")
    code, said = refused()
    assert (code, said.splitlines()[0]) == (6, "laneway: there is no store at sqlite:///laneway.db")
    code, said = refused("--store", "mongodb://")
    assert (code, "is not a store laneway knows" in said) == (2, True)
    (folder / "diary.db").write_text("dear diary, " * 1000, encoding="utf-8")
    code, said = refused("--store", "sqlite:///diary.db")
    assert (code, "is not a SQLite database; give another path" in said) == (6, True)
    first_layout(folder / "new.db")
    edit(folder / "new.db", "PRAGMA user_version = 99")
    code, said = refused("--store", "sqlite:///new.db")
    assert (code, "has layout 99, made by a newer laneway; this one knows up to" in said) == (6, True)
    (folder / "sub").mkdir()
    code, said = refused("--store", "sqlite:///sub")
    assert (code, "is a folder" in said) == (6, True)


# Backup


def test_a_backup_is_written_checked_and_opens_as_a_store(invoke: Invoke, store: Path) -> None:
    store.chmod(0o640)

    result = invoke("doctor", "--backup", "copy.db")

    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr.startswith("wrote copy.db: ")
    copy = store.with_name("copy.db")
    assert stat.S_IMODE(copy.stat().st_mode) == 0o640
    listed = [
        invoke("runs", "list", "--json", "--store", f"sqlite:///{name}").stdout for name in ("copy.db", "laneway.db")
    ]
    assert listed[0] == listed[1]
    assert found(invoke, "--store", "sqlite:///copy.db")["well"]


def test_a_backup_can_say_so_in_json(invoke: Invoke, store: Path) -> None:
    told = json.loads(invoke("doctor", "--backup", "copy.db", "--json").stdout)

    assert told == {"v": 1, "backup": "copy.db", "bytes": store.with_name("copy.db").stat().st_size}


@pytest.mark.parametrize("name", ["app.py", "laneway.db", "."])
def test_a_backup_overwrites_nothing(invoke: Invoke, store: Path, name: str) -> None:
    before = store.with_name("app.py").read_bytes()

    result = invoke("doctor", "--backup", name)

    assert (result.exit_code, result.stderr) == (
        5,
        f"laneway: {name} exists, and is not overwritten; give another name\n",
    )
    assert store.with_name("app.py").read_bytes() == before


@pytest.mark.usefixtures("store")
def test_a_backup_that_cannot_be_made_says_why(invoke: Invoke) -> None:
    result = invoke("doctor", "--backup", "nowhere/copy.db")
    assert (result.exit_code, "nowhere/copy.db cannot be written: No such file or directory" in result.stderr) == (
        6,
        True,
    )

    result = invoke("doctor", "--backup", "copy.db", "--repair")
    assert (result.exit_code, result.stderr) == (2, "laneway: give --backup or --repair, not both; back up first\n")


# Migrate


def test_migrate_says_from_where_to_where_and_does_it(invoke: Invoke, folder: Path) -> None:
    path, newest = folder / "laneway.db", newest_layout()
    first_layout(path)
    before = path.read_bytes()

    dry = invoke("migrate", "--dry-run")
    assert (dry.exit_code, dry.stderr) == (0, f"would move the store from layout 1 to {newest}\n")
    assert path.read_bytes() == before

    done = invoke("migrate")
    assert (done.exit_code, done.stdout, done.stderr) == (0, "", f"moved the store from layout 1 to {newest}\n")
    again = invoke("migrate")
    assert (again.exit_code, again.stderr) == (0, f"layout {newest} is the newest; there is nothing to do\n")
    assert json.loads(invoke("migrate", "--json").stdout) == {"v": 1, "from": newest, "to": newest, "done": False}
    assert found(invoke)["well"]


def test_what_a_server_keeps_and_what_is_dangerous_about_it_is_told() -> None:
    examination = Examination(
        engine="Valkey 9.1.2",
        layout=1,
        newest_layout=1,
        kept="nothing",
        warnings=["set appendonly yes", "set noeviction"],
        sizes={"memory": 3 * 2**20, "limit": 2**30},
        findings=[],
        runs={},
        workers=[],
        set_back=0,
    )

    told = diagnosis.Diagnosis("redis://host", examination, [], 0, None)

    about = [fact for fact in told.facts if fact.name in ("engine", "restart", "server", "memory", "file")]
    assert [(fact.name, fact.level, fact.text) for fact in about] == [
        ("engine", "fine", "Valkey 9.1.2"),
        ("restart", "fine", "keeps nothing"),
        ("server", "warning", "set appendonly yes"),
        ("server", "warning", "set noeviction"),
        ("memory", "fine", "3.0 MiB of 1.0 GiB"),
    ]
    assert told.well


def test_a_command_to_paste_does_not_hold_a_password() -> None:
    assert store_words("redis://ann:secret@host/0?namespace=a&timeout=1") == (
        " --store 'redis://...@host/0?namespace=a&timeout=1'"
    )
    assert store_words("postgresql://host/app?password=secret&schema=x") == (
        " --store 'postgresql://host/app?password=...&schema=x'"
    )
    assert store_words("sqlite:///who@home.db") == " --store sqlite:///who@home.db"


@pytest.mark.parametrize(
    "url", ["redis:/:hunter2@host/0", "postgresql:/u:hunter2@h/db", "redis//:hunter2@h", "u:hunter2@h"]
)
def test_an_address_that_is_none_is_named_without_its_password(invoke: Invoke, url: str) -> None:
    for command in (["doctor", "--store", url], ["runs", "list", "--store", url], ["move", url, "sqlite:///x.db"]):
        result = invoke(*command)

        assert result.exit_code == 2
        assert f"laneway: '...@{url.partition('@')[2]}' is not a store laneway knows" in result.stderr
        assert "hunter2" not in result.output


@pytest.mark.usefixtures("store")
def test_the_whole_command_line_agrees(folder: Path) -> None:
    command = [sys.executable, "-m", "laneway", "doctor", "--store", f"sqlite:///{folder / 'laneway.db'}"]

    done = subprocess.run(command, cwd="/", env=os.environ, capture_output=True, text=True, timeout=50, check=False)

    assert (done.returncode, done.stderr) == (0, "")
    assert "counts     agree with what they count" in done.stdout
