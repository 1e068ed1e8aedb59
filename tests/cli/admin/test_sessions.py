"""`laneway sessions`: what goes on in them, their rules, and stopping them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Invoke, Laneway, Start, running

Submitted = Callable[..., str]


def state(invoke: Invoke, run_id: str) -> str:
    return str(json.loads(invoke("runs", "show", run_id, "--json").stdout)["state"])


def show(invoke: Invoke, name: str) -> dict[str, Any]:
    record: dict[str, Any] = json.loads(invoke("sessions", "show", name, "--json").stdout)
    return record


@pytest.fixture
def queued(submitted: Submitted) -> list[str]:
    """Three messages of chat-7; nothing has started."""
    return [submitted("add", f"a={n}", "--session", "chat-7") for n in range(3)]


def test_idle_sessions_are_not_listed(invoke: Invoke, submitted: Submitted) -> None:
    submitted("add", "a=1")

    result = invoke("sessions", "list")

    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "no sessions: all are idle\n")


def test_the_list_is_by_name_narrowed_by_prefix_and_goes_on(invoke: Invoke, submitted: Submitted) -> None:
    for session in ("chat-2", "chat-1", "mail-1"):
        submitted("add", "a=1", "--session", session)

    header, line = invoke("sessions", "list", "--prefix", "mail").stdout.splitlines()
    first = invoke("sessions", "list", "--limit", "1", "--json")
    rest = invoke("sessions", "list", "--prefix", "chat", "--after", "chat-1", "--json")

    assert header.split() == [
        *("NAME", "ACTIVE", "QUEUED", "WINDOWS", "MAX_CONCURRENT", "CAP", "DROP", "STATE", "SET"),
    ]
    assert line.split() == ["mail-1", "0", "1", "0", "1", "10", "old", "open", "-"]
    assert [one["name"] for one in json.loads(first.stdout)] == ["chat-1"]
    assert first.stderr == "there are more; go on with --after 'chat-1'\n"
    assert [one["name"] for one in json.loads(rest.stdout)] == ["chat-2"]


def test_show_names_the_rule_and_the_runs_in_order(invoke: Invoke, submitted: Submitted, queued: list[str]) -> None:
    later = submitted("add", "a=9", "--session", "chat-7", "--delay", "1h")

    record, shown = show(invoke, "chat-7"), invoke("sessions", "show", "chat-7").stdout

    assert record["runs"] == {"active": [], "queued": queued, "later": [later], "called": []}
    assert (record["queued"], record["rule"]["cap"], record["set"]) == (3, 10, {})
    assert shown.startswith("chat-7  open\n")
    for text in ("max_concurrent 1, cap 10, drop old", f"queued      {queued[0]}  add, pending", "pending, due in "):
        assert text in shown


def test_an_idle_session_has_the_default_rule(invoke: Invoke, submitted: Submitted) -> None:
    submitted("add", "a=1")

    shown = invoke("sessions", "show", "nobody")

    assert (shown.exit_code, shown.stdout.splitlines()[0]) == (0, "nobody  idle")


def test_a_rule_is_set_and_taken_back(invoke: Invoke, queued: list[str]) -> None:
    first = invoke("sessions", "set", "chat-7", "--cap", "3", "--drop", "new", "--pass-on-retry")
    full = invoke("submit", "app:app", "add", "a=4", "--session", "chat-7")
    [listed] = json.loads(invoke("sessions", "list", "--json").stdout)
    back = invoke("sessions", "unset", "chat-7", "--json")

    assert (first.exit_code, first.stdout) == (
        *(0, "chat-7  cap 10 -> 3, drop old -> new, pass_on_retry false -> true\n"),
    )
    assert (full.exit_code, full.stdout) == (5, "")
    assert "session chat-7 has as many queued runs as it may have (session_full)" in full.stderr
    assert listed["set"] == {"cap": 3, "drop": "new", "pass_on_retry": True}
    record = json.loads(back.stdout)
    assert (record["was"]["cap"], record["is"]["cap"]) == (3, 10)


def test_a_load_throttles_and_says_so(invoke: Invoke, queued: list[str]) -> None:
    result = invoke("sessions", "set", "chat-7", "--load", "0.8")

    assert result.exit_code == 0
    assert result.stdout.endswith("one run at a time, because of its load\n")
    assert show(invoke, "chat-7")["throttled"] is True


def test_a_paused_session_holds_its_runs_until_it_is_resumed(invoke: Invoke, queued: list[str]) -> None:
    paused = invoke("sessions", "pause", "chat-7")
    invoke("drain", "app:app")
    held = {state(invoke, run_id) for run_id in queued}
    shown = show(invoke, "chat-7")["paused"]
    invoke("sessions", "resume", "chat-7")
    invoke("drain", "app:app")

    assert (paused.stdout, held, shown) == ("chat-7  paused\n", {"pending"}, True)
    assert {state(invoke, run_id) for run_id in queued} == {"succeeded"}


@pytest.mark.parametrize("verb", ["stop", "stop-all", "reset"])
def test_nothing_to_stop_is_said_and_fine(invoke: Invoke, submitted: Submitted, verb: str) -> None:
    submitted("add", "a=1")

    result = invoke("sessions", verb, "nobody")
    record = json.loads(invoke("sessions", verb, "nobody", "--json").stdout)

    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "session 'nobody' has nothing to stop\n")
    lists: dict[str, list[str]] = {"cancelled": [], "dropped": [], "stopping": []}
    assert record == {"v": 1, "session": "nobody", **lists, "dry_run": False}


@pytest.mark.parametrize(("verb", "reason"), [("stop-all", "stopped"), ("reset", "reset")])
def test_stopping_all_drops_what_waits_and_a_dry_run_only_says_so(
    invoke: Invoke, submitted: Submitted, queued: list[str], verb: str, reason: str
) -> None:
    later = submitted("add", "a=9", "--session", "chat-7", "--delay", "1h")

    dry = json.loads(invoke("sessions", verb, "chat-7", "--dry-run", "--json").stdout)
    said = invoke("sessions", verb, "chat-7", "--dry-run").stdout
    untouched = {state(invoke, run_id) for run_id in [*queued, later]}
    done = invoke("sessions", verb, "chat-7")

    assert (dry["cancelled"], dry["dropped"], dry["dry_run"]) == ([], [*queued, later], True)
    assert said.splitlines()[0] == f"{queued[0]}  would be dropped"
    assert untouched == {"pending"}
    assert sorted(done.stdout.splitlines()) == sorted(f"{run_id}  dropped" for run_id in [*queued, later])
    assert json.loads(invoke("runs", "show", later, "--json").stdout)["reason"] == reason


def test_stop_tells_a_running_handler_and_the_next_one_starts(
    laneway: Laneway, invoke: Invoke, start: Start, submitted: Submitted
) -> None:
    start()
    first = submitted("sleep", "--session", "chat-7")
    next_one = submitted("add", "a=1", "--session", "chat-7")
    running(invoke, first)

    stopped = laneway("sessions", "stop", "chat-7")

    assert (stopped.returncode, stopped.stdout.split()[0]) == (0, first)
    assert laneway("runs", "wait", next_one, "--timeout", "30").returncode == 0
    assert state(invoke, first) == "cancelled"


def test_reset_frees_the_session_although_its_handler_goes_on(
    laneway: Laneway, invoke: Invoke, start: Start, submitted: Submitted
) -> None:
    start()
    stuck = submitted("block", "--session", "chat-7")
    running(invoke, stuck)
    assert show(invoke, "chat-7")["runs"]["active"] == [stuck]

    reset = laneway("sessions", "reset", "chat-7", "--json")
    next_one = submitted("add", "a=1", "--session", "chat-7")

    record = json.loads(reset.stdout)
    assert (record["cancelled"], record["stopping"]) == ([stuck], [])
    assert laneway("runs", "wait", next_one, "--timeout", "30").returncode == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--cap", "0"], "invalid value for '--cap'"),
        (["--max-concurrent", "-1"], "invalid value for '--max-concurrent'"),
        (["--drop", "both"], "invalid value for '--drop'"),
        (["--load", "-0.1"], "invalid value for '--load'"),
        ([], "nothing to set; give --max-concurrent"),
    ],
)
def test_a_bad_rule_is_wrong_use(invoke: Invoke, submitted: Submitted, words: list[str], said: str) -> None:
    submitted("add", "a=1")

    result = invoke("sessions", "set", "chat-7", *words)

    assert result.exit_code == 2
    assert result.stderr.startswith(f"laneway: {said}")


def test_a_name_that_is_too_long_is_wrong_use(invoke: Invoke, submitted: Submitted) -> None:
    submitted("add", "a=1")

    for verb in ("stop", "pause"):
        result = invoke("sessions", verb, "x" * 201)
        assert result.exit_code == 2
        assert "a session needs a name: text of 1 to 200 characters" in result.stderr


def test_without_a_store_there_is_nothing_to_stop(invoke: Invoke, folder: Path) -> None:
    assert invoke("sessions", "stop-all", "chat-7", "--store", "sqlite:///none.db").exit_code == 6
    assert not (folder / "none.db").exists()
