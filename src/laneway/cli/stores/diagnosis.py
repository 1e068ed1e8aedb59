"""The result of an examination: which checks are fine, which are warnings, which are wrong."""

from __future__ import annotations

import platform
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from laneway.cli.shell.formats import size, span
from laneway.cli.shell.output import console, is_terminal, one_line, speaks_unicode
from laneway.core.common.instants import SECOND

if TYPE_CHECKING:
    from laneway.core.queue.audit import Finding
    from laneway.core.records.liveness import WorkerInfo
    from laneway.ports.upkeep import Examination

FINE, WARNING, WRONG = "fine", "warning", "wrong"
MARKS = {FINE: ("✓", "+", "green"), WARNING: ("!", "!", "yellow"), WRONG: ("✗", "x", "red")}

AHEAD = 2 * SECOND  # two processes do not differ by so much
WITHOUT_BUG = (3, 51, 3)
LONG_LOG = 256 * 2**20  # bytes: many times the log after a checkpoint
LITTLE_SPACE = 100 * 2**20
MOST = 10  # findings of a kind that a terminal shows


class Check(NamedTuple):
    """One check and its result."""

    name: str
    level: str
    text: str


class Diagnosis:
    """The checks of a store, in the order of the output."""

    def __init__(
        self, url: str, examination: Examination, repaired: list[Finding], now: int, file: Path | None
    ) -> None:
        self.url, self.examination, self.repaired = url, examination, repaired
        self._now, self._file = now, file
        self.facts = [
            *(*self._versions(), *self._server(), *self._health()),
            *(*self._time(), *self._room(), *self._life()),
        ]

    @property
    def well(self) -> bool:
        """Tell whether nothing is wrong; warnings do not count."""
        return all(fact.level != WRONG for fact in self.facts)

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON."""
        found = self.examination
        return {
            "v": 1,
            "well": self.well,
            "store": self.url,
            "facts": [fact._asdict() for fact in self.facts],
            "engine": found.engine,
            "layout": found.layout,
            "newest_layout": found.newest_layout,
            "sizes": found.sizes,
            "runs": found.runs,
            "damage": found.damage,
            "findings": found.findings,
            "repaired": self.repaired,
        }

    def _versions(self) -> Iterator[Check]:
        from importlib.metadata import version

        found = self.examination
        yield Check("python", FINE, platform.python_version())
        yield Check("laneway", FINE, version("laneway"))
        yield _engine(found.engine)
        if found.layout == found.newest_layout:
            yield Check("layout", FINE, str(found.layout))
        elif not found.layout:
            yield Check("layout", WRONG, "cannot be read")
        else:
            text = f"{found.layout}; this laneway uses {found.newest_layout}: `laneway migrate` moves it forward"
            yield Check("layout", WARNING, text)

    def _server(self) -> Iterator[Check]:
        found = self.examination
        if found.kept is not None:
            yield Check("restart", FINE, f"keeps {found.kept}")
        yield from (Check("server", WARNING, text) for text in found.warnings)

    def _health(self) -> Iterator[Check]:
        found = self.examination
        if found.damage:
            advice = "stop all workers, keep a copy of the file, and restore a backup"
            yield Check("integrity", WRONG, f"the file is damaged: {advice}")
            yield from (Check("integrity", WRONG, text) for text in found.damage)
        else:
            yield Check("integrity", FINE, "fine")
        yield from (Check("repaired", FINE, f"{finding.what}: {finding.wrong}") for finding in self.repaired)
        if found.findings:
            yield from (Check("counts", WRONG, f"{finding.what}: {finding.wrong}") for finding in found.findings)
        elif found.findings is None:
            yield Check("counts", WARNING, "could not be counted")
        else:
            yield Check("counts", FINE, "agree with what they count")

    def _time(self) -> Iterator[Check]:
        newest, set_back = self.examination.newest_at, self.examination.set_back
        if set_back is None:
            yield Check("clock", WARNING, "could not be compared")
            return
        ahead = 0 if newest is None else newest - self._now
        if ahead > AHEAD:
            text = f"the newest instant in the store is {span(ahead / SECOND)} ahead of this machine's clock"
            yield Check("clock", WRONG, f"{text}: it was set back, or had been wrong; set it right")
        if set_back > AHEAD:
            yield Check(
                "clock", WARNING, f"it was set back by {span(set_back / SECOND)} between two of the newest runs"
            )
        if ahead <= AHEAD and set_back <= AHEAD:
            yield Check("clock", FINE, "fine")

    def _room(self) -> Iterator[Check]:
        sizes = self.examination.sizes
        if "memory" in sizes:
            limit = f" of {size(sizes['limit'])}" if sizes.get("limit") else ", without a limit"
            yield Check("memory", FINE, f"{size(sizes['memory'])}{limit}")
        if "tables" in sizes:
            dead = f" ({sizes['dead']:,} rows wait to be vacuumed)" if sizes.get("dead") else ""
            yield Check("tables", FINE, f"{size(sizes['tables'])}{dead}")
        if "file" in sizes:
            unused = f" ({size(sizes['unused'])} of it unused)" if sizes.get("unused") else ""
            yield Check("file", FINE, f"{size(sizes['file'])}{unused}")
            long = sizes["log"] > LONG_LOG
            why = "; a reader is open for long, or no process writes and shortens it" if long else ""
            yield Check("log", WARNING if long else FINE, f"{size(sizes['log'])}{why}")
        if self._file is not None:
            free = shutil.disk_usage(self._file.absolute().parent).free
            yield Check("disk", WARNING if free < LITTLE_SPACE else FINE, f"{size(free)} free")

    def _life(self) -> Iterator[Check]:
        runs, workers = self.examination.runs, self.examination.workers
        if runs is None:
            yield Check("runs", WARNING, "could not be counted")
        else:
            yield Check("runs", FINE, ", ".join(f"{count} {state}" for state, count in runs.items()) or "none")
        if workers is None:
            yield Check("workers", WARNING, "could not be read")
            return
        states = {worker.incarnation.id: self._state_of(worker) for worker in workers}
        dead = [worker for worker in workers if states[worker.incarnation.id] != "alive"]
        yield Check("workers", FINE, f"{len(workers) - len(dead)} alive")
        for worker in dead:
            held = f"; holds {worker.running}, which the next worker takes over" if worker.running else ""
            who = f"{worker.incarnation.id} on {worker.incarnation.host}"
            yield Check("workers", WARNING, f"{who} {states[worker.incarnation.id]}{held}")

    def _state_of(self, worker: WorkerInfo) -> str:
        from laneway.engine.common.processes import is_gone

        silence = self._now - worker.renewed_at
        if worker.left:
            return "has left"
        if is_gone(worker.incarnation.process):
            return "is gone: its process has ended"
        if silence > worker.incarnation.lease:
            return f"has lapsed: not renewed for {span(silence / SECOND)}"
        return "alive"


def show(diagnosis: Diagnosis) -> None:
    """Print the checks, one on each line."""
    from rich.text import Text

    out = console()
    out.print(Text(diagnosis.url, style="bold"), soft_wrap=True)
    told: dict[tuple[str, str], int] = {}
    for name, level, text in diagnosis.facts:
        nth = told[name, level] = told.get((name, level), 0) + 1
        if nth <= MOST or not is_terminal():
            fine, plain, style = MARKS[level]
            mark = fine if speaks_unicode() else plain
            out.print(Text.assemble((mark, style), f" {name:<10} ", one_line(text)), soft_wrap=True)
        elif nth == MOST + 1:
            out.print(Text(f"  {name:<10} ... and more; --json shows all", style="bright_black"), soft_wrap=True)


def _engine(engine: str) -> Check:
    name, _, version = engine.partition(" ")
    if name == "SQLite" and tuple(map(int, version.split("."))) < WITHOUT_BUG:
        text = (
            f"{engine} has the WAL-reset bug (gone in 3.51.3). laneway avoids it; let no other program write to"
            " the file, or it may be damaged"
        )
        return Check("engine", WARNING, text)
    return Check("engine", FINE, engine)
