"""`make oracle`: every rule of the corpus at every change of every zone's clock, 1990 to 2037."""

from __future__ import annotations

import argparse
import os
import random
import sys
import time
from concurrent.futures import ProcessPoolExecutor

from tests.oracle.asking import Tally, ask
from tests.oracle.corpus import corpus
from tests.oracle.histories import Changed, changes_of, histories

SHOWN = 20


def ask_all(changes: tuple[Changed, ...], seed: int) -> Tally:
    tally, rules, dice = Tally(), corpus(), random.Random(seed)
    for change in changes:
        tally.add(ask(change, rules, dice))
    return tally


def parts(changes: tuple[Changed, ...]) -> list[tuple[Changed, ...]]:
    return [changes[start : start + 8] for start in range(0, len(changes), 8)]


def distinct(found: dict[str, tuple[Changed, ...]]) -> dict[str, tuple[Changed, ...]]:
    """Leave out changes that another zone made at the same instant, from and to the same offset."""
    firsts: dict[object, Changed] = {}
    for changes in found.values():
        for change in changes:
            firsts.setdefault(change.shape, change)
    kept = set(firsts.values())
    return {name: tuple(change for change in changes if change in kept) for name, changes in found.items()}


def main() -> int:
    parser = argparse.ArgumentParser(prog="oracle", description=__doc__)
    parser.add_argument("--zone", help="only this zone")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--seed", type=int, default=0, help="of the instants that are asked at random")
    parser.add_argument("--share", type=float, default=1.0, help="ask about this share of the changes, 0 to 1")
    parser.add_argument("--distinct", action="store_true", help="ask once where zones changed alike at one instant")
    given = parser.parse_args()
    start, total, dice = time.monotonic(), Tally(), random.Random(given.seed)
    wanted = {given.zone: changes_of(given.zone)} if given.zone else histories()
    if given.distinct:
        wanted = distinct(wanted)
    work = [part for changes in wanted.values() for part in parts(changes) if dice.random() < given.share]
    dice.shuffle(work)
    changes = sum(map(len, work))
    print(f"{len(corpus())} rules, {len(wanted)} histories, {changes} changes of a clock", flush=True)
    with ProcessPoolExecutor(given.processes) as processes:
        for done, tally in enumerate(processes.map(ask_all, work, range(len(work))), start=1):
            if tally.mismatches and len(total.mismatches) < SHOWN:
                print(*tally.mismatches[: SHOWN - len(total.mismatches)], sep="\n", flush=True)
            total.add(tally)
            if done % 50 == 0 or done == len(work):
                passed = time.monotonic() - start
                wrong = len(total.mismatches)
                print(f"{done}/{len(work)}: {total.cases:,} cases, {wrong} mismatches, {passed:.0f} s", flush=True)
    print(f"{total.cases:,} cases, {total.answers:,} answers compared, {len(total.mismatches)} mismatches")
    return 1 if total.mismatches else 0


if __name__ == "__main__":
    sys.exit(main())
