"""`laneway jobs`: what fires when, and what became of it."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from time import monotonic
from typing import Any

import msgspec
import pytest

from laneway import Scheduler
from laneway.cli.jobs.diagnose import Prerequisites
from laneway.cli.shell import formats, view
from laneway.cli.shell.commands import awaited
from laneway.cli.shell.completion import VARIABLE
from laneway.core.jobs.job import Job
from laneway.ports.gates import TaskState
from tests.cli.conftest import Invoke, Laneway, Start

APP = ("--app", "app:app")
DIGEST = ("digest", "0 9 * * 1-5", "summarize", "--tz", "Asia/Tokyo", "--args", '{"doc": "daily"}')


@pytest.fixture
def digest(invoke: Invoke) -> str:
    """A job of the app's store; its id."""
    added = invoke("jobs", "add", *DIGEST, *APP, "--json")
    assert added.exit_code == 0, added.stderr
    found: str = json.loads(added.stdout)["id"]
    return found


def job(invoke: Invoke, name: str) -> dict[str, Any]:
    record: dict[str, Any] = json.loads(invoke("jobs", "show", name, "--json").stdout)
    return record


def test_a_job_that_was_added_says_when_it_fires(invoke: Invoke, folder: Path) -> None:
    added = invoke("jobs", "add", *DIGEST, *APP)

    assert added.exit_code == 0
    assert added.stdout.startswith("digest  added: at 09:00 on Monday to Friday (Asia/Tokyo); next ")
    assert " 09:00:00 JST (in " in added.stdout


def test_every_option_arrives(invoke: Invoke) -> None:
    options = (
        *("--lane", "background", "--user", "ann", "--session", "chat-7", "--priority", "5", "--owner", "ben"),
        *("--description", "what for", "--misfire", "all", "--max-staleness", "none", "--overlap", "queue"),
        *("--timeout", "5m", "--retry", "2", "--breaker", "3", "--open-for", "10m", "--backoff", "30s"),
        *("--backoff-cap", "1h", "--run-on-start", "--disabled", "--delete-after-run"),
    )

    added = invoke("jobs", "add", "one", "every 2h", "add", "--args", '{"a": 1}', *options, *APP, "--json")

    record = json.loads(added.stdout)
    expected = {
        *{"lane": "background", "user": "ann", "session": "chat-7", "priority": 5, "owner": "ben"}.items(),
        *{"description": "what for", "misfire": "all", "max_staleness": 0, "overlap": "queue"}.items(),
        *{"timeout": 300, "backoff": 30, "backoff_cap": 3600, "enabled": False, "reason": "disabled"}.items(),
        *{"run_on_start": True, "delete_after_run": True, "source": "call", "words": "every 2 hours"}.items(),
    }
    assert expected <= {(name, value) for name, value in record.items() if isinstance(value, (str, int, float, bool))}
    assert record["retry"]["attempts"] == 2
    assert record["breaker"] == {"failures": 3, "open_for": 600, "disable": False, "per": "task"}
    assert record["next_fire_at"] is None


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("x", "0 25 * * *", "add"), 2, "cron '0 25 * * *': hour '25': 25 is out of range; it can be 0 to 23"),
        (("x", "0 9 32 * *", "add"), 2, "day of month '32'"),
        (("x", "0 0 30 2 *", "add"), 2, "day of month '30': never comes in February"),
        (("x", "every 0s", "add"), 2, "the period must be more than 0"),
        (("x", "evry 5m", "add"), 2, "'evry 5m' is no schedule, did you mean 'every'?"),
        (("x", "at 2020-01-01T09:00", "add", "--args", '{"a": 1}'), 2, "would never fire"),
        (("x", "@daily", "add", "--tz", "Berlin"), 2, "unknown time zone 'Berlin', did you mean 'Europe/Berlin'?"),
        (("x", "@daily", "sumarize"), 3, "unknown task 'sumarize', did you mean 'summarize'?"),
        (("x", "@daily", "add"), 2, "a"),
        (("x", "@daily", "add", "--args", "{"), 2, "--args is not JSON"),
        (("x", "@daily", "add", "--args", "[1]"), 2, "--args must be a JSON object of names and values"),
        (("x", "@daily", "add", "--open-for", "5m"), 2, "give --breaker N, too"),
        (("x", "@daily", "add", "--misfire", "never"), 2, "'never' is not one of 'skip', 'once', 'all'"),
        (("x", "@daily", "flaky", "--enabled-when", "open"), 2, "unknown condition 'open'"),
        (("x" * 300, "@daily", "flaky"), 2, "name"),
        (("digest", "@daily", "flaky"), 5, "there is a job 'digest' already"),
        (("x", "@daily"), 2, "missing argument 'TASK'"),
    ],
)
def test_what_is_wrong_is_refused_at_once_and_nothing_is_stored(
    invoke: Invoke, digest: str, words: tuple[str, ...], code: int, said: str
) -> None:
    refused = invoke("jobs", "add", *words, *APP)

    assert (refused.exit_code, refused.stdout) == (code, "")
    assert said in refused.stderr
    assert "Traceback" not in refused.stderr
    assert [one["id"] for one in json.loads(invoke("jobs", "list", "--json").stdout)] == [digest]


