"""`laneway users`: who has how much in which lane, caps and pauses."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.cli.conftest import Invoke

Submitted = Callable[..., str]


@pytest.fixture(autouse=True)
def runs(submitted: Submitted) -> list[str]:
    """Two runs of ann, in two lanes, and one of bob."""
    return [
        submitted("add", "a=1", "--user", "ann"),
        submitted("add", "a=1", "--user", "ann", "--lane", "foreground"),
        submitted("add", "a=1", "--user", "bob"),
    ]


def test_the_list_has_a_line_for_each_user_and_lane(invoke: Invoke) -> None:
    header, *lines = invoke("users", "list").stdout.splitlines()

    assert header.split() == ["USER", "LANE", "ACTIVE", "WAITING", "CAP", "BY", "STATE"]
    assert [line.split() for line in lines] == [
        ["ann", "foreground", "0", "1", "2", "lane", "open"],
        ["ann", "main", "0", "1", "-", "-", "open"],
        ["bob", "main", "0", "1", "-", "-", "open"],
    ]


def test_the_list_goes_on_from_where_it_ended(invoke: Invoke) -> None:
    first = invoke("users", "list", "--limit", "1", "--json")
    rest = invoke("users", "list", "--after", "ann", "foreground", "--json")

    assert first.stderr == "there are more; go on with --after 'ann' 'foreground'\n"
    assert [(one["user"], one["lane"]) for result in (first, rest) for one in json.loads(result.stdout)] == [
        ("ann", "foreground"),
        ("ann", "main"),
        ("bob", "main"),
    ]


def test_a_cap_is_set_and_taken_back(invoke: Invoke) -> None:
    first = invoke("users", "set", "ann", "--cap", "5")
    [_, main] = json.loads(invoke("users", "show", "ann", "--json").stdout)
    back = invoke("users", "set", "ann", "--lane", "main", "--cap", "none", "--json")

    assert (first.exit_code, first.stdout) == (0, "ann  lane main: cap none -> 5\n")
    assert (main["lane"], main["cap"], main["per_user"]) == ("main", 5, None)
    assert json.loads(back.stdout) == {"v": 1, "user": "ann", "lane": "main", "was": {"cap": 5}, "is": {"cap": None}}


def test_a_paused_user_is_held_in_every_lane(invoke: Invoke, runs: list[str]) -> None:
    paused = invoke("users", "pause", "ann")
    invoke("drain", "app:app")
    states = [json.loads(invoke("runs", "show", run_id, "--json").stdout)["state"] for run_id in runs]
    shown = invoke("users", "show", "ann").stdout.splitlines()[1:]
    invoke("users", "resume", "ann")
    invoke("drain", "app:app")

    assert paused.stdout == "ann  paused\n"
    assert states == ["pending", "pending", "succeeded"]
    assert [line.split()[-1] for line in shown] == ["paused", "paused"]
    assert json.loads(invoke("runs", "list", "--state", "pending", "--json").stdout) == []


def test_a_user_who_has_nothing_is_said_to(invoke: Invoke) -> None:
    result = invoke("users", "show", "zoe")

    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == "user 'zoe' has no runs that wait or run, and nothing is set\n"


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["ann", "--lane", "mian", "--cap", "1"], 3, "unknown lane 'mian', did you mean 'main'?"),
        (["ann", "--cap", "0"], 2, "invalid value for '--cap': '0'; write a whole number, 1 or more, or none"),
        (["ann"], 2, "missing option '--cap'"),
        (["", "--cap", "1"], 2, "a user needs a name"),
    ],
)
def test_a_mistake_is_explained(invoke: Invoke, words: list[str], code: int, said: str) -> None:
    result = invoke("users", "set", *words)

    assert result.exit_code == code
    assert result.stderr.startswith(f"laneway: {said}")
