"""How much is measured, and where the files go."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
_files = count(1)


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The sizes of one run of the benchmarks. A row's title may name them: "behind {crowd:,} blocked sessions"."""

    folder: Path
    rounds: int = 3
    turns: int = 4  # of each side in a round
    runs: int = 5_000  # submitted or drained in one turn
    samples: int = 25  # latencies taken in one turn
    claims: int = 10_000  # claimed and settled in one round of a growth row
    few: int = 10_000  # pending, to compare with
    many: int = 1_000_000
    crowd: int = 100_000  # blocked sessions; future runs; runs of one user
    finished: int = 1_000_000
    idle: float = 10.0  # seconds

    def file(self) -> Path:
        """Return a file that does not exist yet."""
        return self.folder / f"{next(_files)}.db"


FULL: dict[str, Any] = {"rounds": 5, "samples": 100, "idle": 60.0}
QUICK: dict[str, Any] = {
    "turns": 2,
    "runs": 2_000,
    "samples": 15,
    "claims": 2_000,
    "few": 2_000,
    "many": 50_000,
    "crowd": 10_000,
    "finished": 20_000,
    "idle": 5.0,
}


@contextmanager
def working_folder() -> Iterator[Path]:
    """Make a folder on the checkout's file system, or in `LANEWAY_BENCH_DIR`; remove it at the end."""
    parent = Path(os.environ.get("LANEWAY_BENCH_DIR") or ROOT / "build")
    parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="bench-", dir=parent) as folder:
        yield Path(folder)


def remove(file: Path) -> None:
    """Remove a database and the files beside it."""
    for part in file.parent.glob(f"{file.name}*"):
        part.unlink(missing_ok=True)