def test_without_an_app_a_task_is_taken_as_named(invoke: Invoke, digest: str) -> None:
    added = invoke(
        "jobs", "add", "other", "@daily", "elsewhere", "--args", '{"x": 1}', "--store", "sqlite:///laneway.db"
    )

    assert added.exit_code == 0
    assert added.stderr.startswith("its times are in UTC; ")
    assert job(invoke, "other")["task"] == "elsewhere"


def test_an_app_and_a_store_are_one_too_many(invoke: Invoke) -> None:
    refused = invoke("jobs", "list", *APP, "--store", "sqlite:///laneway.db")

    assert refused.exit_code == 2
    assert "give --app or --store, not both" in refused.stderr


def test_the_list_shows_how_each_stands(invoke: Invoke, digest: str) -> None:
    invoke("jobs", "add", "sweep", "every 30m", "flaky", "--owner", "ann", *APP)
    invoke("jobs", "add", "off", "@daily", "flaky", "--disabled", *APP)

    header, *lines = invoke("jobs", "list").stdout.splitlines()

    assert header.split() == ["NAME", "STATE", "NEXT", "ZONE", "LAST", "TASK", "OWNER", "SCHEDULE"]
    assert [line.split()[:2] for line in lines] == [["digest", "on"], ["off", "disabled"], ["sweep", "on"]]
    assert lines[0].endswith("at 09:00 on Monday to Friday (Asia/Tokyo)")
    assert lines[2].endswith("every 30 minutes")


def test_the_list_is_narrowed_and_goes_on(invoke: Invoke, digest: str) -> None:
    for name in ("a", "b", "c"):
        invoke("jobs", "add", name, "@daily", "flaky", "--owner", "ann", *APP)

    def names(*options: str) -> list[str]:
        return [one["name"] for one in json.loads(invoke("jobs", "list", "--json", *options).stdout)]

    first = invoke("jobs", "list", "--limit", "2")
    assert names("--owner", "ann") == ["a", "b", "c"]
    assert names("--task", "summarize") == ["digest"]
    assert names("--source", "file") == names("--disabled") == []
    assert names("--enabled", "--limit", "1") == ["a"]
    assert f"there are more; go on with --after 'b' {job(invoke, 'b')['id']}" in first.stderr
    assert names("--after", "b", job(invoke, "b")["id"]) == ["c", "digest"]
    assert invoke("jobs", "list", "--source", "code").stderr == "no jobs that fit\n"


def test_the_list_can_be_in_the_order_of_the_next_fires(invoke: Invoke, digest: str) -> None:
    invoke("jobs", "add", "zeal", "every 1m", "flaky", *APP)
    invoke("jobs", "add", "calm", "at 2126-01-01T00:00", "flaky", "--tz", "UTC", *APP)
    invoke("jobs", "add", "a-off", "every 1s", "flaky", "--disabled", *APP)

    lines = invoke("jobs", "list", "--next").stdout.splitlines()[1:]

    assert [line.split()[0] for line in lines] == ["zeal", "digest", "calm", "a-off"]
    assert "there are 3 more; show them with --limit 4" in invoke("jobs", "list", "--next", "--limit", "1").stderr


