"""serve.overview.manifests: what each kind declares, and that nothing foreign is run, expanded or guessed."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumehood.core import limits
from fumehood.serve.overview import manifests
from fumehood.serve.overview.manifests import Declared, ManifestError

KINDS = [
    "CMakeLists.txt",
    "Cargo.toml",
    "Dockerfile",
    "Gemfile",
    "Makefile",
    "composer.json",
    "go.mod",
    "package.json",
    "pom.xml",
    "pyproject.toml",
    "requirements.txt",
]
EXAMPLES: list[tuple[str, str, Declared]] = [
    (
        "pyproject.toml",
        (
            '[build-system]\nbuild-backend = "hatchling.build"\n[project]\nname = "x"\nversion = "1"\n'
            'requires-python = ">=3.11"\ndependencies = ["click>=8", "msgspec ; python_version > \'3\'"]\n'
            '[project.scripts]\nx = "x.main:run"\n[project.optional-dependencies]\nserve = []\n'
            "[dependency-groups]\ndev = []\n[tool.ruff]\nline-length = 1\n"
        ),
        {
            "name": ["x"],
            "version": ["1"],
            "needs": [">=3.11"],
            "built by": ["hatchling.build"],
            "commands": ["x = x.main:run"],
            "depends on": ["click", "msgspec"],
            "extras": ["serve"],
            "groups": ["dev"],
            "configures": ["ruff"],
        },
    ),
    (
        "pyproject.toml",
        (
            '[tool.poetry]\nname = "p"\nversion = "2"\n[tool.poetry.dependencies]\npython = "^3"\n'
            '[tool.poetry.scripts]\nr = "p:r"\n'
        ),
        {"name": ["p"], "version": ["2"], "commands": ["r = p:r"], "depends on": ["python"], "configures": ["poetry"]},
    ),
    (
        "requirements.txt",
        "# c\n-r other\nflask==2 # why\n\nrequests[socks]>=1\n",
        {"depends on": ["flask", "requests"]},
    ),
    (
        "package.json",
        (
            '{"name":"n","version":"1","main":"i.js","bin":{"c":"cli.js"},"scripts":{"test":"jest"},"engines":{"node":">=20"},'
            '"dependencies":{"a":"1"},"devDependencies":{"b":"1"},"workspaces":["packages/*"]}'
        ),
        {
            "name": ["n"],
            "version": ["1"],
            "needs": ["node = >=20"],
            "begins at": ["i.js"],
            "commands": ["c = cli.js"],
            "scripts": ["test"],
            "depends on": ["a"],
            "develops with": ["b"],
            "workspaces": ["packages/*"],
        },
    ),
    ("package.json", '{"bin":"x.js","workspaces":{"packages":["p"]}}', {"commands": ["x.js"], "workspaces": ["p"]}),
    ("composer.json", '{"name":"a/b","require":{"php":">=8"}}', {"name": ["a/b"], "depends on": ["php"]}),
    (
        "Cargo.toml",
        (
            '[package]\nname="c"\nversion="1"\nedition="2024"\n[[bin]]\nname="run"\n[dependencies]\nserde="1"\n'
            '[dev-dependencies]\nt="1"\n[workspace]\nmembers=["a"]\n'
        ),
        {
            "name": ["c"],
            "version": ["1"],
            "needs": ["edition 2024"],
            "commands": ["run"],
            "depends on": ["serde"],
            "develops with": ["t"],
            "workspaces": ["a"],
        },
    ),
    (
        "go.mod",
        (
            "module example.org/m\ngo 1.23\nrequire (\n\tgithub.com/a/b v1.2.3\n\tgopkg.in/y v0.1.0 // indirect\n)\n"
            "require golang.org/x/z v0.0.1\n"
        ),
        {
            "name": ["example.org/m"],
            "needs": ["go 1.23"],
            "depends on": ["github.com/a/b", "gopkg.in/y", "golang.org/x/z"],
        },
    ),
    (
        "pom.xml",
        (
            '<?xml version="1.0"?><project xmlns="http://maven.apache.org/POM/4.0.0"><parent><version>9</version></parent>'
            "<groupId>g</groupId><artifactId>a</artifactId><version>1</version><modules><module>m</module></modules>"
            "<dependencies><dependency><groupId>q</groupId><artifactId>d</artifactId></dependency></dependencies></project>"
        ),
        {"group": ["g"], "name": ["a"], "version": ["1"], "workspaces": ["m"], "depends on": ["d"]},
    ),
    (
        "Gemfile",
        "ruby '3.3'\ngem 'rails', '~> 8'\n  gem(\"pg\")\n# gem 'no'\n",
        {"needs": ["ruby 3.3"], "depends on": ["rails", "pg"]},
    ),
    ("Makefile", "X := 1\nall: test\n\ttrue\ntest:\n.PHONY: all\nA::= 2\n", {"targets": ["all", "test"]}),
    (
        "CMakeLists.txt",
        "project(p C)\nadd_executable(run main.c)\nADD_LIBRARY( lib a.c)\n",
        {"name": ["p"], "commands": ["run"], "libraries": ["lib"]},
    ),
    (
        "Dockerfile",
        'FROM debian:12 AS base\nexpose 80\nENTRYPOINT ["x"]\nCMD y\n',
        {"built on": ["debian:12 AS base"], "runs": ['["x"]', "y"], "listens on": ["80"]},
    ),
]


@pytest.mark.parametrize(("kind", "text", "declared"), EXAMPLES)
def test_a_manifest_says_what_it_declares(kind: str, text: str, declared: Declared) -> None:
    assert manifests.declared(kind, text.encode()) == declared


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        *((kind, kind) for kind in KINDS),
        ("dockerfile", "Dockerfile"),
        ("Dockerfile.dev", "Dockerfile"),
        ("Containerfile", "Dockerfile"),
        ("makefile", "Makefile"),
        ("requirements-dev.txt", "requirements.txt"),
        ("notes.txt", None),
        ("package-lock.json", None),
    ],
)
def test_a_manifest_is_known_by_its_name(name: str, kind: str | None) -> None:
    assert manifests.kind(name) == kind


BOMB = '<!DOCTYPE p [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><project><artifactId>&b;</artifactId></project>'


@pytest.mark.threat("T8")
@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("pom.xml", BOMB),
        ("pom.xml", '<!DOCTYPE p SYSTEM "file:///etc/passwd"><project/>'),
        ("pom.xml", "<project>" * 100),
        ("pom.xml", "<project>&undefined;</project>"),
        ("pom.xml", "no xml"),
        ("package.json", "[" * 100_000),
        ("package.json", "[1]"),
        ("package.json", '{"a":1,"a":2}'),
        ("pyproject.toml", "a = " + "[" * 50_000),
        ("pyproject.toml", "= x"),
        ("Cargo.toml", "a" * 10),
    ],
)
def test_a_hostile_manifest_is_refused(kind: str, text: str) -> None:
    with pytest.raises(ManifestError) as error:
        manifests.declared(kind, text.encode())
    assert str(error.value) == "not of its grammar"


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
def test_any_text_gives_bounded_words_or_a_refusal(kind: str, data: st.DataObject) -> None:
    text = data.draw(st.text(max_size=80) | st.sampled_from([one[1] for one in EXAMPLES]).flatmap(_mangled))
    with contextlib.suppress(ManifestError):
        for words in manifests.declared(kind, text.encode("utf-8", "replace")).values():
            assert 0 < len(words) <= limits.OVERVIEW_WORDS + 1
            assert all("\n" not in word and len(word) <= limits.OVERVIEW_WORD_CHARACTERS for word in words)


def _mangled(text: str) -> st.SearchStrategy[str]:
    return st.integers(0, len(text)).map(lambda at: text[:at] + text[at + 1 :])


def test_a_long_list_says_how_many_more_there_are() -> None:
    found = manifests.declared("Makefile", "".join(f"t{n}:\n" for n in range(100)).encode())
    assert found["targets"][-1] == f"and {100 - limits.OVERVIEW_WORDS} more"


def test_values_of_another_type_are_left_out() -> None:
    text = '{"name":1,"bin":[],"scripts":"x","dependencies":[1],"workspaces":7,"engines":{"node":3}}'
    assert manifests.declared("package.json", text.encode()) == {"needs": ["node"]}
    assert manifests.declared("pyproject.toml", b'project = "x"\n[tool]\n') == {}
    assert manifests.declared("Cargo.toml", b'bin = 3\n[package]\nname = ["x"]\n') == {"name": ["x"]}


@pytest.mark.threat("T7")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "unit", ["gem 'a", "FROM ", "project(\n", "a", " ", "require \t", "\tx.y/z ", "# ", "<a>", "[[a]]\n", "\n"]
)
def test_repetition_costs_linear_time(kind: str, unit: str) -> None:
    text = (unit * (limits.OVERVIEW_MANIFEST_BYTES // len(unit))).encode()
    with contextlib.suppress(ManifestError):
        manifests.declared(kind, text)  # a pattern that backtracks takes minutes here
