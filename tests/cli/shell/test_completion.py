"""The shell completes commands, options, run ids and names, and laneway is asked for real."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable

import pytest

from tests.cli.conftest import Invoke, Laneway

Submitted = Callable[..., str]


def completed(laneway: Laneway, line: str) -> list[str]:
    """Return what bash is offered for the last word of the line."""
    words = line.split(" ")
    answer = laneway(_LANEWAY_COMPLETE="bash_complete", COMP_WORDS=line, COMP_CWORD=str(len(words) - 1))
    assert (answer.returncode, answer.stderr) == (0, "")
    return [offered.partition(",")[2] for offered in answer.stdout.splitlines() if offered]


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("laneway wo", ["worker", "workers"]),
        ("laneway runs s", ["show"]),
        ("laneway runs list --st", ["--state", "--store"]),
        ("laneway completion f", ["fish"]),
        ("laneway runs show 01", []),
        ("laneway wh", ["why"]),
        ("laneway lanes s", ["show", "set"]),
        ("laneway sessions st", ["stop", "stop-all"]),
        ("laneway tasks e", ["enable"]),
        ("laneway submit app:app add --mode in", ["interrupt"]),
        ("laneway lanes set main --when-full d", ["drop_old"]),
        ("laneway lanes pause ma", []),
    ],
)
def test_commands_and_options_are_completed(laneway: Laneway, line: str, offered: list[str]) -> None:
    assert completed(laneway, line) == offered


def test_run_ids_are_completed_newest_first(laneway: Laneway, submitted: Submitted) -> None:
    ids = [submitted("add", f"a={n}") for n in range(2)]

    assert completed(laneway, f"laneway runs show {ids[0][:4]}") == ids[::-1]
    assert completed(laneway, f"laneway runs show {ids[0]}") == ids[:1]
    assert completed(laneway, "laneway runs show --store sqlite:///other.db 0") == []


def test_names_are_completed(laneway: Laneway, invoke: Invoke, submitted: Submitted) -> None:
    for session in ("chat-1", "chat-2", "mail"):
        submitted("add", "a=1", "--session", session, "--user", f"user-of-{session}")
    invoke("tasks", "pause", "summarize")

    assert completed(laneway, "laneway lanes show fore") == ["foreground"]
    assert completed(laneway, "laneway sessions stop chat") == ["chat-1", "chat-2"]
    assert completed(laneway, "laneway users set user-of-m") == ["user-of-mail"]
    assert completed(laneway, "laneway tasks resume s") == ["summarize"]


@pytest.mark.parametrize(("shell", "says"), [("bash", "complete -o nosort"), ("zsh", "compdef"), ("fish", "complete ")])
def test_a_script_is_printed_for_each_shell(invoke: Invoke, shell: str, says: str) -> None:
    script = invoke("completion", shell)
    record = json.loads(invoke("completion", shell, "--json").stdout)

    assert script.exit_code == 0
    assert says in script.stdout
    assert "_LANEWAY_COMPLETE" in script.stdout
    assert (record["shell"], record["script"]) == (shell, script.stdout[:-1])


def test_bash_reads_the_script(laneway: Laneway) -> None:
    script = laneway("completion", "bash").stdout

    subprocess.run(["bash", "-n"], input=script, text=True, check=True)


def test_a_shell_nobody_knows_is_wrong_use(invoke: Invoke) -> None:
    assert invoke("completion", "tcsh").exit_code == 2


def test_asking_for_commands_imports_nothing_slow() -> None:
    program = (
        "import os, sys, laneway.cli as c\n"
        "os.environ.update(_LANEWAY_COMPLETE='bash_complete', COMP_WORDS='laneway ru', COMP_CWORD='1')\n"
        "try: c.cli.main([])\nfinally: print(*sys.modules, file=sys.stderr)"
    )
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert "plain,runs" in shown.stdout
    assert not {"asyncio", "rich", "msgspec", "sqlite3"} & set(shown.stderr.split())