def test_a_store_without_jobs_says_so(invoke: Invoke, submitted: Any) -> None:
    submitted("add", "a=1")

    assert invoke("jobs", "list").stderr == "no jobs\n"
    assert invoke("jobs", "calendar").stderr == "no job is to fire\n"
    assert json.loads(invoke("jobs", "list", "--json").stdout) == []


def test_show_says_when_it_fires_and_why_it_does_not(invoke: Invoke, digest: str) -> None:
    invoke("jobs", "disable", "digest")

    shown = invoke("jobs", "show", "digest").stdout

    assert shown.startswith("digest  disabled\n")
    assert "fires       at 09:00 on Monday to Friday (Asia/Tokyo)\n" in shown
    assert 'starts      summarize {"doc":"daily"}\n' in shown
    assert "why not     it is disabled; let it fire: laneway jobs enable digest\n" in shown
    assert "            no worker is up: nobody fires it\n" in shown
    assert "\nnext fires, were it enabled\nLOCAL" in shown
    assert shown.count(" JST ") == 5


def test_show_as_json_has_everything(invoke: Invoke, digest: str) -> None:
    invoke("jobs", "run", "digest")

    record = job(invoke, digest[:12])

    assert (record["id"], record["name"], record["args"]) == (digest, "digest", {"doc": "daily"})
    assert record["why_not"] == ["no worker is up: nobody fires it"]
    assert [len(record[part]) for part in ("next_fires", "last_fires")] == [5, 1]
    assert record["last_fires"][0]["reason"] == "by_hand"


def test_a_disabled_task_is_named_as_the_reason(invoke: Invoke, digest: str) -> None:
    invoke("tasks", "disable", "summarize")

    assert "laneway tasks enable summarize" in invoke("jobs", "show", "digest").stdout


def test_a_wrong_name_has_a_hint_and_exits_with_3(invoke: Invoke, digest: str) -> None:
    for verb in ("show", "edit", "enable", "disable", "remove", "run", "runs", "preview"):
        more = ("--misfire", "all") if verb == "edit" else ()
        wrong = invoke("jobs", verb, "digset", *more)

        assert (wrong.exit_code, wrong.stdout) == (3, "")
        assert wrong.stderr == "laneway: no job 'digset', did you mean 'digest'?\n"


def test_a_name_that_several_have_is_told_apart_by_owner_or_id(invoke: Invoke, digest: str) -> None:
    invoke("jobs", "add", "digest", "@daily", "flaky", "--owner", "ann", *APP)

    ambiguous = invoke("jobs", "show", "digest")

    assert ambiguous.exit_code == 3
    assert "2 jobs are named 'digest'" in ambiguous.stderr
    assert job(invoke, digest)["owner"] is None
    assert invoke("jobs", "disable", "digest", "--owner", "ann").exit_code == 0
    assert job(invoke, digest)["enabled"]


def test_an_edit_says_what_it_was_and_what_it_is(invoke: Invoke, digest: str) -> None:
    changed = invoke("jobs", "edit", "digest", "--schedule", "daily 08:00", "--timeout", "90s", *APP)
    back = json.loads(invoke("jobs", "edit", "digest", "--timeout", "none", "--rename", "brief", "--json").stdout)

    assert changed.stdout.startswith(
        "digest  schedule at 09:00 on Monday to Friday (Asia/Tokyo) -> every day at 08:00 (Asia/Tokyo),"
        " timeout none -> 90; next "
    )
    assert (back["id"], back["was"]["name"], back["is"]["name"]) == (digest, "digest", "brief")
    assert (back["was"]["timeout"], back["is"]["timeout"]) == (90, None)
    assert job(invoke, "brief")["id"] == digest


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((), "nothing to change; give --schedule"),
        (("--schedule", "every 0s"), "the period must be more than 0"),
        (("--schedule", "at 2020-01-01T09:00"), "would never fire"),
        (("--tz", "Berlin"), "did you mean 'Europe/Berlin'?"),
        (("--args", '{"dco": "x"}', *APP), "dco"),
        (("--task", "sumarize", *APP), "did you mean 'summarize'?"),
    ],
)
def test_an_edit_that_would_make_it_wrong_changes_nothing(
    invoke: Invoke, digest: str, options: tuple[str, ...], said: str
) -> None:
    before = job(invoke, "digest")

    refused = invoke("jobs", "edit", "digest", *options)

    assert refused.exit_code in (2, 3)
    assert said in refused.stderr
    assert {**job(invoke, "digest"), "next_fires": None} == {**before, "next_fires": None}


