"""code.service.opening: a runner that has no token file, or no address, does not start."""

import hashlib
from pathlib import Path

import pytest

from fumehood.code.service.opening import RunnerStartError, Tokens, open_runner
from fumehood.core.sections import CodeSettings
from fumehood.core.settings import SettingsError
from fumehood.wire.sockets import SocketError

pytestmark = pytest.mark.threat("C5")


def digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    file = tmp_path / "tokens"
    file.write_text(f"{digest('one' * 10)}\n{digest('two' * 10)} tools:read\n{digest('three' * 10)} tool:read_file\n")
    return file


def test_no_token_file_no_runner_not_even_on_loopback() -> None:
    with pytest.raises(RunnerStartError, match=r"code.token_file is not set.*run-a-runner"):
        open_runner(CodeSettings(host="127.0.0.1", port=0))


def test_a_broken_token_file_stops_the_start(tmp_path: Path) -> None:
    (tmp_path / "tokens").write_text("not a digest\n")
    with pytest.raises(SettingsError, match="line 1"):
        open_runner(CodeSettings(port=0, token_file=str(tmp_path / "tokens")))


def test_tokens_are_known_but_those_for_some_tools_only(token_file: Path) -> None:
    tokens = Tokens(token_file)
    assert tokens.known("one" * 10)
    assert tokens.known("two" * 10)
    assert not tokens.known("three" * 10)
    assert not tokens.known(digest("one" * 10))
    assert not tokens.known("")


def test_a_token_counts_from_the_moment_on_that_its_line_is_there(token_file: Path) -> None:
    tokens = Tokens(token_file)
    fresh = token_file.with_name("fresh")
    fresh.write_text(f"{digest('four' * 10)}\n")
    fresh.replace(token_file)
    assert (tokens.known("four" * 10), tokens.known("one" * 10)) == (True, False)


def test_a_runner_on_loopback_opens_without_a_word(token_file: Path) -> None:
    opened = open_runner(CodeSettings(host="127.0.0.1", port=0, token_file=str(token_file)))
    (listening,) = opened.sockets
    with listening:
        assert listening.getsockname()[0] == "127.0.0.1"
        assert opened.notes == ()


def test_beyond_loopback_it_is_said_that_all_travels_in_the_clear(token_file: Path) -> None:
    opened = open_runner(CodeSettings(host="0.0.0.0", port=0, token_file=str(token_file)))
    opened.sockets[0].close()
    assert "in the clear" in opened.notes[0]


def test_an_address_that_is_not_to_be_had_names_its_setting(token_file: Path) -> None:
    with pytest.raises(RunnerStartError, match=r"code\.host"):
        open_runner(CodeSettings(host="nowhere.invalid", port=0, token_file=str(token_file)))
    opened = open_runner(CodeSettings(port=0, token_file=str(token_file)))
    with opened.sockets[0] as listening, pytest.raises(SocketError, match=r"code\.port"):
        open_runner(CodeSettings(port=listening.getsockname()[1], token_file=str(token_file)))
