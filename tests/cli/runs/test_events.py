"""`laneway runs events`: what agents say, in a pipe and on a terminal, live and resumed."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from laneway.ports.upkeep import OldDeltas
from tests.cli.conftest import Invoke, Start
from tests.cli.terminal import on_terminal

Submitted = Callable[..., str]
AGENT = """

@app.task
async def agent(*, ctx: Context) -> str:
    for piece in ("Let me ", "see.\\n", "One ", "moment \\x1b[31m"):
        ctx.delta(piece)
    with ctx.tool("search", {"q": "weather"}) as tool:
        ctx.progress(0.5, "searching")
        tool.output = ["rain"]
    try:
        with ctx.tool("fetch"):
            raise OSError("no network")
    except OSError:
        ctx.log("x" * 10000)
        ctx.emit("mine", "y" * 10000)
    ctx.delta("It rains.")
    return "rain"
"""


@pytest.fixture(autouse=True)
def _agent(folder: Path) -> None:
    with (folder / "app.py").open("a", encoding="utf-8") as app:
        app.write(AGENT)


def told(invoke: Invoke, submitted: Submitted) -> str:
    """Return the id of an agent's run that has ended."""
    run_id = submitted("agent")
    invoke("drain", "app:app")
    return run_id


def test_in_a_pipe_every_event_is_one_plain_line(invoke: Invoke, submitted: Submitted) -> None:
    lines = invoke("runs", "events", told(invoke, submitted)).stdout.splitlines()

    said = [re.sub(r"\d+(\.\d+)?m?s\b", "T", " ".join(line.split()[2:])) for line in lines]
    assert [line.split()[0] for line in lines] == [str(n) for n in range(1, 13)]
    assert said[1:6] == [
        "delta Let me see. One moment [31m",
        'tool_start search {"q":"weather"}',
        f"progress {'━' * 10}{'─' * 10} 50% searching",
        'tool_end search in T: ["rain"]',
        "tool_start fetch",
    ]
    assert said[6] == "tool_end fetch failed after T: OSError: no network"
    assert said[7] == f"log {'x' * 2000} [cut: 9.8 KiB in all]"
    assert said[8].startswith('mine "yyyy')
    assert said[8].endswith("yyyy [cut: 9.8 KiB in all]")
    assert said[9:] == ["delta It rains.", "result rain", "done succeeded"]


def test_for_programs_every_event_is_one_object(invoke: Invoke, submitted: Submitted) -> None:
    lines = invoke("runs", "events", told(invoke, submitted), "--json").stdout.splitlines()

    events = [json.loads(line) for line in lines]
    assert [event["seq"] for event in events] == list(range(1, 13))
    assert events[1]["data"] == {"text": "Let me see.\nOne moment \x1b[31m"}
    assert events[7]["data"]["cut"] == 10_011


def test_on_a_terminal_text_runs_on_and_the_rest_are_lines(folder: Path, invoke: Invoke, submitted: Submitted) -> None:
    run_id = told(invoke, submitted)

    shown = on_terminal(folder, 100, "runs", "events", run_id, "--follow", NO_COLOR="1")

    lines = shown.splitlines()
    assert lines[1:3] == ["Let me see.", "One moment  [31m"]
    assert lines[3].split()[2:4] == ["tool_start", "search"]
    assert [line.split()[2] for line in lines[4:7]] == ["progress", "tool_end", "tool_start"]
    assert lines[-3] == "It rains."
    assert lines[-1].endswith("done       succeeded")
    assert "\x1b[31m" not in shown


def test_text_that_ends_in_the_middle_of_a_line_does_not_swallow_the_prompt(
    folder: Path, invoke: Invoke, submitted: Submitted
) -> None:
    run_id = told(invoke, submitted)

    shown = on_terminal(folder, 100, "runs", "events", run_id, "--after", "1", NO_COLOR="1")

    assert shown.startswith("Let me see.\nOne moment  [31m\n   3 ")
    assert shown.endswith("succeeded\n")


def test_following_goes_on_where_it_was_stopped_without_a_gap(start: Start, folder: Path, submitted: Submitted) -> None:
    start()
    run_id = submitted("sleep", "seconds=5")
    command = [sys.executable, "-m", "laneway", "runs", "events", run_id, "-f", "--json"]
    first = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert first.stdout is not None
    seen = [json.loads(first.stdout.readline())["seq"]]
    first.send_signal(signal.SIGINT)
    stdout, stderr = first.communicate(timeout=20)
    seen += [json.loads(line)["seq"] for line in stdout.splitlines()]

    again = stderr.partition("go on with: laneway ")[2].split()
    command = [sys.executable, "-m", "laneway", *again, "--json"]
    rest = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=30, check=True)

    seen += [json.loads(line)["seq"] for line in rest.stdout.splitlines()]
    assert first.returncode == 0
    assert seen == [1, 2, 3]


def test_a_trimmed_log_says_what_was_there(invoke: Invoke, submitted: Submitted, folder: Path) -> None:
    import asyncio

    from laneway import Scheduler

    run_id = told(invoke, submitted)

    async def trim() -> int:
        async with Scheduler("sqlite:///laneway.db") as app:
            return await (await app.open()).prune(OldDeltas(0))

    assert asyncio.run(trim()) == 1
    lines = invoke("runs", "events", run_id).stdout.splitlines()
    assert lines[1].endswith("trimmed    streamed text was here, events 2 to 2")
    assert "It rains." not in "".join(lines)
