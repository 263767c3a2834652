"""What is typed is a plain command, one package in one version, or is refused with the reason."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumehood.gateway.guard import command
from fumehood.gateway.guard.command import CommandError, Package, Plain


@pytest.mark.parametrize(
    "words",
    [
        ["node", "server.js"],
        ["python3", "-m", "server"],
        ["/srv/server", "--docker"],
        ["npm", "start"],
        ["uv", "--version"],
        ["./server"],
    ],
)
def test_a_plain_command_stays_as_it_is(words: list[str]) -> None:
    assert command.read(words) == Plain(program=words[0], arguments=tuple(words[1:]))


@pytest.mark.parametrize(
    ("words", "name", "version", "arguments"),
    [
        (["npx", "server@1.2.3"], "server", "1.2.3", ()),
        (["npx", "-y", "@a/b@1.2.3-rc.1", "/srv", "-v"], "@a/b", "1.2.3-rc.1", ("/srv", "-v")),
        (["/usr/bin/npx", "--yes", "-q", "--", "b@0.0.1+x", "--"], "b", "0.0.1+x", ("--",)),
    ],
)
def test_a_package_has_one_exact_version(words: list[str], name: str, version: str, arguments: tuple[str, ...]) -> None:
    assert command.read(words) == Package(name=name, version=version, arguments=arguments)


@pytest.mark.threat("G2")
@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "there is no command"),
        ([""], "there is no command"),
        (["node", "a\0b"], "NUL byte"),
        (["docker", "run", "x"], "a container is started by its daemon"),
        (["/usr/bin/podman", "run"], "a container is started by its daemon"),
        (["sudo", "node"], "nobody gets other rights"),
        (["uvx", "server==1"], "packages of PyPI cannot be acquired"),
        (["pipx", "run", "x"], "packages of PyPI cannot be acquired"),
        (["uv", "tool", "run", "x"], "it would fetch and run"),
        (["npm", "exec", "x"], "it would fetch and run"),
        (["pnpm", "dlx", "x"], "it would fetch and run"),
        (["npx"], "it names no package"),
        (["npx", "-y"], "it names no package"),
        (["npx", "-c", "x"], "the option '-c' is not known"),
        (["npx", "--package=x", "y"], "is not known"),
        (
            ["npx", "server"],
            "no version is named (write the exact one: npx -y server@1.2.3; npm view server version tells the newest)",
        ),
        (["npx", "server@latest"], "'latest' may be another one tomorrow"),
        (["npx", "server@^1.0.0"], "may be another one tomorrow"),
        (["npx", "server@1.0"], "may be another one tomorrow"),
        (["npx", "git+https://x/y"], "is no name of a package"),
        (["npx", "../server"], "is no name of a package"),
        (["npx", "a" * 215 + "@1.0.0"], "is no name of a package"),
    ],
)
def test_what_cannot_be_confined_or_pinned_is_refused(words: list[str], said: str) -> None:
    with pytest.raises(CommandError) as refused:
        command.read(words)
    assert said in str(refused.value)
    assert refused.value.remedy


@given(st.lists(st.text(max_size=20), max_size=4))
def test_any_words_are_read_or_refused(words: list[str]) -> None:
    try:
        found = command.read(words)
    except CommandError:
        return
    assert isinstance(found, Plain | Package)
    if isinstance(found, Plain):
        assert [found.program, *found.arguments] == words


@given(st.text(max_size=30))
def test_a_package_is_never_a_path_or_an_option(word: str) -> None:
    try:
        found = command.package(word)
    except CommandError:
        return
    assert ".." not in found.name.split("/")
    assert not found.name.startswith(("-", "/", "."))


def test_the_folder_that_shows_a_program() -> None:
    assert command.suggestion("/srv/venv/bin/python") == "/srv/venv"
    assert command.suggestion("/srv/server/run") == "/srv/server"
