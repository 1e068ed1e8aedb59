"""`laneway submit`: the id on stdout and nothing else; values as the task's parameters want them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Invoke


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
        (["app:app", "summarize", "doc"], 2, "'doc' is no argument; write name=value"),
        (["app:app", "add", "a=one"], 2, "add, argument 'a': expected int, got str"),
        (["app:app", "add", "--args", "{a: 1}"], 2, "--args is not JSON"),
        (["app:app", "add", "--args", "[1]"], 2, "--args must be a JSON object"),
        (["app:app", "add", "a=1", "--priority", "101"], 2, "priority is 101"),
        (["app:app", "add", "a=1", "--delay", "soon"], 2, "'soon' is no duration; write seconds, or units"),
        (["app:app", "add", "a=1", "--at", "noon"], 2, "'noon' is no instant; write it as 2031-05-01T09:30"),
        (["app:app", "add", "a=1", "--at", "2031-05-01T09:30Z", "--delay", "5"], 2, "give delay or at, not both"),
        (["app:app", "add", "a=1", "--timeout", "5"], 2, "--timeout is for --wait"),
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


def test_an_unknown_lane_and_a_place_in_the_session_are_said(invoke: Invoke) -> None:
    first = invoke("submit", "app:app", "add", "a=1", "--lane", "express")
    invoke("submit", "app:app", "add", "a=1", "--session", "s")
    second = invoke("submit", "app:app", "add", "a=1", "--session", "s")

    assert first.stderr.splitlines()[0] == "accepted; there is no lane 'express', so it is in main"
    assert second.stderr.splitlines()[0] == "accepted; 1 ahead of it in its session"


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
