"""Who may open untrusted text, and who may catch everything."""

import ast
from pathlib import Path

import pytest

SOURCES = Path(__file__).parents[2] / "src/fumehood"
OPENERS = {"content/control.py"}
RIMS = {"cli/main.py", "code/conversation.py", "code/dialing.py", "review/run.py"}


def opens(source: str) -> bool:
    """Whether a module calls `….reveal()`, or takes the method to call it later."""
    return any(isinstance(node, ast.Attribute) and node.attr == "reveal" for node in ast.walk(ast.parse(source)))


def catches_everything(source: str) -> bool:
    """Whether a module has a handler for everything that does not raise again."""
    return any(
        isinstance(node, ast.ExceptHandler) and _broad(node.type) and not _raises(node)
        for node in ast.walk(ast.parse(source))
    )


def _broad(kind: ast.expr | None) -> bool:
    kinds = kind.elts if isinstance(kind, ast.Tuple) else [kind]
    return any(one is None or (isinstance(one, ast.Name) and one.id in {"Exception", "BaseException"}) for one in kinds)


def _raises(handler: ast.ExceptHandler) -> bool:
    last = handler.body[-1]
    return isinstance(last, ast.Raise)


def modules() -> dict[str, str]:
    return {path.relative_to(SOURCES).as_posix(): path.read_text(encoding="utf-8") for path in SOURCES.rglob("*.py")}


def test_untrusted_text_is_opened_by_its_controls_only() -> None:
    assert {name for name, source in modules().items() if opens(source)} <= OPENERS


def test_everything_is_caught_at_the_rims_only() -> None:
    assert {name for name, source in modules().items() if catches_everything(source)} <= RIMS


@pytest.mark.parametrize(
    ("source", "opened", "caught"),
    [
        ("x.reveal()", True, False),
        ("f(x.reveal)", True, False),
        ("try: pass\nexcept Exception: pass", False, True),
        ("try: pass\nexcept: pass", False, True),
        ("try: pass\nexcept (ValueError, BaseException): pass", False, True),
        ("try: pass\nexcept BaseException:\n  f()\n  raise", False, False),
        ("try: pass\nexcept ValueError: pass", False, False),
    ],
)
def test_the_look_finds_what_it_looks_for(source: str, opened: bool, caught: bool) -> None:
    assert (opens(source), catches_everything(source)) == (opened, caught)