def test_enabling_and_disabling_answers_for_each(invoke: Invoke, digest: str) -> None:
    off = invoke("jobs", "disable", "digest", "nope")
    on = invoke("jobs", "enable", "digest")

    assert (off.exit_code, off.stdout) == (3, "digest  disabled\n")
    assert "no job 'nope'" in off.stderr
    assert on.stdout.startswith("digest  enabled; next ")


def test_removing_can_be_tried_first(invoke: Invoke, digest: str) -> None:
    tried = invoke("jobs", "remove", "digest", "--dry-run")
    removed = invoke("jobs", "remove", "digest", "--json")

    assert tried.stdout == "digest  would be removed\n"
    assert [one["id"] for one in json.loads(removed.stdout)] == [digest]
    assert invoke("jobs", "list").stderr == "no jobs\n"


def test_a_run_by_hand_prints_its_id_and_moves_no_fire(invoke: Invoke, digest: str) -> None:
    before = job(invoke, "digest")["next_fire_at"]

    fired = invoke("jobs", "run", "digest")
    busy = invoke("jobs", "run", "digest")
    early = invoke("jobs", "run", "digest", "--if-due")

    run_id = fired.stdout.strip()
    assert fired.exit_code == 0
    assert (busy.exit_code, busy.stdout) == (5, "")
    assert "an earlier run of it goes on (overlap skip)" in busy.stderr
    assert (early.exit_code, early.stdout, early.stderr) == (0, "", "job digest is not due\n")
    assert job(invoke, "digest")["next_fire_at"] == before
    assert "job         digest, for " in invoke("runs", "show", run_id).stdout


def test_the_records_tell_what_became_of_each_fire(invoke: Invoke, digest: str) -> None:
    invoke("jobs", "run", "digest", "--json")
    invoke("jobs", "run", "digest")
    invoke("drain", "app:app")

    header, skipped, fired = invoke("jobs", "runs", "digest").stdout.splitlines()
    paged = invoke("jobs", "runs", "digest", "--limit", "1")
    records = json.loads(invoke("jobs", "runs", "digest", "--before", "2", "--json").stdout)

    assert header.split() == ["NUMBER", "NOMINAL", "KIND", "COUNT", "STATE", "RUN", "TOOK", "NOTE"]
    assert skipped.split()[2:5] == ["skipped", "1", "-"]
    assert fired.split()[2:5] == ["fired", "1", "succeeded"]
    assert paged.stderr == "there are more; go on with --before 2\n"
    assert [(one["number"], one["state"], one["output"]) for one in records] == [
        (1, "succeeded", '{"summary":"daily","tags":null}')
    ]
    assert invoke("jobs", "runs", "digest", "--before", "1").stderr == "no more records\n"


def test_a_preview_marks_the_days_on_which_the_clock_is_changed(invoke: Invoke) -> None:
    invoke("jobs", "add", "night", "30 2 * * 0", "flaky", "--tz", "America/New_York", *APP)

    shown = invoke("jobs", "preview", "night", "-n", "60")
    record = json.loads(invoke("jobs", "preview", "night", "-n", "60", "--json").stdout)

    assert "02:30 does not exist on this day, the clock goes from 02:00 to 03:00: it fires at 03:00" in shown.stdout
    assert shown.stderr == "at 02:30 on Sunday (America/New_York)\n"
    assert record["tz"] == "America/New_York"
    assert {fire["note"]["kind"] for fire in record["fires"] if fire["note"]} == {"gap"}


