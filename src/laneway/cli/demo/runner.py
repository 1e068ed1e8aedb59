"""Runs the demo: the chapters in order, then the ledger and what to try next."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from laneway.cli.demo.chapters import CHAPTERS
from laneway.cli.demo.context import DemoContext, Fact
from laneway.cli.demo.ledger import Ledger, audit
from laneway.cli.demo.sandbox import COMMAND, Sandbox, sandbox
from laneway.cli.demo.screen import Screen
from laneway.cli.shell.errors import FAILED, FINE, INTERRUPTED, say
from laneway.cli.shell.formats import spoken
from laneway.cli.shell.output import print_json
from laneway.errors import LanewayError

CHAPTER_WITHIN = 25.0  # seconds before a chapter counts as stuck
QUICK = 0.25  # handlers are this much shorter with --check


@dataclass
class Report:
    """The results of the demo."""

    facts: list[Fact] = field(default_factory=list)
    ledger: Ledger | None = None
    seconds: float = 0.0

    @property
    def broken(self) -> list[Fact]:
        """The facts that do not hold."""
        return [fact for fact in self.facts if not fact.holds]


def perform(*, check: bool, keep: Path | None, as_json: bool) -> int:
    """Run all chapters, print the ledger and what to try next; return the exit code."""
    try:
        return asyncio.run(_perform(Screen(moving=not check, stderr=as_json), check=check, keep=keep, as_json=as_json))
    except (KeyboardInterrupt, asyncio.CancelledError):
        say("\nstopped; its workers have ended" + (f", {keep} stays" if keep else " and its files are gone"))
        return INTERRUPTED


async def _perform(screen: Screen, *, check: bool, keep: Path | None, as_json: bool) -> int:
    report, began = Report(), time.monotonic()
    _end_orderly()
    async with sandbox(keep) as set_up:
        await _play(set_up, screen, report, pace=QUICK if check else 1.0)
        report.seconds = time.monotonic() - began
        _close(screen, report)
        if not (check or report.broken):
            _suggest(screen, set_up.directory if keep else None, report)
    if as_json:
        print_json({"v": 1, **asdict(report)})
    for fact in report.broken:
        say(f"laneway: {fact.name} is not as promised: {fact.text}")
    return FAILED if report.broken else FINE


def _end_orderly() -> None:
    """Let a closed terminal and SIGTERM do what Ctrl-C does: clean up."""
    loop, play = asyncio.get_running_loop(), asyncio.current_task()
    assert play is not None
    for number in (signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, play.cancel)


async def _play(set_up: Sandbox, screen: Screen, report: Report, *, pace: float) -> None:
    screen.line("laneway demo: a SQLite file and real processes" + (", half a minute" if pace == 1 else ""), "bold")
    async with set_up.scheduler() as app:
        worker, took = await set_up.start_worker()
        screen.command(COMMAND, f"pid {worker.pid}, ready after {spoken(took)}")
        demo = DemoContext(app, set_up, screen, worker, pace, report.facts)
        for number, (name, text, chapter) in enumerate(CHAPTERS, 1):
            screen.chapter(number, name, text)
            try:
                await asyncio.wait_for(chapter(demo), CHAPTER_WITHIN)
            except (TimeoutError, LanewayError) as error:
                why = str(error) or f"not finished after {spoken(CHAPTER_WITHIN)}"
                demo.fact(name, f"{why}; the worker's last words: {set_up.last_words()}", holds=False)
                return
        report.ledger = await audit(app, demo.receipts)
        demo.facts.append(Fact("ledger", _in_words(report.ledger), report.ledger.balanced))


def _in_words(ledger: Ledger) -> str:
    return ", ".join(f"{name} {value}" for name, value in asdict(ledger).items())


def _close(screen: Screen, report: Report) -> None:
    if report.ledger is not None:
        screen.line()
        screen.line("ledger", "bold")
        for name, value, ideal in _entries(report.ledger):
            screen.point(_verdict(value, ideal), f"{name:<33} {value:>5}")
    screen.line()
    if report.broken:
        screen.line(f"{len(report.broken)} of {len(report.facts)} facts are not as promised", "bold red")
    else:
        took = spoken(report.seconds)
        screen.line(f"all {len(report.facts)} facts hold; every figure was read from the store ({took})", "bold green")


def _entries(ledger: Ledger) -> Sequence[tuple[str, int, int | None]]:
    """Return names, values, and the value that each must have, if any."""
    return (
        ("runs submitted", ledger.submitted, None),
        ("runs started again after the kill", ledger.restarted, None),
        ("runs succeeded", ledger.succeeded, ledger.submitted),
        ("runs with exactly one done event", ledger.one_done, ledger.submitted),
        ("runs lost", ledger.lost, 0),
        ("order inversions in the session", ledger.inversions, 0),
        ("gaps in event numbers", ledger.gaps, 0),
    )


def _verdict(value: int, ideal: int | None) -> str | None:
    if ideal is None:
        return None
    return "succeeded" if value == ideal else "failed"


def _suggest(screen: Screen, kept: Path | None, report: Report) -> None:
    fetched = next((fact.run_id for fact in report.facts if fact.run_id), None)
    screen.line()
    screen.line("try next", "bold")
    steps = [f"cd {kept}"] if kept else ["laneway demo --keep tour", "cd tour"]
    steps += ["laneway runs list --user cat", f"laneway runs events {fetched}"] if kept else ["laneway runs list"]
    steps += ["laneway worker tour:app", "laneway submit tour:app report topic=lanes --wait      # in another terminal"]
    steps += ["laneway submit tour:app publish title=lanes --wait     # asks you something"]
    steps += ['laneway jobs add tick "every 10s" embed --app tour:app --args \'{"page": 1}\'']
    for step in steps:
        screen.line(f"  {step}", "cyan")
