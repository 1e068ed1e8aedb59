"""`laneway tasks`: pausing and disabling for all processes, and what a store knows of tasks."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

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
    assert {"v": 1, "name": "add", "paused": False, "disabled": False, "workers": 1, "aside": 0} in records


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
    assert neither.stderr.startswith("laneway: which tasks? give APP, such as app:app, or --store URL")
    assert both.stderr.startswith("laneway: give APP or --store, not both")
    assert (none.exit_code, none.stdout) == (0, "")
    assert none.stderr == "no tasks: no worker is up, and none is paused or disabled\n"
