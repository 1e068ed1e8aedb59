"""Scripts are assembled from the files that they need."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from laneway.errors import StoreError
from laneway.stores.redis.client.scripts import assembled, script
from laneway.testing.servers import Server
from tests.stores.redis.lua_names import LUA, code_of, top_level, used, verbs
from tests.stores.redis.tools import opened_client

NEEDS, GIVES = re.compile(r"^-- needs:(.*)", re.MULTILINE), re.compile(r"^-- gives:(.*)", re.MULTILINE)
CORE = Path(__file__).parents[4] / "src" / "laneway" / "core"
WORDS = {  # of Lua, and what servers give to scripts
    *(
        "and",
        "break",
        "do",
        "else",
        "elseif",
        "end",
        "false",
        "for",
        "function",
        "if",
        "in",
        "local",
        "nil",
        "not",
        "or",
    ),
    *("repeat", "return", "then", "true", "until", "while", "self", "KEYS", "ARGV", "redis", "cjson", "cmsgpack"),
    *("string", "table", "math", "tonumber", "tostring", "type", "select", "error", "pcall", "pairs", "ipairs", "next"),
    *("unpack", "setmetatable", "rawset"),
}
SPARE_LOCALS = 5  # of 200 in one function; those of a `do` block count inside it only


def _write(folder: Path, **texts: str) -> Path:
    for name, text in texts.items():
        path = folder / f"{name.replace('__', '/')}.lua"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


def test_what_a_file_needs_comes_before_it_and_once(tmp_path: Path) -> None:
    folder = _write(
        tmp_path,
        base="local base = {}\n",
        deep__flow="-- needs: base\nlocal flow = {}",
        runs="-- needs: base\n-- needs: deep/flow\nlocal runs = {}\n",
        verbs__go="-- needs: runs, deep/flow\nreturn 1\n",
    )

    made = assembled("verbs/go", folder)

    order = re.findall("local (base|flow|runs) = {}|return 1$", made.text, re.MULTILINE)
    assert order == ["base", "flow", "runs", ""]
    assert len(made.sha) == 40


def test_an_error_of_the_server_is_traced_to_its_file_and_line(tmp_path: Path) -> None:
    folder = _write(tmp_path, base="local base = {}\n\n", go="-- needs: base\nlocal x = nil\nreturn x.y\n")

    made = assembled("go", folder)

    lines = made.text.splitlines()
    last, first = 1 + lines.index("return x.y"), 1 + lines.index("local base = (function() local base = {}")
    assert made.place(f"ERR user_script:{last}: attempt to index local 'x' (a nil value)") == "go.lua:3"
    assert made.place(f"ERR Error running script: @user_script: {first}: no") == "base.lua:1"
    assert made.place("OOM") == ""


async def test_only_what_a_file_gives_is_seen_by_others(tmp_path: Path, redis_url: str) -> None:
    folder = _write(
        tmp_path,
        one="-- gives: one, two\nlocal one, two, three = 1, 2, 3\n",
        four="local four = 4\n",
        go="-- needs: one, four\nreturn {one, two, four, (pcall(function() return three end)) and 1 or 0}\n",
    )

    async with opened_client(redis_url) as client:
        assert await client.call(assembled("go", folder)) == [1, 2, 4, 0]


def test_every_name_that_a_file_uses_of_another_is_one_that_it_gives() -> None:
    # Lua tells only when such a line is executed.
    texts = {path.relative_to(LUA).with_suffix("").as_posix(): path.read_text() for path in LUA.rglob("*.lua")}
    codes = {name: code_of(text) for name, text in texts.items()}
    given = {name: set(re.findall(r"\w+", found[1])) for name, text in texts.items() if (found := GIVES.search(text))}
    kept = {name: top_level(code) - given.get(name, {name.rpartition("/")[2]}) for name, code in codes.items()}

    wrong = [
        f"{user} uses {name} of {owner}"
        for user, read in {user: used(code) for user, code in codes.items()}.items()
        for owner in _needed(user, texts)
        for name in kept[owner] & read
    ]

    assert wrong == []
    assert kept["rules/queue/admission"] >= {"enter", "enter_lane"}, "the files are read"


def test_every_name_that_a_file_reads_is_its_own_or_given_to_it() -> None:
    # Lua says so only when such a line is executed.
    texts = {path.relative_to(LUA).with_suffix("").as_posix(): path.read_text() for path in LUA.rglob("*.lua")}
    given = {name: _given(name, text) for name, text in texts.items()}
    frame = top_level(code_of(texts["runtime/frame"]))

    unknown = {
        f"{name}: {word}"
        for name, text in texts.items()
        for word in used(code_of(text)) - WORDS - frame - top_level(code_of(text))
        if not any(word in given[needed] for needed in _needed(name, texts))
    }

    assert unknown == set()


def test_rules_have_the_names_of_the_core_modules_that_they_restate() -> None:
    rules = {path.relative_to(LUA / "rules").with_suffix(".py") for path in LUA.glob("rules/*/*.lua")}

    assert {rule.as_posix() for rule in rules if not (CORE / rule).is_file()} == set()
    assert len(rules) > 10


def test_no_folder_of_lua_holds_more_than_fifteen_files() -> None:
    folders = {path.parent for path in LUA.rglob("*.lua")}

    assert {folder.name for folder in folders if len(list(folder.glob("*.lua"))) > 15} == set()


def _given(name: str, text: str) -> set[str]:
    found = GIVES.search(text)
    return set(re.findall(r"\w+", found[1])) if found else {name.rpartition("/")[2]}


def _needed(name: str, texts: dict[str, str]) -> set[str]:
    needed, asked = set[str](), [name]
    while asked:
        named = {name for line in NEEDS.findall(texts[asked.pop()]) for name in re.findall(r"[\w/]+", line)}
        asked += named - needed
        needed |= named
    return needed


def test_a_name_that_is_none_is_said_with_who_needs_it(tmp_path: Path) -> None:
    folder = _write(tmp_path, go="-- needs: bsae\n")

    with pytest.raises(StoreError, match=r"^lua/go.lua needs 'bsae', but there is no lua/bsae.lua$"):
        assembled("go", folder)
    with pytest.raises(StoreError, match=r"^there is no lua/verbs/birds/fly.lua$"):
        script("birds/fly")


def test_a_cycle_is_said_with_both_ends(tmp_path: Path) -> None:
    folder = _write(tmp_path, a="-- needs: b\n", b="-- needs: a\n")

    with pytest.raises(StoreError, match=r"^lua/b.lua needs 'a', which needs it: a -> b -> a$"):
        assembled("a", folder)


@pytest.mark.parametrize("name", verbs())
def test_no_script_comes_near_the_number_of_locals_that_lua_allows(redis_server: Server, name: str) -> None:
    spare = ", ".join(f"spare_{nth}" for nth in range(SPARE_LOCALS))

    # The server compiles it, and raises if there are too many.
    assert redis_server.command("SCRIPT", "LOAD", f"local {spare}\n{script(name).text}")
