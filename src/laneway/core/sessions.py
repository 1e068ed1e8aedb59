"""Admission to a session: an ordered series of runs, at most `max_concurrent` of them active.

A run that is due *joins* its session. It is *admitted* at once if there is room and nobody is before it, else it is
held in the order of joining. An admitted run keeps its place until it ends, through retries and releases.

At most one admitted run has not started yet. That is what makes "runs start in the order they joined" true for every
`max_concurrent`: two unstarted runs of a session in a lane's order could be swapped there by priority or a cap.
"""

from __future__ import annotations

import msgspec


class SessionBook(msgspec.Struct, eq=False, gc=False):
    """The counts of one session. Idle when nothing is admitted and nothing held; then it need not be kept."""

    max_concurrent: int = 1
    admitted: int = 0
    unstarted: int = 0
    held: int = 0
    joined: int = 0

    @property
    def idle(self) -> bool:
        """Tell whether the session holds nothing."""
        return not self.admitted and not self.held

    def admits(self) -> bool:
        """Tell whether the next in order may be admitted now."""
        return not self.unstarted and self.admitted < self.max_concurrent

    def join(self) -> int | None:
        """Count one more run: return None if it is admitted, else its place among the held (it only grows).

        >>> book = SessionBook()
        >>> book.join(), book.join(), book.join()
        (None, 1, 2)
        """
        if not self.held and self.admits():
            self.admit()
            return None
        self.held += 1
        self.joined += 1
        return self.joined

    def admit(self) -> None:
        """Count a run as admitted and not started."""
        self.admitted += 1
        self.unstarted = 1

    def admit_next(self) -> None:
        """Move one run from held to admitted."""
        self.held -= 1
        self.admitted += 1
        self.unstarted = 1

    def leave(self) -> None:
        """Count a held run as gone."""
        self.held -= 1

    def end(self, *, started: bool) -> None:
        """Count an admitted run as ended."""
        self.admitted -= 1
        if not started:
            self.unstarted = 0
