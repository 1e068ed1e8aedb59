"""How runs of dead workers are settled, for everyone who takes over from them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator

from laneway.core.jobs.record import terms
from laneway.core.lifecycle.outcome import Lapsed, Settlement, on_last_chance, settle
from laneway.core.records.policy import TaskPolicy
from laneway.core.records.run import Claimed


def judged(lapsed: Iterable[Claimed], policy: Callable[[str], TaskPolicy]) -> Iterator[tuple[Claimed, Settlement]]:
    """Yield leases of dead workers with their settlements; `policy` returns the policy of a task.

    If one of a dead worker's runs was on its last chance, only that run is charged.
    """
    by_worker: defaultdict[str, list[Claimed]] = defaultdict(list)
    for run in lapsed:
        by_worker[run.worker].append(run)
    for runs in by_worker.values():
        poison = [run for run in runs if on_last_chance(run.crashes, policy(run.task))]
        for run in runs:
            outcome = Lapsed(charged=not poison or run in poison)
            yield run, settle(run, outcome, terms(policy(run.task), run.ties))
