"""`laneway runs`: list, show, events, wait."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.cli.conftest import Invoke

Submitted = Callable[..., str]


def test_the_list_is_aligned_text_with_one_word_in_each_column(invoke: Invoke, submitted: Submitted) -> None:
    submitted("add", "a=1", "--user", "ann")
    submitted("fail", "why=bad luck")
    invoke("drain", "app:app")

    header, newest, oldest = invoke("runs", "list").stdout.splitlines()

    assert " ".join(header.split()) == "ID TASK USER SESSION LANE STATE ATTEMPT AGE WAITED RAN NOTE"
    assert newest.split()[1:7] == ["fail", "-", "-", "main", "failed", "1"]
    assert newest.endswith("ValueError: bad luck")
    assert oldest.split()[1:7] == ["add", "ann", "-", "main", "succeeded", "1"]
    assert header.index("STATE") == newest.index("failed") == oldest.index("succeeded")


def test_the_list_can_be_json_or_ndjson(invoke: Invoke, submitted: Submitted) -> None:
    ids = [submitted("add", f"a={n}") for n in range(3)]

    array = json.loads(invoke("runs", "list", "--json").stdout)
    lines = [json.loads(line) for line in invoke("runs", "list", "--ndjson").stdout.splitlines()]

    assert [run["id"] for run in array] == ids[::-1]
    assert lines == array
    assert {run["v"] for run in array} == {1}


def test_the_list_says_when_there_is_more_and_goes_on_from_there(invoke: Invoke, submitted: Submitted) -> None:
    ids = [submitted("add", f"a={n}") for n in range(5)]

    first = invoke("runs", "list", "--limit", "3", "--json")
    before = first.stderr.split()[-1]
    rest = invoke("runs", "list", "--limit", "3", "--before", before, "--json")

    assert first.stderr == f"there are more; go on with --before {before}\n"
    assert [run["id"] for result in (first, rest) for run in json.loads(result.stdout)] == ids[::-1]
    assert rest.stderr == ""


@pytest.mark.parametrize(
    ("words", "tasks"),
    [
        (["--task", "add"], ["add"]),
        (["--user", "ann"], ["fail", "add"]),
        (["--session", "s"], ["fail"]),
        (["--lane", "team"], ["anything"]),
        (["--state", "failed"], ["fail"]),
        (["--state", "succeeded", "--user", "ann"], ["add"]),
        (["--state", "dropped"], []),
    ],
)
def test_the_list_is_narrowed_by_its_options(
    invoke: Invoke, submitted: Submitted, words: list[str], tasks: list[str]
) -> None:
    submitted("add", "a=1", "--user", "ann")
    submitted("fail", "--user", "ann", "--session", "s")
    submitted("anything", "value=1", "--lane", "team")
    invoke("drain", "app:app")

    result = invoke("runs", "list", *words, "--json")

    assert [run["task"] for run in json.loads(result.stdout)] == tasks


def test_an_empty_list_says_so_on_stderr(invoke: Invoke, submitted: Submitted) -> None:
    submitted("add", "a=1")

    result = invoke("runs", "list", "--state", "failed")

    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "no runs that fit\n")


def test_an_unknown_state_is_corrected(invoke: Invoke, submitted: Submitted) -> None:
    submitted("add", "a=1")

    result = invoke("runs", "list", "--state", "runing")

    assert (result.exit_code, result.stderr) == (2, "laneway: unknown state 'runing', did you mean 'running'?\n")


def test_an_id_may_be_shortened_as_long_as_it_is_unique(invoke: Invoke, submitted: Submitted) -> None:
    ids = [submitted("add", f"a={n}") for n in range(2)]

    assert json.loads(invoke("runs", "show", ids[0][:20], "--json").stdout)["id"] == ids[0]
    several = invoke("runs", "show", ids[0][:4])
    assert (several.exit_code, several.stderr.startswith("laneway: 2 runs begin with ")) == (3, True)
    none = invoke("runs", "show", "zzz")
    assert (none.exit_code, none.stderr) == (3, "laneway: no run 'zzz'\n")


def test_show_tells_everything(invoke: Invoke, submitted: Submitted) -> None:
    good = submitted("summarize", "doc=42", "--user", "ann", "--session", "chat", "--priority", "3")
    bad = submitted("fail", "why=bad luck")
    invoke("drain", "app:app")

    shown = invoke("runs", "show", good).stdout
    for text in ("summarize", "succeeded", good, "main, priority 3", "ann", "chat", "ago)", '"doc": "42"', '"summary"'):
        assert text in shown
    shown = invoke("runs", "show", bad).stdout
    for text in ("failed (error)", "Traceback (most recent call last):", "raise ValueError", "ValueError: bad luck"):
        assert text in shown


def test_what_a_handler_says_cannot_command_the_terminal(invoke: Invoke, submitted: Submitted) -> None:
    run_id = submitted("fail", "why=\x1b[2J\x07gone")
    invoke("drain", "app:app")

    for words in (["list"], ["show", run_id], ["events", run_id], ["wait", run_id]):
        result = invoke("runs", *words)
        assert "gone" in result.output
        assert not {"\x1b", "\x07"} & set(result.output)


def test_events_are_numbered_lines_with_the_time_since_acceptance(invoke: Invoke, submitted: Submitted) -> None:
    run_id = submitted("summarize", "doc=42")
    invoke("drain", "app:app")

    lines = invoke("runs", "events", run_id).stdout.splitlines()

    assert [line.split()[0] for line in lines] == ["1", "2", "3", "4"]
    assert [line.split()[2] for line in lines] == ["started", "progress", "result", "done"]
    assert all(line.split()[1].startswith("+") for line in lines)
    assert lines[1].endswith(" 50%  half way")
    assert lines[3].endswith("done       succeeded")


def test_events_can_be_ndjson_from_a_cursor_on(invoke: Invoke, submitted: Submitted) -> None:
    run_id = submitted("summarize", "doc=42")
    invoke("drain", "app:app")

    lines = invoke("runs", "events", run_id, "--after", "2", "--json").stdout.splitlines()

    assert [(event["seq"], event["kind"]) for event in map(json.loads, lines)] == [(3, "result"), (4, "done")]


def test_following_an_ended_run_ends(invoke: Invoke, submitted: Submitted) -> None:
    run_id = submitted("fail")
    invoke("drain", "app:app")

    followed = invoke("runs", "events", run_id, "--follow")

    assert (followed.exit_code, followed.stdout) == (0, invoke("runs", "events", run_id).stdout)


def test_wait_prints_the_result_and_its_code_tells_how_it_ended(invoke: Invoke, submitted: Submitted) -> None:
    good, bad, later = submitted("add", "a=1"), submitted("fail"), submitted("add", "a=1", "--delay", "1h")
    invoke("drain", "app:app")

    fine = invoke("runs", "wait", good)
    failed = invoke("runs", "wait", bad)
    whole = invoke("runs", "wait", bad, "--json")
    late = invoke("runs", "wait", later, "--timeout", "10ms")

    assert (fine.exit_code, fine.stdout, fine.stderr) == (0, "[2,null]\n", "")
    assert (failed.exit_code, failed.stdout) == (1, "")
    assert failed.stderr == f"laneway: run {bad} failed: ValueError: no reason\n"
    assert (whole.exit_code, json.loads(whole.stdout)["state"]) == (1, "failed")
    assert (late.exit_code, late.stdout) == (7, "")
    assert f"wait again with: laneway runs wait {later}" in late.stderr


def test_drain_tells_what_it_did_and_what_is_left(invoke: Invoke, submitted: Submitted) -> None:
    for words in (["add", "a=1"], ["add", "a=2"], ["fail"], ["flaky"], ["add", "a=3", "--delay", "1h"]):
        submitted(*words)

    result = invoke("drain", "app:app", "--concurrency", "2", "--json")
    again = invoke("drain", "app:app")

    assert result.exit_code == 0
    assert json.loads(result.stdout)["moves"] == {"succeed": 2, "fail": 1, "retry": 1}
    assert json.loads(result.stdout)["pending"] == 2
    told = "2 succeeded, 1 failed, 1 to be tried again"
    assert result.stderr.splitlines() == [told, "2 pending still: due later, or of tasks that app:app does not know"]
    assert again.stderr.startswith("nothing was due\n")