def test_a_one_shot_s_preview_ends(invoke: Invoke) -> None:
    invoke("jobs", "add", "once", "at 2126-01-01T00:00", "flaky", "--tz", "UTC", *APP)

    shown = invoke("jobs", "preview", "once")

    assert shown.stdout.splitlines()[1:] == ["Tue 2126-01-01 00:00:00  UTC   2126-01-01T00:00:00Z  -"]
    assert shown.stderr.endswith("and never again\n")


def test_the_calendar_has_the_fires_of_all_jobs_in_order(invoke: Invoke, digest: str) -> None:
    invoke("jobs", "add", "noon", "daily 12:00", "flaky", "--tz", "UTC", *APP)
    invoke("jobs", "add", "off", "every 1m", "flaky", "--disabled", *APP)

    header, *lines = invoke("jobs", "calendar", "-n", "9").stdout.splitlines()
    fires = json.loads(invoke("jobs", "calendar", "-n", "9", "--json").stdout)

    assert header.split() == ["DAY", "TIME", "ZONE", "JOB", "TASK", "WHEN", "CLOCK"]
    assert len(lines) == 9
    assert {fire["job"] for fire in fires} == {"digest", "noon"}
    assert [fire["at"] for fire in fires] == sorted(fire["at"] for fire in fires)


def test_names_of_jobs_are_completed(laneway: Laneway, invoke: Invoke, digest: str) -> None:
    invoke("jobs", "add", "dig", "@daily", "flaky", *APP)
    offered = laneway(**{VARIABLE: "bash_complete", "COMP_WORDS": "laneway jobs show di", "COMP_CWORD": "3"})

    assert [line.partition(",")[2] for line in offered.stdout.splitlines()] == ["dig", "digest"]


def test_the_job_of_a_file_is_shown_with_its_file(invoke: Invoke, folder: Path) -> None:
    (folder / "laneway.toml").write_text('[jobs.sweep]\nschedule = "every 30m"\ntask = "flaky"\n')
    assert invoke("drain", "app:app").exit_code == 0

    record = job(invoke, "sweep")

    assert (record["source"], record["origin"]) == ("file", str(folder / "laneway.toml"))
    assert invoke("jobs", "list", "--source", "file").stdout.count("sweep") == 1


def test_a_zero_is_an_answer_too(invoke: Invoke) -> None:
    zeros = ("--priority", "0", "--alert-after", "0", "--backoff", "0", "--max-staleness", "0")

    added = invoke("jobs", "add", "one", "@daily", "flaky", *zeros, *APP, "--json")
    invoke("jobs", "edit", "one", "--priority", "5", "--backoff", "30", "--max-staleness", "60")
    edited = invoke("jobs", "edit", "one", *zeros)

    records = (json.loads(added.stdout), job(invoke, "one"))
    assert edited.exit_code == 0, edited.stderr
    assert [(one["priority"], one["alert_after"], one["backoff"], one["max_staleness"]) for one in records] == [
        (0, 0, 0, 0)
    ] * 2


def test_without_an_app_a_job_stays_in_the_zone_it_is_planned_in(invoke: Invoke, folder: Path) -> None:
    text = (folder / "app.py").read_text()
    there = text.replace('Scheduler("sqlite:///laneway.db")', 'Scheduler("sqlite:///laneway.db", tz="Asia/Tokyo")')
    (folder / "app.py").write_text(there)
    invoke("jobs", "add", "early", "daily 03:00", "flaky", *APP)
    planned = job(invoke, "early")

    calendar = json.loads(invoke("jobs", "calendar", "-n", "2", "--json").stdout)
    preview = json.loads(invoke("jobs", "preview", "early", "--json").stdout)["fires"]
    invoke("jobs", "disable", "early")
    enabled = invoke("jobs", "enable", "early")
    edited = invoke("jobs", "edit", "early", "--schedule", "daily 04:00")

    assert planned["next_fires"][0]["at"] == preview[0]["at"] == planned["next_fire_at"]
    assert [fire["at"] for fire in calendar] == [fire["at"] for fire in preview[:2]]
    assert " 03:00:00 JST (in " in enabled.stdout
    assert " 04:00:00 JST (in " in edited.stdout


