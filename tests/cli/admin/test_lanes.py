"""`laneway lanes`: what is seen and set of them, for all processes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from laneway.cli.admin.lanes import LANE
from laneway.cli.shell import view
from laneway.core.records.policy import Lane, WhenFull
from laneway.ports.lanes import LaneState
from tests.cli.conftest import Invoke, Laneway

Submitted = Callable[..., str]


@pytest.fixture(autouse=True)
def store(submitted: Submitted) -> str:
    """A store that is there, with one pending run in `main`."""
    return submitted("add", "a=1")


def lane(invoke: Invoke, name: str) -> dict[str, Any]:
    record: dict[str, Any] = json.loads(invoke("lanes", "show", name, "--json").stdout)
    return record


def test_the_list_has_one_word_in_each_column_and_only_limits_that_are_there(invoke: Invoke) -> None:
    header, *lines = invoke("lanes", "list").stdout.splitlines()

    assert header.split() == ["NAME", "LIMIT", "PER_USER", "ACTIVE", "READY", "PENDING", "STATE", "BY"]
    assert [line.split()[0] for line in lines] == sorted(line.split()[0] for line in lines)
    assert next(line.split() for line in lines if line.startswith("main")) == [
        *("main", "30", "-", "0", "1", "1", "open", "declared")
    ]


def test_on_a_narrow_terminal_no_name_and_no_number_is_cut(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(view, "is_terminal", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")
    lane = Lane("a-lane-of-intake", limit=30, per_user=2, max_pending=1_000_000, when_full=WhenFull.DROP_OLD)

    LANE.show_all([LaneState(lane, active=30, ready=12, pending=100_000)])

    *_, head, line = capsys.readouterr().out.splitlines()
    assert line.split() == [
        "a-lane-of-intake",
        "30",
        "2",
        "1000000",
        "drop_old",
        "30",
        "12",
        "100000",
        "open",
        "declared",
    ]
    assert head.split() == ["name", "limit", "user", "pending", "full", "active", "ready", "pending", "state", "by"]


def test_the_list_as_json_has_everything(invoke: Invoke) -> None:
    records = {record["name"]: record for record in json.loads(invoke("lanes", "list", "--json").stdout)}

    limits = {"limit": 30, "per_user": None, "worker_limit": None, "max_pending": None, "when_full": "wait"}
    state = {"active": 0, "ready": 1, "pending": 1, "paused": False, "by": "declared", "counts": {}}
    assert records["main"] == {"v": 1, "name": "main", **limits, **state, "declared": limits}
    assert records["foreground"]["per_user"] == 2


def test_setting_says_what_it_was_and_what_it_is(invoke: Invoke) -> None:
    first = invoke("lanes", "set", "main", "--limit", "40", "--per-user", "4")
    same = invoke("lanes", "set", "main", "--limit", "40")
    back = json.loads(invoke("lanes", "set", "main", "--per-user", "none", "--json").stdout)

    assert (first.exit_code, first.stdout) == (0, "main  limit 30 -> 40, per_user none -> 4\n")
    assert same.stdout == "main  as it was: limit 40, per_user 4, when_full wait\n"
    assert (back["lane"], back["was"]["per_user"], back["is"]["per_user"], back["is"]["limit"]) == ("main", 4, None, 40)


def test_what_is_set_is_told_apart_from_what_is_declared_until_it_is_unset(invoke: Invoke) -> None:
    invoke("lanes", "set", "main", "--limit", "40", "--max-pending", "9", "--when-full", "refuse")
    set_, shown = lane(invoke, "main"), invoke("lanes", "show", "main").stdout
    header = invoke("lanes", "list").stdout.splitlines()[0].split()
    unset = invoke("lanes", "unset", "main")

    assert (set_["by"], set_["limit"], set_["declared"]["limit"]) == ("set", 40, 30)
    assert header[:5] == ["NAME", "LIMIT", "PER_USER", "MAX_PENDING", "WHEN_FULL"]
    assert "limit 40, max_pending 9, when_full refuse (set; declared: limit 30)" in shown
    assert "1 of 9" in shown
    assert unset.stdout == "main  limit 40 -> 30, max_pending 9 -> none, when_full refuse -> wait\n"
    assert lane(invoke, "main")["by"] == "declared"


def test_looking_declares_nothing(
    invoke: Invoke, laneway: Laneway, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LANEWAY_LANE_MAIN", "3")
    (folder / "laneway.toml").write_text("[lanes.team]\nlimit = 7\n", encoding="utf-8")
    looked = [lane(invoke, name)["limit"] for name in ("main", "team")]
    laneway("submit", "app:app", "add", "a=1")
    declared = [lane(invoke, name)["limit"] for name in ("main", "team")]

    assert (looked, declared) == ([30, 100], [3, 7])


def test_a_lane_is_made_only_when_that_is_wanted(invoke: Invoke, submitted: Submitted) -> None:
    missing = invoke("lanes", "set", "mian", "--limit", "5")
    made = invoke("lanes", "set", "intake", "--create", "--limit", "5", "--worker-limit", "2")
    submitted("add", "a=1", "--lane", "intake")

    assert missing.exit_code == 3
    assert missing.stderr.splitlines() == [
        "laneway: unknown lane 'mian', did you mean 'main'?",
        "  --create creates it",
    ]
    assert made.stdout == "intake  new: limit 5, worker_limit 2, when_full wait\n"
    assert lane(invoke, "intake")["pending"] == 1


def test_a_paused_lane_holds_its_runs_until_it_is_resumed(invoke: Invoke, store: str) -> None:
    paused = invoke("lanes", "pause", "main", "team")
    invoke("drain", "app:app")
    held = json.loads(invoke("runs", "show", store, "--json").stdout)["state"]
    resumed = invoke("lanes", "resume", "main", "--json")
    invoke("drain", "app:app")

    assert (paused.exit_code, paused.stdout) == (0, "main  paused\nteam  paused\n")
    assert held == "pending"
    assert json.loads(resumed.stdout) == [{"v": 1, "lane": "main", "paused": False}]
    assert json.loads(invoke("runs", "show", store, "--json").stdout)["state"] == "succeeded"
    assert "team  paused" in invoke("lanes", "show", "team").stdout


def test_one_unknown_lane_does_not_keep_the_others_from_being_paused(invoke: Invoke) -> None:
    result = invoke("lanes", "pause", "mian", "main", "--json")

    assert (result.exit_code, result.stderr) == (3, "laneway: unknown lane 'mian', did you mean 'main'?\n")
    assert json.loads(result.stdout) == [
        {"v": 1, "lane": "mian", "error": "unknown lane 'mian', did you mean 'main'?"},
        {"v": 1, "lane": "main", "paused": True},
    ]


def test_what_was_refused_is_counted(invoke: Invoke) -> None:
    invoke("lanes", "set", "main", "--max-pending", "1", "--when-full", "refuse")
    invoke("submit", "app:app", "add", "a=2")

    assert lane(invoke, "main")["counts"] == {"refused lane_full": 1}
    assert "refused     1 (lane_full)" in invoke("lanes", "show", "main").stdout


@pytest.mark.parametrize("verb", ["show", "unset", "pause", "resume"])
def test_an_unknown_lane_is_not_found(invoke: Invoke, verb: str) -> None:
    result = invoke("lanes", verb, "mian")

    assert (result.exit_code, result.stderr) == (3, "laneway: unknown lane 'mian', did you mean 'main'?\n")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--limit", "0"], "invalid value for '--limit': '0'; write a whole number, 1 or more\n"),
        (["--limit", "many"], "invalid value for '--limit': 'many'; write a whole number"),
        (["--limit", "none"], "invalid value for '--limit': 'none'; write a whole number"),
        (["--per-user", "0"], "invalid value for '--per-user': '0'; write a whole number, 1 or more, or none\n"),
        (["--per-user", "-1"], "invalid value for '--per-user': '-1'; write"),
        (["--max-pending", "1.5"], "invalid value for '--max-pending': '1.5'; write"),
        (["--when-full", "cry"], "invalid value for '--when-full': 'cry' is not one of 'wait', 'refuse', 'drop_old'"),
        ([], "nothing to set; give --limit,"),
    ],
)
def test_a_bad_limit_is_wrong_use_and_changes_nothing(invoke: Invoke, words: list[str], said: str) -> None:
    result = invoke("lanes", "set", "main", *words)

    assert result.exit_code == 2
    assert result.stderr.startswith(f"laneway: {said}")
    assert lane(invoke, "main")["by"] == "declared"
