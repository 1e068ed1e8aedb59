"""`laneway tasks`: pausing and disabling for all processes, and what a store knows of tasks."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Invoke, Start

Submitted = Callable[..., str]


def test_a_disabled_task_refuses_until_it_is_enabled_and_keeps_its_queue(invoke: Invoke, submitted: Submitted) -> None:
    kept = submitted("add", "a=1")

    disabled = invoke("tasks", "disable", "add")
    refused = invoke("submit", "app:app", "add", "a=2")
    invoke("drain", "app:app")
    enabled = invoke("tasks", "enable", "add", "--json")

    assert (disabled.exit_code, disabled.stdout) == (0, "add  disabled\n")
    assert (refused.exit_code, refused.stdout) == (5, "")
    assert refused.stderr.splitlines() == [
        "laneway: refused: task add is disabled (task_disabled)",
        "  accept it again: laneway tasks enable add",
    ]
    assert json.loads(invoke("runs", "show", kept, "--json").stdout)["state"] == "succeeded"
    assert json.loads(enabled.stdout) == [{"v": 1, "task": "add", "disabled": False}]
    assert submitted("add", "a=3")


def test_a_paused_task_holds_its_runs_and_no_others(invoke: Invoke, submitted: Submitted) -> None:
    held, free = submitted("add", "a=1"), submitted("anything", "value=1")

    invoke("tasks", "pause", "add")
    invoke("drain", "app:app")
    states = [json.loads(invoke("runs", "show", run_id, "--json").stdout)["state"] for run_id in (held, free)]
    invoke("tasks", "resume", "add")
    invoke("drain", "app:app")

    assert states == ["pending", "succeeded"]
    assert json.loads(invoke("runs", "show", held, "--json").stdout)["state"] == "succeeded"


def test_an_app_s_list_tells_what_is_paused_and_disabled(invoke: Invoke, submitted: Submitted) -> None:
    submitted("add", "a=1")
    invoke("tasks", "pause", "add")
    invoke("tasks", "disable", "add", "fail")

    header, *lines = invoke("tasks", "list", "app:app").stdout.splitlines()
    records = {one["name"]: one for one in json.loads(invoke("tasks", "list", "app:app", "--json").stdout)}

    place = header.split().index("STATE")
    states = {line.split()[0]: line.split()[place] for line in lines}
    assert (states["add"], states["fail"], states["summarize"]) == ("paused,disabled", "disabled", "-")
    assert (records["add"]["paused"], records["add"]["disabled"], records["add"]["workers"]) == (True, True, 0)


def test_listing_an_app_makes_no_store(invoke: Invoke, folder: Path) -> None:
    [first, *_] = json.loads(invoke("tasks", "list", "app:app", "--json").stdout)

    assert (first["paused"], first["disabled"], first["workers"]) == (None, None, None)
    assert not (folder / "laneway.db").exists()


def test_a_store_tells_what_its_workers_know(invoke: Invoke, start: Start, submitted: Submitted) -> None:
    submitted("add", "a=1")
    start()
    invoke("tasks", "pause", "mail")

    header, *lines = invoke("tasks", "list", "--store", "sqlite:///laneway.db").stdout.splitlines()
    records = json.loads(invoke("tasks", "list", "--store", "sqlite:///laneway.db", "--json").stdout)

    assert header.split() == ["NAME", "STATE", "WORKERS", "ASIDE"]
    assert ["mail", "paused", "0", "0"] in [line.split() for line in lines]
    assert ["add", "-", "1", "0"] in [line.split() for line in lines]
    record = {"v": 1, "name": "add", "paused": False, "disabled": False, "workers": 1, "aside": 0, "circuits": []}
    assert record in records


def test_a_task_that_no_worker_knows_is_paused_and_doubted(invoke: Invoke, start: Start, submitted: Submitted) -> None:
    submitted("add", "a=1")
    start()

    typo, known = invoke("tasks", "pause", "sumarize"), invoke("tasks", "pause", "summarize")

    assert (typo.exit_code, typo.stdout) == (0, "sumarize  paused\n")
    assert typo.stderr == "no worker that is up knows task 'sumarize', did you mean 'summarize'?\n"
    assert (known.stdout, known.stderr) == ("summarize  paused\n", "")


def test_app_or_store_must_be_given_and_not_both(invoke: Invoke, submitted: Submitted) -> None:
    submitted("add", "a=1")

    neither = invoke("tasks", "list")
    both = invoke("tasks", "list", "app:app", "--store", "sqlite:///laneway.db")
    none = invoke("tasks", "list", "--store", "sqlite:///laneway.db")

    assert (neither.exit_code, both.exit_code) == (2, 2)
    assert neither.stderr.startswith("laneway: give APP, such as app:app, or --store URL")
    assert both.stderr.startswith("laneway: give APP or --store, not both")
    assert (none.exit_code, none.stdout) == (0, "")
    assert none.stderr == "no tasks: no worker is up, and none is paused or disabled\n"


BREAKING = """
from laneway import Breaker, Scheduler

