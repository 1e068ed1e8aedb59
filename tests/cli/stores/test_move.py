"""`laneway move`: what it says and what it ends with."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Invoke
from tests.cli.terminal import on_terminal

Submitted = Callable[..., str]
HERE, THERE = "sqlite:///laneway.db", "sqlite:///there.db"


@pytest.fixture
def runs(submitted: Submitted) -> list[str]:
    """The runs of a store: two that are pending."""
    return [submitted("add", f"a={n}") for n in range(2)]


def test_all_is_moved_and_the_old_address_says_where(folder: Path, invoke: Invoke, runs: list[str]) -> None:
    result = invoke("move", HERE, THERE)

    there = f"sqlite:///{folder / 'there.db'}"
    assert (result.exit_code, result.stdout) == (0, "")
    assert "copying: 2 runs" in result.stderr
    assert f"moved 2 runs, 7 lanes to {there}; both sides hold the same" in result.stderr
    for command in (("submit", "app:app", "add", "a=1"), ("worker", "app:app"), ("drain", "app:app")):
        refused = invoke(*command)
        assert refused.exit_code == 5
        assert f"laneway: this store has moved to {there}; use that address" in refused.stderr
    assert len(json.loads(invoke("runs", "list", "--store", THERE, "--json").stdout)) == len(runs)
    assert invoke("doctor", "--store", THERE).exit_code == 0
    assert invoke("runs", "show", runs[0]).exit_code == 0


def test_it_tells_programs_what_was_moved(folder: Path, invoke: Invoke, runs: list[str]) -> None:
    result = invoke("move", HERE, THERE, "--json")

    told = json.loads(result.stdout)
    assert (told["v"], told["moved"]["run"], told["to"]) == (1, len(runs), f"sqlite:///{folder / 'there.db'}")
    assert len(told["digest"]) == 64
    assert result.stderr == ""
    again = json.loads(invoke("move", HERE, THERE, "--json").stdout)
    assert again["digest"] == told["digest"]
    assert (told["before"], again["before"]) == (False, True)


def test_told_again_it_says_that_it_was_done_and_nothing_of_what_went_on_since(
    folder: Path, invoke: Invoke, runs: list[str]
) -> None:
    invoke("move", HERE, THERE)
    assert invoke("runs", "cancel", runs[0], "--store", THERE).exit_code == 0

    result = invoke("move", HERE, THERE)

    there = re.escape(f"sqlite:///{folder / 'there.db'}")
    said = rf"the move to {there}, begun 20[-\d]+T[:\d]+Z, is done: 2 runs, 7 lanes; there is nothing to do\n"
    assert (result.exit_code, result.stdout) == (0, "")
    assert re.fullmatch(said, result.stderr)
    states = [run["state"] for run in json.loads(invoke("runs", "list", "--store", THERE, "--json").stdout)]
    assert sorted(states) == ["cancelled", "pending"]


def test_on_a_terminal_a_bar_per_stage_shows_how_far_it_has_come(folder: Path, invoke: Invoke, runs: list[str]) -> None:
    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", on_terminal(folder, 400, "move", HERE, THERE))

    there = f"sqlite:///{folder / 'there.db'}"
    assert f"moving sqlite:///{folder / 'laneway.db'} to {there}; Ctrl-C stops here" in " ".join(shown.split())
    assert re.search(r"  copying +━+ 2/2 0:00:00", shown)
    assert re.search(r"  comparing both sides +━+ 4/4 0:00:00", shown)
    assert "copying: 2 runs" not in shown  # as it is said elsewhere
    assert f"moved 2 runs, 7 lanes to {there}; both sides hold the same" in " ".join(shown.split())


def test_what_is_not_empty_is_refused_unless_told(invoke: Invoke, runs: list[str]) -> None:
    invoke("move", HERE, THERE)

    refused = invoke("move", THERE, HERE)

    assert refused.exit_code == 5
    assert "laneway.db is not empty: it has 2 runs" in refused.stderr
    assert "--overwrite deletes" in refused.stderr
    assert invoke("move", THERE, HERE, "--overwrite").exit_code == 0
    assert invoke("submit", "app:app", "add", "a=1").exit_code == 0


def test_a_move_can_be_given_up_until_it_is_done(invoke: Invoke, runs: list[str]) -> None:
    nothing = invoke("move", HERE, THERE, "--abort")
    assert (nothing.exit_code, "is not being moved; there is nothing to give up" in nothing.stderr) == (5, True)

    invoke("move", HERE, THERE)
    late = invoke("move", HERE, THERE, "--abort")

    assert late.exit_code == 5
    assert "the move is done and" in late.stderr


@pytest.mark.parametrize(
    ("source", "target", "why"),
    [
        ("memory://", THERE, "memory:// lives inside one process"),
        (HERE, "memory://", "memory:// lives inside one process"),
        (HERE, HERE, "FROM and TO are the same store"),
        (HERE, "mysql://host", "mysql:// is not a store laneway knows"),
    ],
)
def test_what_cannot_be_moved_is_refused(invoke: Invoke, runs: list[str], source: str, target: str, why: str) -> None:
    result = invoke("move", source, target)

    assert result.exit_code == 2
    assert why in result.stderr
    assert result.stderr.count("\n") == 1


def test_a_source_that_is_not_there_is_not_made(folder: Path, invoke: Invoke) -> None:
    result = invoke("move", "sqlite:///nowhere.db", THERE)

    assert result.exit_code == 6
    assert not (folder / "nowhere.db").exists()
    assert not (folder / "there.db").exists()
