"""The table, in three forms: for a terminal, for the documentation, for programs."""

from __future__ import annotations

import json
import os
import platform
import sqlite3
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from bench.rows import Result, Row, Verdict

HEADINGS = ("row", "must", "aim", "reached", "middle", "worst", "laneway", "baseline", "verdict")
LEFT = {0, 8}  # columns of words; the other columns are figures


def table(results: Sequence[Result]) -> str:
    """Return the results as aligned columns."""
    lines = [HEADINGS, *map(cells, results)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join("  ".join(_aligned(line, widths)).rstrip() for line in lines)


def markdown(results: Sequence[Result], place: str, command: str) -> str:
    """Return the results as a Markdown table under a line that says when, where (`place`) and how."""
    rule = ["---" if index in LEFT else "---:" for index in range(len(HEADINGS))]
    lines = ["| " + " | ".join(line) + " |" for line in (HEADINGS, rule, *map(cells, results))]
    about = f"{datetime.now(UTC):%Y-%m-%d}, {place}. Printed by `{command}`."
    return "\n".join([about, "", *lines])


def as_json(results: Sequence[Result], place: str) -> str:
    """Return the results and their machine as JSON."""
    about = {"v": 1, "at": datetime.now(UTC).isoformat(timespec="seconds"), "machine": place}
    return json.dumps(about | {"rows": [_plain(result) for result in results]}, indent=2)


def cells(result: Result) -> tuple[str, ...]:
    """Return one line of the table."""
    row, unit, best = result.row, result.row.unit, result.best
    others = [number(turn.figure) for turn in (result.middle, result.worst)] if len(result.rounds) > 1 else ["", ""]
    return (
        result.title,
        goal(row, row.must),
        goal(row, row.aim),
        number(best.figure),
        *others,
        f"{number(best.ours)} {unit}",
        "" if best.base is None else f"{number(best.base)} {unit}",
        result.verdict.value,
    )


def goal(row: Row, figure: float | None) -> str:
    if figure is None:
        return ""
    return f"{'≥' if row.better == 'more' else '≤'} {figure:g}"


def number(figure: float) -> str:
    """Return a figure with three digits.

    >>> number(0.34961), number(123456.7), number(6.0), number(0.0100333)
    ('0.350', '123,000', '6.00', '0.0100')
    """
    text = f"{float(f'{figure:.3g}'):#.3g}"
    return f"{float(text):,.0f}" if abs(figure) >= 100 else text


def below(results: Sequence[Result]) -> list[Result]:
    """Return the rows that did not reach their must."""
    return [result for result in results if result.verdict is Verdict.BELOW]


def machine(folder: Path, redis: str) -> str:
    """Return a description of the machine; call it before measuring, or it shows our own load."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return ", ".join(
        (
            f"{os.cpu_count()} cores ({_processor()}), {memory:.0f} GB",
            f"{platform.system()} {platform.release()}, {_file_system(folder)}",
            f"{platform.python_implementation()} {platform.python_version()}, SQLite {sqlite3.sqlite_version}",
            redis,
            f"load {os.getloadavg()[0]:.1f} when it began",
        )
    )


def is_busy() -> bool:
    """Tell whether other programs use the machine: then spreads are wide, and figures not for publishing."""
    return os.getloadavg()[0] > (os.cpu_count() or 1) / 4


def _aligned(line: Sequence[str], widths: Sequence[int]) -> list[str]:
    return [
        cell.ljust(width) if index in LEFT else cell.rjust(width)
        for index, (cell, width) in enumerate(zip(line, widths, strict=True))
    ]


def _plain(result: Result) -> dict[str, object]:
    row = result.row
    return {
        "name": row.name,
        "title": result.title,
        "unit": row.unit,
        "better": row.better,
        "must": row.must,
        "aim": row.aim,
        "reached": result.best.figure,
        "middle": result.middle.figure,
        "worst": result.worst.figure,
        "rounds": [{"laneway": turn.ours, "baseline": turn.base} for turn in result.rounds],
        "verdict": result.verdict.value,
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _file_system(folder: Path) -> str:
    """Return the kind of file system that holds the folder: the mount point with the longest name that leads there."""
    try:
        mounts = [line.split()[1:3] for line in Path("/proc/mounts").read_text(encoding="utf-8").splitlines()]
    except OSError:
        return "file system unknown"
    leading = [(len(place), kind) for place, kind in mounts if folder.resolve().is_relative_to(place)]
    return max(leading)[1] if leading else "file system unknown"