app = Scheduler("sqlite:///laneway.db")

@app.task(retry=None, breaker=Breaker(2, open_for=600))
async def knock() -> None:
    raise ConnectionError("nobody opens")

@app.task(retry=None, breaker=Breaker(1, open_for=600, per="user"))
async def ring(name: str) -> None:
    raise ConnectionError("nobody hears")
"""


@pytest.fixture
def broken(invoke: Invoke, folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """An app whose breakers are open: the ids of runs that wait, of task `knock`, and of `ring` and its user Ann."""
    (folder / "breaking.py").write_text(BREAKING)
    monkeypatch.delitem(sys.modules, "breaking", raising=False)  # the app of another test's folder
    for _ in range(3):
        invoke("submit", "breaking:app", "knock")
    for user in ("ann", "ann", "bob"):
        invoke("submit", "breaking:app", "ring", "name=x", "--user", user)
    invoke("drain", "breaking:app", "--concurrency", "1")
    runs = json.loads(invoke("runs", "list", "--state", "pending", "--json").stdout)
    return [next(run["id"] for run in runs if run["task"] == task) for task in ("knock", "ring")]


def test_a_list_shows_which_breakers_are_open(invoke: Invoke, broken: list[str]) -> None:
    header, *lines = invoke("tasks", "list", "breaking:app").stdout.splitlines()
    stored = invoke("tasks", "list", "--store", "sqlite:///laneway.db").stdout.splitlines()
    records = {one["name"]: one for one in json.loads(invoke("tasks", "list", "breaking:app", "--json").stdout)}

    assert "BREAKER" in header.split()
    assert [("open for 2 users" in line, " open " in line) for line in lines] == [(False, True), (True, True)]
    assert "BREAKER" in stored[0].split()
    assert records["knock"]["breaker"] == {"failures": 2, "open_for": 600.0, "disable": False, "per": "task"}
    [circuit] = records["knock"]["circuits"]
    assert (circuit["user"], circuit["phase"], circuit["failures"], circuit["parked"]) == (None, "open", 2, 1)
    assert [(one["user"], one["phase"]) for one in records["ring"]["circuits"]] == [("ann", "open"), ("bob", "open")]


def test_why_says_how_a_breaker_is_closed_and_that_closes_it(invoke: Invoke, broken: list[str]) -> None:
    knock, ring = broken

    told = [line for line in invoke("why", knock).stdout.splitlines() if "breaker" in line]
    of_ann = [line for line in invoke("why", ring).stdout.splitlines() if "breaker" in line]
    closed = invoke("tasks", "close", "knock")
    other = invoke("tasks", "close", "ring", "--user", "ann", "--json")
    again = invoke("tasks", "close", "knock")

    assert told[0].startswith("  the breaker of task knock is open; it tries one run at ")
    assert told[0].endswith("; close it now: laneway tasks close knock")
    assert of_ann[0].endswith("; close it now: laneway tasks close ring --user ann")
    assert (closed.exit_code, closed.stdout) == (0, "knock  closed\n")
    assert json.loads(other.stdout) == {"v": 1, "task": "ring", "user": "ann", "closed": True}
    assert (again.exit_code, again.stdout, again.stderr) == (0, "", "task knock has no breaker that is open\n")
    for run_id in broken:
        gates = [one["gate"] for one in json.loads(invoke("why", run_id, "--json").stdout)["reasons"]]
        assert gates == ["no_worker"]


def test_a_job_says_that_the_breaker_of_its_task_is_open(invoke: Invoke, broken: list[str]) -> None:
    invoke("jobs", "add", "one", "every 1h", "knock")
    invoke("jobs", "add", "two", "every 1h", "ring", "--args", '{"name": "x"}', "--owner", "ann")
    invoke("jobs", "add", "three", "every 1h", "ring", "--args", '{"name": "x"}', "--owner", "cid")

    one, two, three = (json.loads(invoke("jobs", "show", name, "--json").stdout) for name in ("one", "two", "three"))

    assert one["why_not"][0].endswith("knock is open: its runs wait; close it: laneway tasks close knock")
    assert two["why_not"][0].endswith("close it: laneway tasks close ring --user ann")
    assert three["why_not"] == ["no worker is up: nobody fires it"]
