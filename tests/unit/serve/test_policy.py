"""serve.policy: which path is meant, from plain values; nothing is opened."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumehood.fence.denylist import Denylist
from fumehood.serve import policy
from fumehood.serve.policy import Allow, Deny, Rule

ROOTS = (b"/private/ws", b"/ws")
DENYLIST = Denylist()


def decide(asked: str) -> policy.Decision:
    return policy.decide(asked, ROOTS, DENYLIST)


@pytest.mark.parametrize(
    ("asked", "path"),
    [
        ("src/a.py", b"src/a.py"),
        ("./src//a.py/", b"src/a.py"),
        ("", b"."),
        (".", b"."),
        ("/ws", b"."),
        ("/ws/src/a.py", b"src/a.py"),
        ("/private/ws/./src", b"src"),
        (r"caf\xe9", b"caf\xe9"),
        ("a..b/...", b"a..b/..."),
        ("-a", b"-a"),
    ],
)
def test_a_path_inside_is_allowed_in_its_clean_form(asked: str, path: bytes) -> None:
    assert decide(asked) == Allow(path=path)


@pytest.mark.threat("T1", "T10")
@pytest.mark.parametrize(
    "asked",
    [
        "..",
        "../x",
        "a/../../x",
        "a/..",
        "/etc/passwd",
        "/",
        "/ws_sibling/x",
        "/wsx",
        "/ws/../x",
        "//ws/x",
        "/private/x",
    ],
)
def test_whatever_leads_out_is_denied_by_one_rule(asked: str) -> None:
    assert decide(asked) == Deny(rule=Rule.OUTSIDE)


@pytest.mark.threat("T1")
@pytest.mark.parametrize("asked", ["\0", "a\0", "a/f\0/../../etc/passwd", "/ws/a\0", "/etc\0"])
def test_a_nul_byte_is_denied_for_itself(asked: str) -> None:
    assert decide(asked) == Deny(rule=Rule.NUL)


def test_half_of_a_surrogate_pair_is_no_name() -> None:
    assert decide("a\ud800") == Deny(rule=Rule.NO_NAME)


@pytest.mark.threat("T3")
@pytest.mark.parametrize(
    "asked", [".env", "./a/.ENV", "/ws/.git/config", ".git", r"\x2eenv/../.env".partition("../")[2]]
)
def test_a_name_on_the_denylist_is_denied_however_it_is_reached(asked: str) -> None:
    assert decide(asked) == Deny(rule=Rule.DENIED)


@pytest.mark.threat("T1", "T3")
@given(st.text(st.sampled_from("./\\x2e5cw s\0git~1env:"), max_size=24) | st.text(max_size=12))
def test_an_allowed_path_is_clean_and_not_denied(asked: str) -> None:
    match decide(asked):
        case Allow(path=path):
            parts = path.split(b"/")
            assert b"\0" not in path
            assert path == b"." or not {b"", b".", b".."} & set(parts)
            assert not DENYLIST.denies(path)
        case Deny(rule=rule):
            assert rule in Rule
