"""What the submissions of a session are like, for those who make them and for the rules that check them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from laneway.core.records.policy import Mode


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionShape:
    """What the submissions of a session are like: modes to draw from, and shares of debounced and delayed ones."""

    modes: Sequence[Mode] = (Mode.QUEUE,)
    max_concurrent: int = 1
    cap: int = 6
    drop: str = "old"
    pass_on_retry: bool = False
    debounced: float = 0
    delayed: float = 0
    failing: float = 0.1
    longest: float = 0.15  # seconds a handler takes, at most
    lane: str = "wide"
    people: int = 1  # users who write into it
    tasks: Sequence[str] = ("reply",)
    stopped: bool = False  # an operator may stop it

    @property
    def steers(self) -> bool:
        """Tell whether messages may reach a run that is active."""
        return Mode.STEER in self.modes

    @property
    def clears(self) -> bool:
        """Tell whether an active run may be cancelled."""
        return Mode.INTERRUPT in self.modes or self.stopped

    @property
    def plain(self) -> bool:
        """Tell whether a run joins when it is accepted."""
        return not self.debounced and not self.delayed

    @property
    def single_file(self) -> bool:
        """Tell whether its messages are answered in the order in which they were written, one after the other."""
        alone = self.max_concurrent == 1 and self.people == 1 and len(self.tasks) == 1
        return alone and not (self.pass_on_retry or self.steers or self.delayed)
