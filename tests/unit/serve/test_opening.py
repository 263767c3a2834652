"""serve.opening: a workspace is brought up and let go of; the walls of this very process are only pretended."""

import logging
import sys
from pathlib import Path
from typing import Any, cast

import pytest

from fumehood.content.rulefile import BadRulesError
from fumehood.core.budget import Budget
from fumehood.core.errors import UnsupportedError
from fumehood.core.sections import ContentSettings, LogSettings, Settings, WorkspaceSettings
from fumehood.serve import opening, walls
from fumehood.serve.invariants import InvariantError
from fumehood.serve.service import Service
from fumehood.wire.published import LOCAL

pytestmark = pytest.mark.sandbox


@pytest.fixture(autouse=True)
def pretended(monkeypatch: pytest.MonkeyPatch) -> None:
    """This process goes on with its rights; tests/escape/walls tries the real ones."""
    monkeypatch.setattr(
        walls, "stand", lambda root, settings, *, http: walls.foresee(walls.ruleset(root, settings, http=http))
    )


def call(service: Service, tool: str, **arguments: Any) -> Any:
    return service.call(tool, arguments, Budget(30.0), LOCAL)["structuredContent"]


def test_an_opened_workspace_answers_and_says_what_stands(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("def first(): ...\n")
    with opening.opened(Settings(), tmp_path) as opened:
        service = opened.stand()
        assert opened.is_ready()
        assert call(service, "read_file", path="a.py")["total_lines"] == 1
        assert call(service, "search_code", pattern="first")["matches"] == 1
        assert call(service, "find_symbol", symbol="first")["definitions"][0]["method"] == "tree-sitter"
    standing = cast("dict[str, Any]", service.discover())
    assert set(standing["fumehood/walls"]) == {"serving", "programs", "symbols"}
    assert standing["fumehood/weakened"] == []
    assert not opened.is_ready()


@pytest.mark.threat("T11")
def test_what_weakens_is_told_and_warned_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    weak = Settings(content=ContentSettings(unsafe_no_scanning=True), log=LogSettings(tool_arguments=True))
    with caplog.at_level(logging.WARNING), opening.opened(weak, tmp_path, http=True) as opened:
        service = opened.stand()
        assert call(service, "list_directory")["weakened"] == ["content.unsafe_no_scanning"]
        assert service.logs_arguments
    assert service.discover()["fumehood/weakened"] == ["content.unsafe_no_scanning", "http_token"]
    assert "production would refuse this" in caplog.text


@pytest.mark.threat("T11")
def test_production_opens_nothing_that_weakens(tmp_path: Path) -> None:
    weak = Settings(environment="production", workspace=WorkspaceSettings(unsafe_follow_links=True))
    with pytest.raises(InvariantError), opening.opened(weak, tmp_path):
        pass


def test_rules_of_an_operator_are_taken_whole_or_the_start_is_refused(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder, rules = tmp_path / "folder", tmp_path / "rules.toml"
    folder.mkdir()
    (folder / "a.txt").write_text("a plain word\n")
    settings = Settings(content=ContentSettings(rules_file=str(rules)))
    with pytest.raises(BadRulesError, match="cannot be read"), opening.opened(settings, folder):
        pass
    rules.write_text('title = "x"\n[[rules]]\nid = "plain"\nregex = "plain"\nentropy = "high"\n')
    with pytest.raises(BadRulesError), opening.opened(settings, folder):
        pass
    rules.write_text('[extend]\nuseDefault = true\n[[rules]]\nid = "plain"\nregex = "plain"\n')
    with caplog.at_level(logging.WARNING), opening.opened(settings, folder) as opened:
        assert call(opened.stand(), "read_file", path="a.txt")["redaction"]["rules"] == {"plain": 1}
    inside = folder / "rules.toml"
    inside.write_text(rules.read_text())
    settings = Settings(content=ContentSettings(rules_file=str(inside)))
    with pytest.raises(BadRulesError, match="lies in the workspace"), opening.opened(settings, folder):
        pass


def test_without_grammars_a_workspace_is_served_and_it_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "a.py").write_text("def first(): ...\n")
    monkeypatch.setitem(sys.modules, "tree_sitter", None)
    with caplog.at_level(logging.WARNING), opening.opened(Settings(), tmp_path) as opened:
        service = opened.stand()
        assert call(service, "find_symbol", symbol="first")["definitions"][0]["method"] != "tree-sitter"
        with pytest.raises(UnsupportedError):
            opened.symbols.definitions("python", b"", Budget())
    assert "no grammar" in caplog.text
    assert "symbols" not in cast("dict[str, Any]", service.discover()["fumehood/walls"])
