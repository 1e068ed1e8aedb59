"""Who wins about a lane: set at run time, then the environment, then the file, then the code, then the default."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from laneway import BadSetting, Lane, Scheduler
from laneway.engine.config.lane_declarations import declared
from laneway.testing import FakeClock


def lanes(
    tmp_path: Path, code: list[Lane] | None = None, file: str = "", **environment: str
) -> dict[str, tuple[int, int | None]]:
    """Return the limits that are declared."""
    path = tmp_path / "laneway.toml"
    path.write_text(file, encoding="utf-8")
    return {lane.name: (lane.limit, lane.per_user) for lane in declared(code or [], environment, path)}


def test_nothing_declared_leaves_everything_as_the_store_has_it(tmp_path: Path) -> None:
    assert declared([], {}, tmp_path / "laneway.toml") == ()


def test_the_last_word_wins(tmp_path: Path) -> None:
    code, file = [Lane("main", limit=1, per_user=1)], "[lanes.main]\nlimit = 2\n[lanes.batch-jobs]\nlimit = 7\n"

    assert lanes(tmp_path, code) == {"main": (1, 1)}
    assert lanes(tmp_path, code, file) == {"main": (2, 1), "batch-jobs": (7, None)}
    assert lanes(tmp_path, code, file, LANEWAY_LANE_MAIN="3", LANEWAY_LANE_BATCH_JOBS="8") == {
        "main": (3, 1),
        "batch-jobs": (8, None),
    }
    assert lanes(tmp_path, None, "", LANEWAY_LANE_BACKGROUND="6") == {"background": (6, 1)}


def test_a_variable_that_is_empty_is_not_set(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = "[lanes.main]\nlimit = 2\n"

    with caplog.at_level(logging.WARNING):
        found = lanes(tmp_path, None, file, LANEWAY_LANE_MAIN="", LANEWAY_LANE_TEAM="", LANEWAY_LANE_MIAN="")

    assert found == lanes(tmp_path, None, file)
    assert caplog.text == ""


def test_a_variable_that_names_no_lane_is_reported_and_ignored(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        assert lanes(tmp_path, None, "", LANEWAY_LANE_MIAN="3") == {}

    assert "LANEWAY_LANE_MIAN names no lane" in caplog.text


@pytest.mark.parametrize(
    ("file", "environment", "message"),
    [
        ("", {"LANEWAY_LANE_MAIN": "0"}, "LANEWAY_LANE_MAIN is '0'; it must be a whole number, 1 or more"),
        ("", {"LANEWAY_LANE_MAIN": " "}, "LANEWAY_LANE_MAIN is ' '; it must be a whole number, 1 or more"),
        ("", {"LANEWAY_LANE_MAIN": "many"}, "LANEWAY_LANE_MAIN is 'many'; it must be a whole number, 1 or more"),
        ("[lanes.main]\nlimit = 0", {}, "laneway.toml: Lane('main').limit is 0; it must be a whole number, 1 or more"),
        ("[lanes.main]\nlimt = 5", {}, "did you mean 'limit'?"),
        ("[lanes]\nmain = 5", {}, "write each lane as a table: [lanes.main], and below it limit = 40"),
        ("[lanes", {}, "laneway.toml is not TOML: "),
    ],
)
def test_a_wrong_declaration_says_what_to_change(
    tmp_path: Path, file: str, environment: dict[str, str], message: str
) -> None:
    with pytest.raises(BadSetting) as caught:
        lanes(tmp_path, None, file, **environment)

    assert message in str(caught.value)


async def test_what_an_operator_set_survives_a_deploy(tmp_path: Path, clock: FakeClock) -> None:
    url = f"sqlite:///{tmp_path / 'laneway.db'}"
    async with Scheduler(url, clock=clock, lanes=[Lane("main", limit=5)]) as app:
        declared_limit = (await app.lanes.get("main")).lane.limit
        await app.lanes.set(Lane("main", limit=9))
    async with Scheduler(url, clock=clock, lanes=[Lane("main", limit=6)]) as app:
        state = await app.lanes.get("main")
        await app.lanes.unset("main")
        after = await app.lanes.get("main")

    assert declared_limit == 5
    assert (state.lane.limit, state.ruled, state.declared) == (9, True, Lane("main", limit=6))
    assert (after.lane.limit, after.ruled) == (6, False)


async def test_the_scheduler_reads_the_file_and_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clock: FakeClock
) -> None:
    (tmp_path / "laneway.toml").write_text("[lanes.team]\nlimit = 12\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LANEWAY_LANE_CRON", "4")

    async with Scheduler("memory://", clock=clock) as app:
        limits = {state.lane.name: state.lane.limit for state in await app.lanes.list()}

    assert (limits["team"], limits["cron"], limits["main"]) == (12, 4, 30)
