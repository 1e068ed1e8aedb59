"""The command: `python -m bench [--rows NAME ...] [--quick | --full] [--peers] [--markdown | --json]`."""

from __future__ import annotations

import argparse
import asyncio
import shlex
import signal
import sys
import traceback
from collections.abc import Sequence
from time import monotonic

from bench import events, growth, idle, jobs, latency, memory, peers, recovery, throughput
from bench.plan import FULL, QUICK, Plan, working_folder
from bench.report import as_json, below, is_busy, machine, markdown, table
from bench.rows import Experiment, Result
from bench.servers import redis_as_deployed

EXPERIMENTS = (
    *(*throughput.EXPERIMENTS, *latency.EXPERIMENTS, *events.EXPERIMENTS),
    *(*growth.EXPERIMENTS, *memory.EXPERIMENTS, *jobs.EXPERIMENTS, *recovery.EXPERIMENTS, *idle.EXPERIMENTS),
)


def main(arguments: Sequence[str]) -> int:
    """Measure, print, and return 1 if a row is below its must or raised, 2 for a row that does not exist."""
    options = parsed(arguments)
    known = [*EXPERIMENTS, *(peer_experiments() if options.peers else ())]
    if options.list:
        print("\n".join(f"{row.name:<20} {row.title}" for each in known for row in each.rows))
        return 0
    for name in options.rows:
        if not any(names_of(each, [name]) for each in known):
            say(f"there is no row {name!r}; --list shows all")
            return 2
    with working_folder() as folder, redis_as_deployed(folder) as redis:
        plan = Plan(folder=folder, **(QUICK if options.quick else FULL if options.full else {}))
        place = machine(folder, redis)
        if is_busy():
            say(f"the machine is busy ({place}); the figures will be noisy")
        results, failed = measured(known, plan, options.rows)
        print(printed(results, place, arguments, options))
    for name in failed:
        say(f"could not be measured: {name}")
    for result in below(results):
        say(f"below its must: {result.row.name}")
    return 1 if failed or below(results) else 0


def parsed(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        "python -m bench", description="Measure laneway as ratios to what the machine can do."
    )
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="small sizes, about a minute: to see that it works")
    size.add_argument(
        "--full",
        action="store_true",
        help="five rounds, more samples, a minute of idling: for a figure that is to be published",
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--markdown", action="store_true", help="print the table as docs/benchmarks.md has it")
    form.add_argument("--json", action="store_true", help="print all rounds")
    parser.add_argument(
        "--rows", nargs="+", default=[], metavar="NAME", help="these rows only; 'drain' means all drain.*"
    )
    parser.add_argument(
        "--peers", action="store_true", help="compare with other libraries too, those that are installed"
    )
    parser.add_argument("--list", action="store_true", help="list the rows")
    return parser.parse_args(arguments)


def names_of(experiment: Experiment, rows: Sequence[str]) -> list[str]:
    """Return the names of the experiment's rows that were asked for; nothing asked for means all."""
    names = [row.name for row in experiment.rows]
    return [name for name in names if not rows or any(name == row or name.startswith(f"{row}.") for row in rows)]


def peer_experiments() -> Sequence[Experiment]:
    """Return the experiments against the peers that are installed; print which are not."""
    for peer in peers.PEERS:
        if not peer.installed:
            say(f"{peer.name} is not installed (pip install '{peer.package}'): none of its rows")
    return [each for peer in peers.PEERS if peer.installed for each in peer.experiments]


def measured(known: Sequence[Experiment], plan: Plan, rows: Sequence[str]) -> tuple[list[Result], list[str]]:
    """Run the experiments with these rows, each on a loop of its own; return also the names of those that raised."""
    chosen = [each for each in known if names_of(each, rows)]
    results, failed = list[Result](), list[str]()
    start = monotonic()
    for index, experiment in enumerate(chosen, 1):
        names = names_of(experiment, rows)
        say(f"[{index}/{len(chosen)}] {monotonic() - start:4.0f} s  {', '.join(names)}")
        try:
            results += [found for found in asyncio.run(experiment.run(plan)) if found.row.name in names]
        except Exception:  # noqa: BLE001  # minutes of measuring must not be lost with one experiment
            traceback.print_exc()
            failed += names
    say(f"measured in {monotonic() - start:.0f} s")
    return results, failed


def printed(results: Sequence[Result], place: str, arguments: Sequence[str], options: argparse.Namespace) -> str:
    if options.json:
        return as_json(results, place)
    if options.markdown:
        return markdown(results, place, shlex.join(["python", "-m", "bench", *arguments]))
    return table(results)


def say(line: str) -> None:
    print(f"bench: {line}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    # Ended from outside, it still removes its files.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    sys.exit(main(sys.argv[1:]))
