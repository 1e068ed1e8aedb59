"""The benchmarks: what they report is right, and every one of them can be run."""

import asyncio
import json
import os
import subprocess
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench import __main__ as command
from bench import idle, pages, peers, report, servers, throughput, walk
from bench.peers import Peer
from bench.plan import ROOT, Plan, working_folder
from bench.rows import Experiment, Result, Round, Row, Verdict, percentile
from bench.subjects import WIDE, submissions
from bench.throughput import CAPPED
from laneway.stores.sqlite.checkpoints import Checkpointer
from laneway.testing.servers.binaries import CHOSEN, server_binary

RATE = Row(name="rate", title="a rate", unit="/s", must=0.35, aim=0.5)
COST = Row(name="cost", title="a cost", unit="us", better="less", must=1.3, aim=1.1)
FACT = Row(name="fact", title="a fact with {few:,} pending", unit="ms", better="less")

TINY = {"rounds": 1, "turns": 1, "runs": 1_000, "samples": 3, "claims": 200, "few": 200, "many": 1_000, "crowd": 500}
TINY |= {"finished": 1_000}


def result(row: Row, *rounds: Round) -> Result:
    return Result(row, row.title, rounds)


def returning(row: Row, *rounds: Round) -> Experiment:
    async def measure(_: Plan) -> Sequence[Sequence[Round]]:
        return [rounds]

    return Experiment((row,), measure)


