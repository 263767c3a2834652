"""Names that are never served."""

import subprocess
import sys
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumehood.core.errors import RefusedError
from fumehood.fence import denytable
from fumehood.fence.denylist import Denylist

BUILT_IN = Denylist()
EXAMPLES = [rule.pattern.replace("*", "x") for rule in denytable.TABLE]
ORDINARY = [
    "src/main.py",
    "README.md",
    "environment.py",
    "keys.py",
    "monkey",
    ".gitignore",
    ".github/workflows/ci.yml",
    ".env.example",
    "deploy/.env.template",
    "id_rsa.pub",
    ".docker/Dockerfile",
    "locales/en/auth.json",
    "config.json",
    "src/settings.xml",
    "gradle.properties",
    "history.txt",
    "keyboard.c",
    "tests/test_env.py",
    "Makefile",
    "notes.bak",
    "version~",
    "a~b",
    "日本語.txt",
    "",
    ".",
]


@pytest.mark.threat("T3")
@pytest.mark.parametrize("name", EXAMPLES)
def test_every_row_of_the_table_denies_in_any_case_and_at_any_depth(name: str) -> None:
    for spelling in (name, name.upper(), name.title(), f"a/b/{name}", f"{name}/below/it"):
        assert BUILT_IN.denies(spelling.encode()), spelling


@pytest.mark.parametrize("name", ORDINARY)
def test_ordinary_names_are_served(name: str) -> None:
    assert not BUILT_IN.denies(name.encode())
    folder, _, last = name.rpartition("/")
    assert not BUILT_IN.denies_entry(folder, last)


@pytest.mark.threat("T3")
@pytest.mark.parametrize(
    "name",
    [
        ".env::$DATA",
        ".env:stream",
        ".git::$INDEX_ALLOCATION/config",
        "ENV~1",
        "GIT~1/config",
        "GI7EBA~1",
        "ID_RSA~2",
        "TERRAF~1.TFS",
        ".env.",
        ".env ",
        ".env . .",
        ".ENV",
        ".eNv.LoCaL",
        ".\uff45\uff4e\uff56",
        "\uff0eenv",
        "\u2024env",
        ".g\u200cit/config",
        ".gi\ufefft",
        "\u202e.env",
        ".env\u180e",
        ".\u212aube/config",  # the Kelvin sign
        ".\u017f\u017fh/config",
        ".env~",
        ".env.bak",
        ".npmrc.old~",
        "server.pem.orig",
        ".#.npmrc",
        "#.netrc#",
        ".server.pem.swp",
        "..npmrc.swp",
        ".git\\config",
        "a\\.ssh\\config",
        ".config/./gcloud/x",
        ".config//gcloud",
        ".docker\\config.json",
        "C:.env",
        "/.env",
        ".git",
        "sub/.git/HEAD",
    ],
)
def test_a_denied_name_is_denied_as_any_system_may_read_it(name: str) -> None:
    assert BUILT_IN.denies(name.encode("utf-8", "surrogateescape"))


def test_a_name_that_is_not_utf_8_is_judged_too() -> None:
    assert BUILT_IN.denies(b"\xff/.env")
    assert BUILT_IN.denies(b"\xff.pem")
    assert not BUILT_IN.denies(b"\xff.txt")


@pytest.mark.threat("T3")
def test_the_operators_lists_only_add() -> None:
    grown = Denylist(names=["private.md"], globs=["*.pass", "conf/prod*.{yml,yaml}", "**/x/**"], folders=["data/raw"])
    added = ["private.md", "Private.MD/x", "a.pass", "conf/prod1.yml", "d/conf/Prod.yaml", "x", "data/raw/f"]
    assert [name for name in added if BUILT_IN.denies(name.encode())] == []
    assert [name for name in [*added, *EXAMPLES] if not grown.denies(name.encode())] == []
    assert not grown.denies(b"data/other")
    assert not grown.denies(b"conf/dev.yml")


def test_an_operators_list_denies_what_the_table_serves_as_an_example() -> None:
    assert Denylist(names=[".env.example"]).denies(b".env.example")


def test_a_star_in_a_list_of_names_is_a_pattern_and_itself() -> None:
    denylist = Denylist(names=["*.pass", "[x]"])
    assert denylist.denies(b"a.pass")
    assert denylist.denies(b"[x]")


@pytest.mark.threat("T11")
@pytest.mark.parametrize("word", ["/", ".", "..", "**", "a/../b", "a/**/b", "", " ", "[a", "{a", "./"])
def test_a_word_that_could_deny_nothing_is_refused(word: str) -> None:
    with pytest.raises(RefusedError):
        Denylist(globs=[word])


@given(
    st.sampled_from(EXAMPLES),
    st.lists(st.sampled_from(["a", "..", ".", "src", "\u00e9"]), max_size=3),
    st.sampled_from(["", ".", " ", ":x", "::$DATA", "~", ".bak", "\u200d"]),
    st.booleans(),
)
def test_no_combination_of_disguises_lets_a_row_through(name: str, above: list[str], ending: str, wide: bool) -> None:
    plain = "".join(chr(ord(c) + 0xFEE0) if wide and "!" <= c <= "~" and c != "/" else c for c in name)
    assert unicodedata.normalize("NFKC", plain) == name
    assert BUILT_IN.denies("/".join([*above, plain + ending, "below"]).encode())


@given(st.text(max_size=30), st.text(max_size=30).filter(lambda name: "/" not in name))
def test_an_entry_is_judged_as_its_path_is(folder: str, name: str) -> None:
    if not BUILT_IN.denies_text(folder):
        assert BUILT_IN.denies_entry(folder, name) == BUILT_IN.denies_text(f"{folder}/{name}")


def test_the_globs_for_search_are_few_and_negative() -> None:
    globs = Denylist(globs=["*,*"]).search_globs()
    assert len(globs) < 10
    assert all(glob.startswith("!**/") for glob in globs)
    assert "[,]" in globs[0]


@pytest.mark.threat("T3")
def test_ripgrep_with_the_globs_passes_by_whatever_is_denied_and_nothing_else(tmp_path: Path) -> None:
    own = {"names": ["a,b"], "globs": ["*.{pass,[x]y}"], "folders": ["data/raw"]}
    denylist = Denylist(**own)
    disguised = [f"{name}{end}" for name in EXAMPLES for end in ("", "~", ".bak", ".", " ", "::$DATA")]
    short = ["ENV~1", "GIT~12", "TERRAF~1.TFS"]
    denied = [*disguised, *(name.upper() for name in EXAMPLES), *short, "A,b", "a.pass", "z.xy", "data/raw/x"]
    served = [name for name in ORDINARY if name not in ("", ".", ".env.example", "deploy/.env.template")]
    for number, name in enumerate([*denied, *served]):
        path = tmp_path / str(number) / name
        path.parent.mkdir(parents=True)
        path.write_text("x")
    command = [str(Path(sys.prefix, "bin", "rg")), "--no-config", "--no-ignore", "--hidden", "--files", "--sort=path"]
    command += [f"--iglob={glob}" for glob in denylist.search_globs()]
    listed = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=60).stdout
    found = {path.partition("/")[2] for path in listed.splitlines()}
    assert [name for name in denied if not denylist.denies(name.encode())] == []
    assert found == set(served)
