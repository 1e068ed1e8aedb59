"""`laneway preview` shows when a schedule fires, marks the strange days, and needs no store."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Invoke, Laneway
from tests.cli.shell.test_completion import completed

HELP_WITHIN = 0.15  # seconds


def test_the_next_fires_are_shown_on_the_wall_and_in_utc(invoke: Invoke) -> None:
    shown = invoke("preview", "0 9 * * 1-5", "--tz", "Europe/Berlin", "-n", "3", "--after", "2026-11-13T12:00")

    assert shown.exit_code == 0
    assert shown.stderr == "at 09:00 on Monday to Friday (Europe/Berlin)\n"
    assert shown.stdout.splitlines() == [
        "LOCAL                    ZONE  UTC                   CLOCK",
        "Mon 2026-11-16 09:00:00  CET   2026-11-16T08:00:00Z  -",
        "Tue 2026-11-17 09:00:00  CET   2026-11-17T08:00:00Z  -",
        "Wed 2026-11-18 09:00:00  CET   2026-11-18T08:00:00Z  -",
    ]


def test_ten_are_shown_without_a_number_and_all_are_still_to_come(invoke: Invoke) -> None:
    fires = json.loads(invoke("preview", "@daily", "--json").stdout)["fires"]

    assert len(fires) == 10
    assert [fire["at"] for fire in fires] == sorted({fire["at"] for fire in fires})


def test_gap_and_fold_days_are_marked_with_a_sentence(invoke: Invoke) -> None:
    where = ("--tz", "America/New_York", "-n", "2")

    gap = invoke("preview", "daily", "02:30", *where, "--after", "2026-03-07T12:00").stdout.splitlines()
    fold = invoke("preview", "30 1 * * *", *where, "--after", "2026-10-31T12:00").stdout.splitlines()

    assert gap[1] == "Sun 2026-03-08 03:00:00  EDT   2026-03-08T07:00:00Z  gap"
    assert gap[3:] == [
        "gap on 2026-03-08: 02:30 does not exist on this day, the clock goes from 02:00 to 03:00: it fires at 03:00"
    ]
    assert fold[1] == "Sun 2026-11-01 01:30:00  EDT   2026-11-01T05:30:00Z  fold"
    assert fold[3].endswith("the clock goes back from 02:00 to 01:00: it fires the first time only")


def test_programs_get_the_rule_and_its_fires_as_json(invoke: Invoke) -> None:
    said = json.loads(
        invoke(
            "preview", "*/20 2 * * *", "--tz", "America/New_York", "-n", "1", "--after", "2026-03-08", "--json"
        ).stdout
    )

    assert said == {
        "v": 1,
        "schedule": {"v": 1, "kind": "cron", "expression": "*/20 2 * * *", "tz": "America/New_York"},
        "words": "at 02:00, 02:20 and 02:40 (America/New_York)",
        "tz": "America/New_York",
        "fires": [
            {
                "at": "2026-03-08T07:00:00Z",
                "local": "2026-03-08T03:00:00-04:00",
                "note": {
                    "kind": "gap",
                    "text": "02:00 does not exist on this day, the clock goes from 02:00 to 03:00: it fires at 03:00",
                },
            }
        ],
    }


@pytest.mark.parametrize(
    ("words", "first"),
    [
        (["every", "30m"], "2027-01-01T00:30:00Z"),
        (["every 1d12h"], "2027-01-02T12:00:00Z"),
        (["daily", "09:00"], "2027-01-01T09:00:00Z"),
        (["weekly", "mon", "09:00"], "2027-01-04T09:00:00Z"),
        (["weekly mon,fri 09:00"], "2027-01-01T09:00:00Z"),
        (["monthly", "last", "18:00"], "2027-01-31T18:00:00Z"),
        (["monthly", "2nd", "tue", "18:00"], "2027-01-12T18:00:00Z"),
        (["at", "2027-12-01T09:00"], "2027-12-01T09:00:00Z"),
        (["30 0 9 * * *"], "2027-01-01T09:00:30Z"),
    ],
)
def test_schedules_can_be_said_in_words(invoke: Invoke, words: list[str], first: str) -> None:
    shown = invoke("preview", *words, "--after", "2027-01-01", "--json")

    assert json.loads(shown.stdout)["fires"][0]["at"] == first


def test_what_fires_once_says_so(invoke: Invoke) -> None:
    shown = invoke("preview", "at 2027-12-01T09:00", "--after", "2027-01-01", "--tz", "Asia/Tokyo")

    assert shown.stderr.splitlines() == ["once, at 2027-12-01 09:00 (Asia/Tokyo)", "and never again"]
    assert "2027-12-01T00:00:00Z" in shown.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["0 25 * * *"], "hour '25': 25 is out of range; it can be 0 to 23"),
        (["0 0 30 2 *"], "day of month '30': never comes in February"),
        (["0 9 * *"], "has 4 fields; it must have 5"),
        (["daily", "25:00"], "hour is 25; it must be a whole number, 0 to 23"),
        (["daily", "nine"], "'nine' is no time of day; write it as in 'daily 09:00'"),
        (["daily"], "'daily' needs a time of day; write it as in 'daily 09:00'"),
        (["weekly", "09:00"], "needs one or more days and a time of day; write it as in 'weekly mon 09:00'"),
        (["weekly", "mo", "09:00"], "day 'mo' is no day of the week"),
        (["monthly", "32", "09:00"], "day is 32; it must be 1 to 31"),
        (["every", "0s"], "the period must be more than 0"),
        (["every", "soon"], "this is no period; write it as in 'every 30m'"),
        (["evry", "5m"], "did you mean 'every'?"),
        (["sometimes"], "is no schedule; write it as in '0 9 * * 1-5'"),
        (["at", "noon"], "this is no instant; write it as in 'at 2026-12-01T09:00'"),
        (["at", "2020-01-01T09:00"], "it never fires"),
        (["@daily", "--tz", "berlin"], "unknown time zone 'berlin', did you mean 'Europe/Berlin'?"),
        (["@daily", "--after", "noon"], "'noon' is not an instant"),
        (["@daily", "-n", "0"], "0 is not in the range"),
        ([""], "is no schedule"),
        (
            ["0", "9", "app.py", "laneway.db", "1-5"],
            "put a cron rule in quotes, or the shell replaces * by the names of files",
        ),
    ],
)
def test_bad_input_says_what_is_wrong_and_what_would_be_right(invoke: Invoke, words: list[str], said: str) -> None:
    shown = invoke("preview", *words)

    assert (shown.exit_code, shown.stdout) == (2, "")
    assert said in shown.stderr
    assert "Traceback" not in shown.stderr


def test_no_store_is_made_or_asked_for(invoke: Invoke, folder: Path) -> None:
    before = sorted(folder.iterdir())

    assert invoke("preview", "every", "5m").exit_code == 0
    assert sorted(folder.iterdir()) == before


def test_its_help_answers_at_once() -> None:
    costs = []
    for _ in range(5):
        process = subprocess.Popen([sys.executable, "-m", "laneway", "preview", "--help"], stdout=subprocess.DEVNULL)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = status
        costs.append(used.ru_utime + used.ru_stime)

    assert min(costs) < HELP_WITHIN


def test_the_shell_completes_zones(laneway: Laneway) -> None:
    assert completed(laneway, "laneway preview @daily --tz Europe/Berl") == ["Europe/Berlin"]
