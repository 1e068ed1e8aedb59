"""The command line answers at once, explains itself, and its examples work as they stand."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

import laneway
from laneway.cli import COMMANDS, cli
from laneway.cli.shell.commands import Command, Group
from tests.cli.conftest import Invoke, Laneway

# What takes longer to import than a command's help may take
SLOW = {
    "asyncio",
    "rich",
    "msgspec",
    "sqlite3",
    "laneway.scheduler",
    "laneway.core.records.run",
    "laneway.cli.demo.runner",
}


def commands(
    group: Group = cli, path: tuple[str, ...] = ("laneway",)
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    yield path, group
    for name in group.commands:
        command = found(group, name)
        if isinstance(command, Group):
            yield from commands(command, (*path, name))
        else:
            yield (*path, name), command


def found(group: Group, name: str) -> click.Command:
    command = group.get_command(click.Context(group), name)
    assert command is not None
    return command


ALL = dict(commands())
EXAMPLES = [(path, example) for path, command in ALL.items() for example in getattr(command, "examples", ())]


def test_there_are_exactly_the_commands_of_this_version() -> None:
    assert [" ".join(path[1:]) for path in ALL] == [
        "",
        "demo",
        "worker",
        "submit",
        "drain",
        "runs",
        "runs list",
        "runs show",
        "runs events",
        "runs wait",
        "runs answer",
        "runs cancel",
        "runs pause",
        "runs resume",
        "runs retry",
        "jobs",
        "jobs list",
        "jobs show",
        "jobs calendar",
        "jobs preview",
        "jobs add",
        "jobs edit",
        "jobs enable",
        "jobs disable",
        "jobs remove",
        "jobs run",
        "jobs runs",
        "preview",
        "why",
        "lanes",
        "lanes list",
        "lanes show",
        "lanes set",
        "lanes unset",
        "lanes pause",
        "lanes resume",
        "sessions",
        "sessions list",
        "sessions show",
        "sessions set",
        "sessions unset",
        "sessions pause",
        "sessions resume",
        "sessions stop",
        "sessions stop-all",
        "sessions reset",
        "users",
        "users list",
        "users show",
        "users set",
        "users pause",
        "users resume",
        "tasks",
        "tasks list",
        "tasks close",
        "tasks pause",
        "tasks resume",
        "tasks enable",
        "tasks disable",
        "workers",
        "workers list",
        "doctor",
        "migrate",
        "move",
        "completion",
    ]


def imported(program: str) -> set[str]:
    """Return the modules that a program has imported at its end."""
    program = f"import sys\ntry:\n    {program}\nfinally:\n    print(*sys.modules, file=sys.stderr)"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return set(ended.stderr.split())


def test_help_imports_little_more_than_click() -> None:
    needed = imported("import click; click.Command('any').main(['--help'])")
    used = imported("import laneway.cli as c; c.cli.main(['--help'])")

    ours = {"laneway", "laneway.cli", "laneway.cli.shell", "laneway.cli.shell.commands", "laneway.cli.shell.errors"}
    assert ours <= used
    assert len(used - needed - ours) <= 5


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_of_a_command_imports_nothing_slow(command: str) -> None:
    used = imported(f"import laneway.cli as c; c.cli.main(['{command}', '--help'])")

    assert SLOW & used == set()


@pytest.mark.parametrize("path", ALL, ids=" ".join)
def test_every_command_has_help_with_examples(path: tuple[str, ...]) -> None:
    shown = CliRunner().invoke(cli, [*path[1:], "--help"]).stdout

    assert f"Usage: {' '.join(path)}" in shown
    assert "--debug" in shown
    assert "Examples:" in shown
    assert max(map(len, shown.splitlines())) <= 100


@pytest.mark.parametrize(("path", "example"), EXAMPLES, ids=[example for _, example in EXAMPLES])
def test_every_example_is_a_command_line_that_can_be_read(
    path: tuple[str, ...], example: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = shlex.split(example.removeprefix('eval "$(').removesuffix(')"').partition(" > ")[0])
    while "=" in words[0]:
        monkeypatch.setenv(*words.pop(0).split("=", 1))
    target: click.Command = cli
    assert words.pop(0) == "laneway"
    while isinstance(target, Group):
        target = found(target, words.pop(0))

    if "--help" not in words:
        target.make_context("laneway", words)

    assert isinstance(ALL[path], Group) or ALL[path] is target


@pytest.mark.parametrize("path", [path for path, command in ALL.items() if isinstance(command, Command)], ids=" ".join)
def test_every_verb_can_speak_json(path: tuple[str, ...]) -> None:
    assert "--json" in [name for option in ALL[path].params for name in option.opts]


@pytest.mark.parametrize("path", [path for path, command in ALL.items() if isinstance(command, Group)], ids=" ".join)
def test_the_help_of_a_group_says_in_a_whole_sentence_what_each_verb_does(path: tuple[str, ...]) -> None:
    shown = CliRunner().invoke(cli, [*path[1:], "--help"]).stdout

    listed = shown.partition("Commands:\n")[2].partition("\n\n")[0]
    assert [line for line in listed.splitlines() if line.endswith("...")] == []


def test_a_group_alone_shows_its_help(invoke: Invoke) -> None:
    for words in ([], ["runs"]):
        shown = invoke(*words)

        assert shown.exit_code == 0
        assert "Commands:" in shown.stdout


def test_the_version_is_the_packages(invoke: Invoke) -> None:
    assert invoke("--version").stdout == f"laneway {version('laneway')}\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["wroker", "app:app"], "laneway: no such command 'wroker'"),
        (["runs", "lst"], "laneway: no such command 'lst'"),
        (["runs", "list", "--limt", "3"], "laneway: no such option"),
        (["runs", "list", "--limit", "many"], "laneway: invalid value for '--limit'"),
        (["runs", "show"], "laneway: missing argument 'ID'"),
        (["runs", "pause"], "laneway: missing argument 'ID...'"),
        (["worker"], "laneway: missing argument 'APP'"),
        (["submit"], "laneway: give APP and TASK"),
    ],
)
def test_wrong_use_is_one_line_and_a_way_on(invoke: Invoke, words: list[str], said: str) -> None:
    result = invoke(*words)

    first, second = result.stderr.splitlines()
    assert result.exit_code == 2
    assert first.startswith(said)
    assert second.startswith("  try: laneway")
    assert result.stdout == ""


def test_every_public_name_can_be_imported() -> None:
    assert {name: getattr(laneway, name).__name__ for name in laneway.__all__} == {
        name: name for name in laneway.__all__
    }
    assert set(laneway.__all__) <= set(dir(laneway))
    with pytest.raises(AttributeError, match="no attribute 'Schedule'"):
        _ = laneway.Schedule  # type: ignore[attr-defined]


@pytest.mark.system
def test_a_closed_pipe_ends_it_silently(laneway: Laneway, folder: Path) -> None:
    for n in range(3):
        assert laneway("submit", "app:app", "anything", f"value={n}").returncode == 0

    # Larger than a pipe holds: the second of the two writes meets a reader that has gone.
    program = f"{shlex.quote(sys.executable)} -m laneway runs list --ndjson | (exec <&-; true); echo ${{PIPESTATUS[0]}}"
    shown = subprocess.run(["bash", "-c", program], cwd=folder, capture_output=True, text=True, check=True)

    assert (shown.stdout, shown.stderr) == ("0\n", "")
