import hashlib
import hmac
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumehood.core import limits
from fumehood.core.settings import SettingsError
from fumehood.wire.auth import TokenFile, match, mint, parse_tokens
from fumehood.wire.published import Caller
from fumehood.wire.scopes import is_limited, known, may, needed, roles, tools
from fumehood.wire.watched import BrokenFileError, WatchedFile


def digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "tokens"
    write(path, f"{digest('first')}\n")
    return path


def write(path: Path, text: str) -> None:
    """Replace the file as a careful operator does."""
    beside = path.with_name("beside")
    beside.write_text(text)
    beside.chmod(0o600)
    beside.rename(path)


@pytest.mark.threat("T9")
def test_several_lines_are_valid_at_once_each_with_its_own_holder(file: Path) -> None:
    write(file, f"# since May\n{digest('first')}  # laptop\n\n{digest('second').upper()}\ttool:read_file  -\n")
    tokens = TokenFile(file)
    first, second = tokens.caller("first"), tokens.caller("second")
    assert first
    assert second
    assert first.principal != second.principal
    assert first.scopes is None
    assert second.scopes == frozenset({"tool:read_file"})
    assert tokens.caller("third") is None
    assert tokens.caller("") is None
    assert tokens.caller(digest("first")) is None
    assert tokens.challenge == ""


@pytest.mark.threat("T9")
@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n# nothing\n",
        "secret\n",
        f"{digest('x')[:-1]}\n",
        f"{digest('x')}{digest('x')}\n",
        f"{digest('x')} tool:\n",
        f"{digest('x')} everything\n",
        f"{digest('x')}\n{digest('x').upper()}\n",
        f"{digest('')}\n",
        f"{digest('x')}\nbroken\n",
        f"{digest('x')}\u00a0\n",
    ],
)
def test_a_token_file_that_is_not_understood_stops_the_start(tmp_path: Path, text: str) -> None:
    path = tmp_path / "tokens"
    write(path, text)
    with pytest.raises(SettingsError) as caught:
        TokenFile(path)
    assert digest("x") not in str(caught.value)


@pytest.mark.threat("T9")
def test_a_file_that_others_may_write_is_refused(file: Path) -> None:
    for mode in (0o620, 0o602, 0o666):
        file.chmod(mode)
        with pytest.raises(SettingsError, match="others"):
            TokenFile(file)
    file.chmod(0o644)
    assert TokenFile(file).ready()


def test_what_is_no_file_or_too_large_is_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo", 0o600)
    write(tmp_path / "large", "#" * (limits.HTTP_FILE_BYTES + 1))
    for name in ("fifo", "large", "missing", "nul\0"):
        with pytest.raises(SettingsError):
            TokenFile(tmp_path / name)
    with pytest.raises(SettingsError):
        TokenFile(tmp_path)


@pytest.mark.threat("T9")
def test_a_changed_file_counts_from_the_next_request_on(file: Path) -> None:
    tokens = TokenFile(file)
    write(file, f"{digest('first')}\n{digest('second')}\n")
    assert tokens.caller("first")
    assert tokens.caller("second")
    write(file, f"{digest('second')}\n")
    assert tokens.caller("first") is None
    assert tokens.caller("second")


@pytest.mark.threat("T9")
@pytest.mark.parametrize("spoil", ["empty", "broken", "writable", "removed"])
def test_a_file_that_breaks_later_lets_nobody_in_until_it_is_right_again(file: Path, spoil: str) -> None:
    tokens = TokenFile(file)
    assert tokens.ready()
    if spoil == "empty":
        file.write_text("")
    elif spoil == "broken":
        file.write_text("not a digest\n")
    elif spoil == "writable":
        file.chmod(0o666)
    else:
        file.unlink()
    assert not tokens.ready()
    assert tokens.caller("first") is None
    write(file, f"{digest('first')}\n")
    assert tokens.caller("first")


@pytest.mark.threat("T9")
def test_every_line_is_compared_whichever_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = parse_tokens("".join(f"{digest(str(n))}\n" for n in range(8)).encode())
    compared: list[bytes] = []
    real = hmac.compare_digest

    def counted(left: bytes, right: bytes) -> bool:
        compared.append(right)
        return real(left, right)

    monkeypatch.setattr(hmac, "compare_digest", counted)
    for token in ("0", "7", "none"):
        compared.clear()
        match(token, lines)
        assert len(compared) == 8


def test_a_minted_token_fits_its_line() -> None:
    token, line = mint()
    assert match(token, parse_tokens(line.encode()))
    assert len(token) >= 43
    assert mint()[0] != token


def test_more_lines_than_are_compared_are_refused() -> None:
    with pytest.raises(BrokenFileError, match="more than"):
        parse_tokens("".join(f"{digest(str(n))}\n" for n in range(limits.HTTP_TOKENS + 1)).encode())


@given(st.binary(max_size=400))
def test_any_file_gives_lines_or_is_broken(data: bytes) -> None:
    try:
        lines = parse_tokens(data)
    except BrokenFileError:
        return
    assert lines


@given(st.text(max_size=80), st.text(max_size=80))
def test_only_the_token_itself_fits(one: str, other: str) -> None:
    lines = parse_tokens(hashlib.sha256(("x" + one).encode("utf-8", "surrogatepass")).hexdigest().encode())
    assert (match("x" + other, lines) is not None) == (one == other)


def test_a_watched_file_says_what_it_holds_now(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write(path, "one")
    watched = WatchedFile(path, bytes.decode)
    assert watched.value() == "one"
    write(path, "two")
    assert watched.value() == "two"


def test_scopes_decide_about_tools() -> None:
    everything, one, none = (Caller(scopes=s) for s in (frozenset({"tools:read"}), frozenset({"tool:a"}), frozenset()))
    assert may(Caller(), "a")
    assert may(everything, "a")
    assert may(one, "a")
    assert not may(one, "b")
    assert not may(none, "a")
    assert [is_limited(caller) for caller in (Caller(), everything, one, none)] == [False, False, True, True]
    assert known(["tools:read", "openid", "tool:a", "tool:", "tool:a b"]) == {"tools:read", "tool:a"}
    assert needed("read_file") == "tool:read_file"
    assert needed('x", error="') == "tools:read"


@pytest.mark.threat("T9")
def test_a_role_covers_no_tool_where_there_are_no_roles() -> None:
    (line,) = parse_tokens(f"{'1' * 64} role:reader role:Back_up-2".encode())
    assert not may(line.caller, "reader")
    assert is_limited(line.caller)
    assert roles(line.caller) == {"reader", "Back_up-2"}
    assert tools(line.caller) is None
    assert tools(Caller(scopes=frozenset({"tool:a", "role:b"}))) == frozenset({"a"})
    assert tools(Caller(scopes=frozenset({"tool:a", "tools:read"}))) is None
    assert roles(Caller()) == frozenset()
    assert known(["role:a", "role:", "role:a b", f"role:{'x' * 65}", "role:a/b"]) == {"role:a"}