@pytest.fixture(autouse=True)
def _files_go_to_the_test(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANEWAY_BENCH_DIR", str(tmp_path))


@pytest.fixture
def experiments(monkeypatch: pytest.MonkeyPatch) -> list[Experiment]:
    """Return the list of experiments that the command knows, empty at first."""
    known: list[Experiment] = []
    monkeypatch.setattr(command, "EXPERIMENTS", known)
    monkeypatch.setattr(peers, "PEERS", [])
    return known


def test_what_is_reached_is_the_best_round_and_both_of_its_sides() -> None:
    rates = result(RATE, Round(40, 100), Round(60, 200), Round(50, 80))
    costs = result(COST, Round(12, 10), Round(11, 20))

    assert (rates.best, rates.middle, rates.worst) == (Round(50, 80), Round(40, 100), Round(60, 200))
    assert (costs.best, costs.middle, costs.worst) == (Round(11, 20), Round(12, 10), Round(12, 10))


@given(st.lists(st.builds(Round, st.floats(1, 1e6), st.floats(1, 1e6)), min_size=1))
def test_the_middle_round_has_as_many_on_either_side(rounds: list[Round]) -> None:
    for row in (RATE, COST):
        judged, sign = Result(row, row.title, rounds), 1 if row is RATE else -1

        figures = [sign * turn.figure for turn in rounds]
        assert max(figures) == sign * judged.best.figure
        assert min(figures) == sign * judged.worst.figure
        better = sum(figure > sign * judged.middle.figure for figure in figures)
        worse = sum(figure < sign * judged.middle.figure for figure in figures)
        assert max(better, worse) <= len(rounds) // 2


@pytest.mark.parametrize(
    ("row", "ours", "verdict"),
    [
        (RATE, 0.6, Verdict.AIM),
        (RATE, 0.5, Verdict.AIM),
        (RATE, 0.4, Verdict.MUST),
        (RATE, 0.3, Verdict.BELOW),
        (COST, 1.0, Verdict.AIM),
        (COST, 1.2, Verdict.MUST),
        (COST, 1.4, Verdict.BELOW),
        (FACT, 9.9, Verdict.INFO),
    ],
)
def test_a_verdict_goes_by_must_and_aim(row: Row, ours: float, verdict: Verdict) -> None:
    assert result(row, Round(ours, 1)).verdict is verdict


def test_a_verdict_goes_by_the_figure_as_it_is_printed() -> None:
    nearly = result(RATE, Round(0.34996))
    short = result(RATE, Round(0.3494))

    assert (report.number(nearly.best.figure), nearly.verdict) == ("0.350", Verdict.MUST)
    assert (report.number(short.best.figure), short.verdict) == ("0.349", Verdict.BELOW)


@pytest.mark.parametrize(("share", "expected"), [(0.5, 50), (0.99, 99), (1.0, 100), (0.001, 1)])
def test_a_percentile_is_one_of_the_samples(share: float, expected: int) -> None:
    assert percentile(list(range(100, 0, -1)), share) == expected


def test_the_table_shows_must_aim_and_what_was_reached() -> None:
    shown = report.table([result(RATE, Round(30_000, 100_000), Round(40_000, 100_000)), result(FACT, Round(1.5))])

    heading, first, second = shown.splitlines()
    assert heading.split() == list(report.HEADINGS)
    expected = "a rate ≥ 0.35 ≥ 0.5 0.400 0.300 0.300 40,000 /s 100,000 /s must"
    assert first.split() == expected.split()
    assert second.endswith("info")


def test_the_markdown_says_when_where_and_by_which_command() -> None:
    about, blank, heading, rule, line = report.markdown(
        [result(COST, Round(12, 10))], "a machine", "the command"
    ).splitlines()

    assert "a machine" in about
    assert "`the command`" in about
    assert (blank, heading.count("|"), rule.count("|"), line.count("|")) == ("", 10, 10, 10)
    assert line.startswith("| a cost | ≤ 1.3 | ≤ 1.1 | 1.20 |")


def test_the_json_has_every_round() -> None:
    told = json.loads(report.as_json([result(COST, Round(12, 10), Round(11, 11))], "a machine"))

    [row] = told["rows"]
    assert row["rounds"] == [{"laneway": 12, "baseline": 10}, {"laneway": 11, "baseline": 11}]
    assert (row["name"], row["reached"], row["middle"], row["verdict"]) == ("cost", 1.0, 1.2, "aim")


@pytest.mark.parametrize(("ours", "status"), [(50, 0), (40, 0), (30, 1)])
def test_the_command_fails_when_a_row_is_below_its_must(
    experiments: list[Experiment], ours: float, status: int
) -> None:
    experiments.append(returning(RATE, Round(ours, 100)))

    assert command.main([]) == status


def test_the_command_goes_on_after_an_experiment_that_raises(
    experiments: list[Experiment], capsys: pytest.CaptureFixture[str]
) -> None:
    async def broken(_: Plan) -> Sequence[Sequence[Round]]:
        raise OSError("the disk is full")

    experiments += [Experiment((RATE,), broken), returning(FACT, Round(1))]

    status = command.main([])

    printed, said = capsys.readouterr()
    assert status == 1
    assert "a fact with 10,000 pending" in printed
    assert "the disk is full" in said
    assert "could not be measured: rate" in said


def test_a_row_is_chosen_by_name_or_family(experiments: list[Experiment], capsys: pytest.CaptureFixture[str]) -> None:
    names = ["drain.memory", "drain.sqlite", "drained"]
    experiments += [returning(Row(name=name, title=name, unit="/s"), Round(1)) for name in names]

    command.main(["--json", "--rows", "drain"])
    family = [row["name"] for row in json.loads(capsys.readouterr().out)["rows"]]
    command.main(["--json", "--rows", "drain.sqlite", "drained"])
    named = [row["name"] for row in json.loads(capsys.readouterr().out)["rows"]]

    assert family == ["drain.memory", "drain.sqlite"]
    assert named == ["drain.sqlite", "drained"]


def test_a_row_that_does_not_exist_is_wrong_use(
    experiments: list[Experiment], capsys: pytest.CaptureFixture[str]
) -> None:
    experiments.append(returning(RATE, Round(1)))

    assert command.main(["--rows", "rats"]) == 2
    assert "'rats'" in capsys.readouterr().err


def test_the_files_are_removed_at_the_end(tmp_path: Path) -> None:
    with working_folder() as folder:
        Plan(folder=folder).file().write_text("something")

    assert list(tmp_path.iterdir()) == []


def named(experiment: Experiment) -> Any:
    name = experiment.rows[0].name
    marks = [pytest.mark.system] if name.startswith(("pickup", "recovery")) else []  # these start other processes
    if {"redis", "postgres"} & set(name.split(".")) and not name.startswith(("submit", "bulk", "pickup")):
        marks.append(pytest.mark.chaos)  # the same on every store: memory and SQLite show that it can be run
    return pytest.param(experiment, id=name, marks=marks)


@pytest.mark.parametrize("experiment", list(map(named, command.EXPERIMENTS)))
def test_every_experiment_can_be_run(experiment: Experiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(idle, "SETTLE", 0)

    results = asyncio.run(experiment.run(Plan(folder=tmp_path, idle=0.1, **TINY)))

    assert [each.row for each in results] == list(experiment.rows)
    assert all(each.rounds and each.worst.ours >= 0 for each in results)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("installed", [True, False])
def test_a_peer_that_is_missing_is_named_and_has_no_rows(
    experiments: list[Experiment], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], installed: bool
) -> None:
    experiments.append(returning(FACT, Round(1)))
    modules = ("json",) if installed else ("json", "no_such_module")
    peer = Peer("somebody", "somebody[fast]", modules, (returning(RATE, Round(50, 100)),))
    monkeypatch.setattr(peers, "PEERS", [peer])

    assert command.main(["--peers", "--json"]) == 0

    printed, said = capsys.readouterr()
    names = [row["name"] for row in json.loads(printed)["rows"]]
    assert names == (["fact", "rate"] if installed else ["fact"])
    assert ("somebody is not installed (pip install 'somebody[fast]')" in said) is not installed


@pytest.mark.chaos  # peers are not in the lock, so `make test` does not have them
@pytest.mark.parametrize(
    ("peer", "experiment"),
    [pytest.param(peer, each, id=each.rows[0].name) for peer in peers.PEERS for each in peer.experiments],
)
def test_every_installed_peer_can_be_measured(peer: Peer, experiment: Experiment, tmp_path: Path) -> None:
    if not peer.installed:
        pytest.skip(f"{peer.name} is not installed")

    [result] = asyncio.run(experiment.run(Plan(folder=tmp_path, **TINY)))

    assert result.rounds[0].base
    assert list(tmp_path.iterdir()) == []


def test_every_row_is_explained_in_the_documentation() -> None:
    text = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")

    rows = [row for experiment in (*command.EXPERIMENTS, *peers.EXPERIMENTS) for row in experiment.rows]
    assert [row.name for row in rows if f"`{row.name}`" not in text] == []


@pytest.mark.parametrize(
    ("library", "own", "shown"),
    [
        ("libthere.so", "libc", "Valkey 9.9.9 (jemalloc for its own libc)"),
        (None, "libc", "Valkey 9.9.9 (libc)"),
        ("libthere.so", "jemalloc-5.3.0", "Valkey 9.9.9 (jemalloc)"),
    ],
)
def test_redis_servers_have_the_allocator_that_they_are_deployed_with(
    library: str | None, own: str, shown: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "valkey-server"
    program.write_text(f'#!/bin/sh\necho "Valkey server v=9.9.9 sha=0:1 malloc={own} $LD_PRELOAD"\n')
    program.chmod(0o755)
    monkeypatch.delenv(CHOSEN, raising=False)
    monkeypatch.setattr(servers, "server_binary", lambda: program)
    monkeypatch.setattr(servers, "find_library", lambda _: library)

    with servers.redis_as_deployed(tmp_path) as redis:
        assert redis == shown
        if chosen := os.environ.get(CHOSEN):
            said = subprocess.run([chosen, "--version"], check=True, capture_output=True, text=True).stdout
            assert said.split()[-1] == library
        assert bool(chosen) is ("for its own" in shown)
    assert CHOSEN not in os.environ


def test_a_redis_that_was_chosen_is_left_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = server_binary()
    monkeypatch.setenv(CHOSEN, str(program))
    monkeypatch.setattr(servers, "find_library", lambda _: "libthere.so")

    with servers.redis_as_deployed(tmp_path) as redis:
        assert "there" not in redis
        assert os.environ[CHOSEN] == str(program)


def test_limited_runs_leave_nobody_to_the_end() -> None:
    runs = throughput.limited(5_000)

    assert set(Counter(run.user for run in runs).values()) == {5_000 // throughput.USERS}
    assert set(Counter(run.session for run in runs).values()) == {5_000 // throughput.USERS // throughput.SESSIONS}
    assert len({run.priority for run in runs[: throughput.USERS]}) == 3
    assert runs == throughput.limited(5_000)


def test_pages_of_the_log_are_counted_by_what_they_belong_to(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(Checkpointer, "after_commit", lambda *_: None)

    counted, commits = asyncio.run(pages.drain(tmp_path / "plain.db", WIDE, submissions(1_000)))
    limited, steps = asyncio.run(pages.drain(tmp_path / "limited.db", CAPPED, throughput.limited(1_000)))

    assert {"outcome", "lease", "ready", "worker"} <= counted.keys()
    assert not counted.keys() & {"held", "session"}
    assert {"held", "session", "parked"} <= limited.keys()
    assert counted.total() / commits < limited.total() / steps < 2 * counted.total() / commits


async def test_a_run_is_followed_from_its_submission_to_its_result(tmp_path: Path) -> None:
    plan = Plan(folder=tmp_path)
    plain = await walk.walk(plan, "memory", {})
    with_a_session = await walk.walk(plan, "memory", {"user": "ann", "session": "chat-1"})

    assert "scheduler.py" in plain.files
    assert 0 < len(plain.files) <= plain.functions <= sum(map(len, plain.calls.values()))
    assert with_a_session.functions > plain.functions
    assert plain.switches > 0
