"""`laneway submit`: the id on stdout and nothing else; values as the task's parameters want them."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from laneway.cli.admin.lanes import WHEN_FULL
from laneway.cli.runs.submit import MODES
from laneway.cli.shell.options import DROPS, WHILE_WAITING
from laneway.core.records.policy import Drop, Mode, WhenFull, WhileWaiting
from tests.cli.conftest import Invoke, Laneway, Start, running


def arguments_of(invoke: Invoke, run_id: str) -> object:
    return json.loads(invoke("runs", "show", run_id, "--json").stdout)["args"]


def test_it_prints_the_run_id_and_talks_on_stderr(invoke: Invoke) -> None:
    result = invoke("submit", "app:app", "summarize", "doc=42")

    run_id = result.stdout.removesuffix("\n")
    assert len(run_id) == 32
    assert result.stderr.splitlines() == ["accepted", f"follow it: laneway runs events {run_id} --follow"]


def test_json_gives_the_receipt(invoke: Invoke) -> None:
    result = invoke("submit", "app:app", "summarize", "doc=42", "--json")

    receipt = json.loads(result.stdout)
    assert (receipt["v"], receipt["outcome"], len(receipt["run_id"])) == (1, "accepted", 32)


@pytest.mark.parametrize(
    ("words", "args"),
    [
        (["summarize", "doc=42"], {"doc": "42"}),
        (["summarize", "doc=null"], {"doc": "null"}),
        (["summarize", "doc=a=b"], {"doc": "a=b"}),
        (["summarize", "doc="], {"doc": ""}),
        (["summarize", "doc=x", 'tags=["a", "b"]'], {"doc": "x", "tags": ["a", "b"]}),
        (["summarize", "--args", '{"doc": "x", "tags": []}', "doc=y"], {"doc": "y", "tags": []}),
        (["add", "a=42"], {"a": 42}),
        (["add", "a=1", "note=42"], {"a": 1, "note": "42"}),
        (["add", "a=1", "note=null"], {"a": 1, "note": None}),
        (["anything", "value=42"], {"value": 42}),
        (["anything", "value=forty-two"], {"value": "forty-two"}),
        (["anything", "value={"], {"value": "{"}),
    ],
)
def test_a_value_is_json_where_the_parameter_wants_it(
    invoke: Invoke, submitted: Callable[..., str], words: list[str], args: object
) -> None:
    assert arguments_of(invoke, submitted(*words)) == args


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["app:app", "sumarize"], 3, "unknown task 'sumarize', did you mean 'summarize'?"),
        (["app:app", "summarize"], 2, "summarize needs 'doc'"),
        (["app:app", "summarize", "dok=1"], 2, "summarize has no argument 'dok', did you mean 'doc'?"),
        (["app:app", "summarize", "doc"], 2, "'doc' is not an argument; write name=value"),
        (["app:app", "add", "a=1", "a=2"], 2, "argument 'a' is given twice, as a=1 and a=2; give it once\n"),
        (["app:app", "add", "a=1", "a=1"], 2, "argument 'a' is given twice, as a=1 and a=1; give it once\n"),
        (["app:app", "add", "a=1", "--trace", "x=1", "--trace", "x=2"], 2, "--trace gives 'x' twice; give it once\n"),
        (["app:app", "add", "a=one"], 2, "add, argument 'a': expected int, got str"),
        (["app:app", "add", "--args", "{a: 1}"], 2, "--args is not JSON"),
        (["app:app", "add", "--args", "[1]"], 2, "--args must be a JSON object"),
        (["app:app", "add", "a=1", "--priority", "101"], 2, "priority is 101"),
        (
            ["app:app", "add", "a=1", "--delay", "soon"],
            2,
            "invalid value for '--delay': 'soon' is not a duration; write seconds, or units",
        ),
        (
            ["app:app", "add", "a=1", "--at", "noon"],
            2,
            "invalid value for '--at': 'noon' is not an instant; write it as 2031-05-01T09:30",
        ),
        (["app:app", "add", "a=1", "--at", "2031-05-01T09:30Z", "--delay", "5"], 2, "give delay or at, not both"),
        (["app:app", "add", "a=1", "--timeout", "5"], 2, "--timeout needs --wait"),
        (["app:app", "add", "a=1", "--user", ""], 2, "a user needs a name"),
    ],
)
def test_a_mistake_is_explained_and_nothing_is_stored(invoke: Invoke, words: list[str], code: int, said: str) -> None:
    result = invoke("submit", *words)

    assert result.exit_code == code
    assert result.stderr.startswith(f"laneway: {said}")
    assert result.stdout == ""
    assert invoke("runs", "list").exit_code == 6 or invoke("runs", "list").stdout == ""


def test_the_options_reach_the_run(invoke: Invoke, submitted: Callable[..., str]) -> None:
    options = ("--user", "ann", "--session", "chat-7", "--priority", "5", "--lane", "team", "--delay", "1h30m")
    run_id = submitted("add", "a=1", *options)

    run = json.loads(invoke("runs", "show", run_id, "--json").stdout)
    assert [run[name] for name in ("user", "session", "priority", "lane")] == ["ann", "chat-7", 5, "team"]
    assert run["due_at"] > run["accepted_at"]


def test_an_instant_with_a_zone_is_that_instant(invoke: Invoke, submitted: Callable[..., str]) -> None:
    run_id = submitted("add", "a=1", "--at", "2031-05-01T09:30+02:00")

    assert json.loads(invoke("runs", "show", run_id, "--json").stdout)["due_at"] == "2031-05-01T07:30:00Z"


def test_an_instant_that_is_to_come_is_said_to_be_when_it_is_due(invoke: Invoke) -> None:
    result = invoke("submit", "app:app", "add", "a=1", "--at", "2131-05-01T09:30Z")

    assert result.stderr.splitlines()[0] == "accepted; due 2131-05-01 09:30:00 +0000"


def test_an_instant_that_is_past_is_said_to_be_past(invoke: Invoke) -> None:
    result = invoke("submit", "app:app", "add", "a=1", "--at", "2020-01-01T00:00Z")

    assert result.stderr.splitlines()[0] == "accepted; due at once: 2020-01-01 00:00:00 +0000 is past"
    run = json.loads(invoke("runs", "show", result.stdout.strip(), "--json").stdout)
    assert run["due_at"] == run["accepted_at"]


def test_of_a_run_that_exists_already_no_other_instant_is_said(invoke: Invoke, submitted: Callable[..., str]) -> None:
    run_id = submitted("add", "a=1", "--key", "k", "--at", "2131-05-01T09:30Z")

    result = invoke("submit", "app:app", "add", "a=1", "--key", "k", "--at", "2131-06-01T09:30Z")

    said = f"existing: an earlier submission of this key made run {run_id}, which is pending"
    assert result.stderr.splitlines()[0] == said


def test_an_unknown_lane_and_a_place_in_the_session_are_said(invoke: Invoke) -> None:
    first = invoke("submit", "app:app", "add", "a=1", "--lane", "express")
    invoke("submit", "app:app", "add", "a=1", "--session", "s")
    second = invoke("submit", "app:app", "add", "a=1", "--session", "s")

    assert first.stderr.splitlines()[0] == "accepted; there is no lane 'express', so it is in main"
    assert second.stderr.splitlines()[0] == "accepted; 1 ahead of it in its session"


def test_what_is_pending_in_the_lane_is_not_called_ahead(invoke: Invoke, submitted: Callable[..., str]) -> None:
    submitted("add", "a=1", "--delay", "1h")

    result = invoke("submit", "app:app", "add", "a=2")

    assert result.stderr.splitlines()[0] == "accepted; 1 pending in its lane before it"


def test_a_task_of_a_lane_that_does_not_exist_is_accepted_in_main(invoke: Invoke, folder: Path) -> None:
    source = (folder / "app.py").read_text(encoding="utf-8")
    (folder / "app.py").write_text(f'{source}\n@app.task(lane="fast")\nasync def lost(): ...\n', encoding="utf-8")

    result = invoke("submit", "app:app", "lost")

    assert (result.exit_code, len(result.stdout.split())) == (0, 1), result.stderr
    assert result.stderr.startswith("accepted; there is no lane 'fast', so it is in main\n")


def test_the_way_to_follow_names_the_store_unless_it_is_the_default(
    invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    default = invoke("submit", "app:app", "add", "a=1")
    monkeypatch.setenv("LANEWAY_STORE", "sqlite:///elsewhere.db")
    other = invoke("submit", "app:app", "add", "a=1")

    assert default.stderr.endswith("--follow\n")
    assert other.stderr.endswith("--follow --store sqlite:///laneway.db\n")


def test_submitting_to_memory_is_refused(invoke: Invoke, folder: Path) -> None:
    source = (folder / "app.py").read_text(encoding="utf-8")
    (folder / "app.py").write_text(source.replace("sqlite:///laneway.db", "memory://"), encoding="utf-8")

    result = invoke("submit", "app:app", "add", "a=1")

    assert result.exit_code == 2
    assert "memory://, which ends with this command" in result.stderr


def test_waiting_too_long_exits_with_7_and_the_run_goes_on(invoke: Invoke) -> None:
    result = invoke("submit", "app:app", "add", "a=1", "--wait", "--timeout", "10ms")

    said = result.stderr.splitlines()
    assert result.exit_code == 7
    assert said[0].startswith("accepted as ")
    assert said[1] == "no worker is running yet; start one with: laneway worker APP"
    assert said[2].endswith("has not ended after 10 ms")
    assert said[3].startswith("  it goes on; wait again with: laneway runs wait ")
    assert json.loads(invoke("runs", "list", "--json").stdout)[0]["state"] == "pending"


def test_the_same_key_gets_the_run_that_it_made(invoke: Invoke, submitted: Callable[..., str]) -> None:
    first = submitted("add", "a=1", "--key", "order-1")

    again = invoke("submit", "app:app", "add", "a=1", "--key", "order-1")
    invoke("runs", "cancel", first)
    ended = invoke("submit", "app:app", "add", "a=1", "--key", "order-1")

    said = f"existing: an earlier submission of this key made run {first}, which"
    assert (again.exit_code, again.stdout, again.stderr.splitlines()[0]) == (0, f"{first}\n", f"{said} is pending")
    assert (ended.exit_code, ended.stderr.splitlines()[0]) == (0, f"{said} was cancelled")


def test_a_key_used_with_other_arguments_is_a_conflict(invoke: Invoke, submitted: Callable[..., str]) -> None:
    first = submitted("add", "a=1", "--key", "order-1")

    other = invoke("submit", "app:app", "add", "a=2", "--key", "order-1")
    as_json = invoke("submit", "app:app", "add", "a=2", "--key", "order-1", "--json")

    assert (other.exit_code, other.stdout) == (5, "")
    assert other.stderr == f"laneway: key 'order-1' was used with other arguments, by run {first}; use another key\n"
    assert (as_json.exit_code, as_json.stderr) == (5, other.stderr)
    receipt = json.loads(as_json.stdout)
    assert (receipt["outcome"], receipt["reason"], receipt["run_id"]) == ("refused", "key_conflict", first)


def test_a_message_of_a_busy_session_is_refused_if_it_says_so(invoke: Invoke, submitted: Callable[..., str]) -> None:
    submitted("add", "a=1", "--session", "chat-7")

    refused = invoke("submit", "app:app", "add", "a=2", "--session", "chat-7", "--mode", "reject")
    receipt = invoke("submit", "app:app", "add", "a=2", "--session", "chat-7", "--mode", "reject", "--json", "--wait")

    assert (refused.exit_code, refused.stdout) == (5, "")
    assert refused.stderr.splitlines() == [
        "laneway: refused: session chat-7 is busy (session_busy)",
        "  see what goes on in it: laneway sessions show chat-7",
    ]
    assert receipt.exit_code == 5
    assert json.loads(receipt.stdout)["reason"] == "session_busy"


@pytest.fixture
def full(invoke: Invoke, submitted: Callable[..., str]) -> None:
    """Lane main has one pending run, and may have no more."""
    submitted("add", "a=1")
    invoke("lanes", "set", "main", "--max-pending", "1")


@pytest.mark.usefixtures("full")
def test_waiting_for_a_full_lane_is_said_and_the_refusal_names_it(laneway: Laneway, folder: Path) -> None:
    source = (folder / "app.py").read_text(encoding="utf-8")
    source = source.replace('"sqlite:///laneway.db"', '"sqlite:///laneway.db", submit_timeout=1')
    (folder / "app.py").write_text(source, encoding="utf-8")

    result = laneway("submit", "app:app", "add", "a=2")

    assert (result.returncode, result.stdout) == (5, "")
    assert result.stderr.splitlines() == [
        "lane main is full (1 of 1 pending); waiting up to 1.0 s for room, nothing is submitted before",
        "laneway: refused: lane main has as many pending runs as it may have (lane_full)",
        "  see how full it is: laneway lanes show main",
    ]


@pytest.mark.usefixtures("full")
def test_ctrl_c_gives_up_waiting_for_a_full_lane(invoke: Invoke, folder: Path) -> None:
    command = [sys.executable, "-m", "laneway", "submit", "app:app", "add", "a=2"]
    waiting = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert waiting.stderr is not None
    assert waiting.stderr.readline().startswith("lane main is full")

    waiting.send_signal(signal.SIGINT)

    out, _ = waiting.communicate(timeout=20)
    assert (waiting.returncode, out) == (130, "")
    assert len(json.loads(invoke("runs", "list", "--json").stdout)) == 1


def test_messages_inside_the_window_are_merged_and_the_run_names_them(
    invoke: Invoke, submitted: Callable[..., str]
) -> None:
    policy = ("--session", "chat-7", "--debounce", "1h", "--max-wait", "2h")
    first = submitted("summarize", "doc=1", *policy)

    second = invoke("submit", "app:app", "summarize", "doc=2", *policy)
    shown = invoke("runs", "show", first).stdout
    run = json.loads(invoke("runs", "show", first, "--json").stdout)

    assert (second.exit_code, second.stdout) == (0, f"{first}\n")
    assert second.stderr.splitlines()[0] == f"merged into run {first}, which has not started yet"
    assert [(one["kind"], one["args"]) for one in run["taken"]] == [("merged", {"doc": "2"})]
    assert f'  merged   {run["taken"][0]["id"]}  {{"doc":"2"}}' in shown
    assert "became part of its arguments" in invoke("runs", "events", first).stdout


def test_a_message_can_be_steered_into_the_active_run(
    invoke: Invoke, start: Start, submitted: Callable[..., str]
) -> None:
    start()
    active = submitted("sleep", "--session", "chat-7")
    running(invoke, active)

    steered = invoke("submit", "app:app", "sleep", "seconds=1", "--session", "chat-7", "--mode", "steer")
    [taken] = json.loads(invoke("runs", "show", active, "--json").stdout)["taken"]

    assert (steered.exit_code, steered.stdout) == (0, f"{active}\n")
    assert steered.stderr.splitlines()[0] == f"steered: run {active} finds it in its inbox"
    assert (taken["kind"], taken["args"]) == ("steered", {"seconds": 1})


def test_a_session_s_rule_comes_with_its_messages(invoke: Invoke, submitted: Callable[..., str]) -> None:
    submitted("add", "a=1", "--session", "s", "--cap", "1", "--drop", "new", "--max-concurrent", "2")
    full = invoke("submit", "app:app", "add", "a=2", "--session", "s")

    assert full.exit_code == 5
    assert full.stderr.splitlines() == [
        "laneway: refused: session s has as many queued runs as it may have (session_full)",
        "  see its rule and its queue: laneway sessions show s",
    ]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--mode", "interrupt"], "--mode needs --session KEY"),
        (["--max-concurrent", "2"], "--max-concurrent needs --session"),
        (["--session", "s", "--max-wait", "5s"], "--max-wait needs --debounce"),
        (["--session", "s", "--debounce", "5s", "--max-wait", "1s"], "max_wait is 1.0, less than the debounce of 5.0"),
        (["--session", "s", "--debounce", "-1"], "invalid value for '--debounce': '-1' is not a duration"),
        (["--session", "s", "--mode", "interupt"], "invalid value for '--mode'"),
        (["--session", "s", "--cap", "0"], "invalid value for '--cap'"),
        (["--session", "s", "--mode", "steer", "--delay", "5"], "a message for later can only wait its turn"),
        (["--session", "x" * 201], "a session needs a name: text of 1 to 200 characters"),
        (["--key", ""], "a key needs a name"),
    ],
)
def test_a_mistake_about_the_session_is_wrong_use(invoke: Invoke, words: list[str], said: str) -> None:
    result = invoke("submit", "app:app", "add", "a=1", *words)

    assert result.exit_code == 2
    assert result.stderr.startswith(f"laneway: {said}")


def test_the_choices_are_those_of_the_policies() -> None:
    assert list(MODES) == [mode.value for mode in Mode]
    assert list(DROPS) == [drop.value for drop in Drop]
    assert list(WHEN_FULL) == [choice.value for choice in WhenFull]
    assert list(WHILE_WAITING) == [choice.value for choice in WhileWaiting]