def test_what_is_declared_in_a_file_says_so_when_it_is_changed_by_hand(invoke: Invoke, folder: Path) -> None:
    file = folder / "laneway.toml"
    file.write_text('[jobs.sweep]\nschedule = "every 30m"\ntask = "flaky"\n')
    assert invoke("drain", "app:app").exit_code == 0

    edited = invoke("jobs", "edit", "sweep", "--misfire", "all")
    tried = invoke("jobs", "remove", "sweep", "--dry-run")
    removed = invoke("jobs", "remove", "sweep")

    assert edited.stderr == f"sweep is declared in {file}: this change holds until the declaration changes\n"
    assert tried.stderr.startswith(f"sweep is declared in {file} and comes back when that is read again")
    assert (removed.stdout, removed.stderr) == ("sweep  removed\n", tried.stderr)


def test_a_job_of_that_name_is_named_with_the_command_that_changes_it(invoke: Invoke, digest: str) -> None:
    again = invoke("jobs", "add", *DIGEST, *APP)

    assert again.exit_code == 5
    assert again.stderr.endswith("  change it: laneway jobs edit digest ...\n")


def test_a_list_says_that_nobody_fires_them(invoke: Invoke, digest: str) -> None:
    assert invoke("jobs", "list").stderr == "no worker is up: nobody fires them\n"
    invoke("jobs", "disable", "digest")
    assert invoke("jobs", "list").stderr == ""


def test_a_worker_that_died_without_a_word_is_not_up(invoke: Invoke, start: Start, folder: Path) -> None:
    text = (folder / "app.py").read_text().replace('laneway.db")', 'laneway.db", lease=1, renew_every=0.3)', 1)
    (folder / "app.py").write_text(f"{text}\napp.jobs.declare('mine', '@daily', 'flaky')\n")
    worker = start()
    assert invoke("jobs", "list").stderr == ""
    typo = invoke("jobs", "add", "x", "every 1h", "flakey")
    worker.kill()
    worker.wait()

    deadline = monotonic() + 20
    while not (seen := job(invoke, "mine"))["orphaned"] and monotonic() < deadline:
        pass

    assert typo.stderr == "no worker that is up knows task 'flakey', did you mean 'flaky'?\n"
    assert seen["why_not"] == ["it is declared in code, and no worker that is up declares it: nobody fires it"]
    assert invoke("jobs", "remove", "mine").exit_code == 0


def test_on_a_narrow_terminal_columns_go_before_times_are_cut(
    invoke: Invoke, digest: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    invoke("jobs", "run", "digest", *APP)
    monkeypatch.setattr(view, "is_terminal", lambda: True)
    monkeypatch.setenv("COLUMNS", "70")

    listed, fires = invoke("jobs", "list").stdout.splitlines(), invoke("jobs", "runs", "digest").stdout.splitlines()

    assert [line.split()[:4] for line in listed[:1]] == [["name", "state", "next", "zone"]]
    assert " 09:00:00 JST" in listed[1]
    assert "last" not in listed[0].split()
    assert fires[0].split() == ["number", "nominal", "kind", "count", "state", "run", "note"]
    assert "pending" in fires[1]
    assert "by_hand" in fires[1]
    assert max(map(len, (*listed, *fires))) <= 70


def test_a_job_whose_condition_no_worker_knows_says_so(invoke: Invoke, digest: str) -> None:
    found = awaited(_digest())
    late = msgspec.structs.replace(found.spec, enabled_when="is_open")
    due = msgspec.structs.replace(found, spec=late, next_fire_at=formats.now() - timedelta(minutes=1))
    known = TaskState(name="summarize", workers=1)

    assert Prerequisites(1, known).reasons(found, formats.now()) == []
    [reason] = Prerequisites(1, known).reasons(due, formats.now())
    assert reason.endswith("and no worker fires it: only one that has registered its condition is_open does")


async def _digest() -> Job:
    async with Scheduler("sqlite:///laneway.db", lanes=None) as scheduler:
        return await scheduler.jobs.get("digest")
