"""The prose is part of the product: its code runs, its pictures are printed from the code, its links lead somewhere."""

from __future__ import annotations

import inspect
import re
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from laneway.cli import cli
from laneway.core.records.states import TERMINAL, RunState, diagram
from laneway.scheduler import Scheduler

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / page).read_text(), flags=re.DOTALL)


def test_the_readme_shows_the_examples_that_are_shipped() -> None:
    shipped = [(ROOT / "examples" / name).read_text() for name in ("app.py", "asking.py")]

    assert blocks("README.md", "python") == shipped


async def test_the_readme_s_run_asks_and_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    first, second = blocks("README.md", "python")
    (tmp_path / "app.py").write_text(first.replace("asyncio.sleep(1)", "asyncio.sleep(0)"))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "app", raising=False)
    names: dict[str, Any] = {}
    exec(compile(second, "asking.py", "exec"), names)
    monkeypatch.delitem(sys.modules, "app")
    app: Scheduler = names["app"]

    async with app:
        receipt = await app.submit("publish", {"doc": "42"})
        await app.drain()
        await app.answer(receipt, "yes")
        await app.drain()
        assert await app.result(receipt) == "published summary of 42"


def test_every_promise_names_tests_that_are_there() -> None:
    table = (ROOT / "docs/reliability.md").read_text().split("|---|---|\n")[1].split("\n\n")[0]

    for promise in table.splitlines():
        named = re.findall(r"`([\w/]+)/(\w+\.py)(?:::(\w+))?`", promise.split("|")[2])
        assert named, promise
        for folder, name, test in named:
            # Named without the folders between, so that tests can move.
            texts = [file.read_text() for file in (ROOT / "tests" / folder).rglob(name)]
            # A test file of a store has a fixture; the contract suite's tests are collected with it.
            wanted = rf"def {test}\(" if test else r"def (test_|store\()"
            assert any(re.search(wanted, text) for text in texts), f"{folder}/{name}::{test}"


def test_the_readme_fits_on_a_screen_or_so() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= 100


def test_the_glossary_has_few_words_of_our_own() -> None:
    ours = (ROOT / "docs/glossary.md").read_text().split("|---|---|---|\n")[1].split("\n\n")[0]

    assert len(ours.splitlines()) < 25


EXAMPLES = {
    "docs/guide.md": ["submitting", "working", "stopping", "following"],
    "docs/sessions.md": ["waiting", "loading", "typing", "steering", "conversing", "preparing", "chatting"],
    "docs/lanes.md": ["operating", "keys", "asking"],
    "docs/breakers.md": ["watching"],
    "docs/events.md": ["saying", "following", "subscribing", "streaming"],
    "docs/jobs.md": ["making", "looking", "by_hand", "changing", "once", "gating", "owning"],
    "docs/attempts.md": ["stepping", "asking", "calling", "following_up", "cooking"],
}


@pytest.mark.parametrize(("page", "names"), EXAMPLES.items(), ids=list(EXAMPLES))
async def test_the_examples_run(page: str, names: list[str]) -> None:
    found: dict[str, Any] = {}
    exec(compile("\n".join(blocks(page, "python")), page, "exec"), found)
    # What takes parameters is part of an example, such as a hook.
    functions = [value for value in found.values() if inspect.iscoroutinefunction(value)]
    examples = [function for function in functions if not inspect.signature(function).parameters]
    assert [example.__name__ for example in examples] == names

    for example in examples:
        await example()


def test_the_examples_for_code_that_cannot_await_run() -> None:
    names: dict[str, Any] = {}
    exec(compile("\n".join(blocks("docs/sync.md", "python")), "docs/sync.md", "exec"), names)

    assert names["view"](doc="42") == "accepted"
    assert names["script"]() == ["summary of 42", "summary of 43"]


@pytest.mark.system
def test_the_examples_of_testing_run() -> None:
    names: dict[str, Any] = {}
    examples = [text for text in blocks("docs/testing.md", "python") if not text.startswith("# tests/")]
    exec(compile("\n".join(examples), "docs/testing.md", "exec"), names)

    names["outage"]()
    names["postgres_outage"]()


def test_the_examples_of_schedules_hold() -> None:
    text = "\n".join(blocks("docs/schedules.md", "python"))

    exec(compile(text, "docs/schedules.md", "exec"), {})  # they assert what they show

    assert text.count("assert ") > 1


def test_the_preview_is_what_is_printed() -> None:
    [text] = re.findall(
        r"^\$ laneway (.*?)```", (ROOT / "docs/schedules.md").read_text(), flags=re.DOTALL | re.MULTILINE
    )
    command, words, *table = text.splitlines()

    shown = CliRunner().invoke(cli, shlex.split(command))

    assert (shown.stderr, shown.stdout.splitlines()) == (f"{words}\n", table)


def test_the_examples_of_operating_are_accepted() -> None:
    names: dict[str, Any] = {}
    exec(compile("\n".join(blocks("docs/operating.md", "python")), "docs/operating.md", "exec"), names)

    assert set(names["app"].settings.kept_for) == TERMINAL - {RunState.FAILED}


def test_the_picture_of_a_run_s_life_is_the_table() -> None:
    assert blocks("ARCHITECTURE.md", "mermaid") == [diagram() + "\n"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text())

    missing = [target for target in targets if "://" not in target and not (page.parent / target).exists()]

    assert missing == []


def test_every_decision_is_listed() -> None:
    pages = {page.name for page in (ROOT / "docs/decisions").glob("0*.md")}

    assert set(re.findall(r"\((0[^)]+\.md)\)", (ROOT / "docs/decisions/README.md").read_text())) == pages
