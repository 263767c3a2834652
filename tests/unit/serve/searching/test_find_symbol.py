"""The tool with real ripgrep and the real child."""

import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from fumehood.content.passage import Answer
from fumehood.core import limits
from fumehood.core.budget import Budget
from fumehood.core.errors import InvalidArgumentsError, UnsupportedError
from fumehood.core.sections import WorkspaceSettings
from fumehood.serve import registry
from fumehood.serve.context import Definition, Symbols
from fumehood.serve.symbols import reader
from fumehood.serve.tools.find_symbol import TOOL
from fumehood.wire import schema
from served.plainly import Served


class Said:
    """Symbols that say what they were told to."""

    def __init__(self, said: Sequence[Definition] | None) -> None:
        self.said = said
        self.asked: list[str] = []

    def definitions(self, language: str, source: bytes, budget: Budget) -> Sequence[Definition] | None:
        budget.check()
        self.asked.append(language)
        assert source
        return self.said


class Missing:
    """Symbols where no grammar can be used."""

    def definitions(self, language: str, source: bytes, budget: Budget) -> Sequence[Definition] | None:
        raise UnsupportedError(f"{language} {len(source)} {budget.cancelled}")


@pytest.fixture(scope="module")
def symbols() -> Iterator[Symbols]:
    with reader.start() as running:
        yield running


def find(here: Served, symbols: Symbols, symbol: str, **arguments: Any) -> Answer:
    asked = {"symbol": symbol, **arguments}
    assert schema.problems(TOOL.input_schema, asked) == []
    answer = TOOL.run(asked, replace(here.context, symbols=symbols))
    assert schema.problems(TOOL.output_schema, answer.facts) == []
    return answer


def rows(answer: Answer) -> list[tuple[str, str, int, str]]:
    found: Any = answer.facts["definitions"]
    return [(row["path"], row["kind"], row["first_line"], row["method"]) for row in found]


def test_definitions_are_found_by_grammar_and_shown(here: Served, symbols: Symbols) -> None:
    here.put("a.py", "import x\n\n\nclass Run:\n    def run(self):\n        return run()\n")
    here.put("b.go", "package b\nfunc run() {}\n")
    here.put("c.js", "run();\n")
    answer = find(here, symbols, "run")
    assert rows(answer) == [("a.py", "method", 5, "tree-sitter"), ("b.go", "function", 2, "tree-sitter")]
    first: Any = answer.facts["definitions"]
    assert first[0]["container"] == "Run"
    assert answer.passages[0].text.reveal() == b"    def run(self):\n        return run()\n"
    assert answer.passages[0].first_line == 5
    assert answer.facts["complete"] is True


def test_other_languages_fall_back_to_patterns_that_say_so(here: Served, symbols: Symbols) -> None:
    here.put("a.php", "<?php\nfunction run($x) {\n}\nrun(1);\n")
    here.put("b.sh", "run() {\n  true\n}\n")
    assert rows(find(here, symbols, "run")) == [
        ("a.php", "function", 2, "pattern"),
        ("b.sh", "function", 1, "pattern"),
    ]


def test_a_name_may_be_told_by_its_container(here: Served, symbols: Symbols) -> None:
    here.put("a.py", "class A:\n    def f(self): pass\nclass B:\n    def f(self): pass\n")
    assert [row[2] for row in rows(find(here, symbols, "B.f"))] == [4]
    assert [row[2] for row in rows(find(here, symbols, "A::f"))] == [2]
    assert [row[2] for row in rows(find(here, symbols, "f"))] == [2, 4]
    assert rows(find(here, symbols, "C.f")) == []


def test_a_kind_and_a_path_narrow(here: Served, symbols: Symbols) -> None:
    here.put("a.py", "class run: pass\ndef run(): pass\n")
    here.put("src/b.py", "def run(): pass\n")
    assert rows(find(here, symbols, "run", kind="class")) == [("a.py", "class", 1, "tree-sitter")]
    assert rows(find(here, symbols, "run", path="src")) == [("src/b.py", "function", 1, "tree-sitter")]


def test_a_part_of_a_name_is_found_when_it_need_not_be_exact(here: Served, symbols: Symbols) -> None:
    here.put("a.py", "def RunFast(): pass\n")
    assert rows(find(here, symbols, "run")) == []
    assert rows(find(here, symbols, "run", exact=False)) == [("a.py", "function", 1, "tree-sitter")]


def test_a_file_that_does_not_parse_is_named(here: Served, symbols: Symbols) -> None:
    here.put("a.py", "def run(): pass\n\ndef (\n")
    answer = find(here, symbols, "run")
    assert answer.facts["partly_parsed"] == ["a.py"]
    assert rows(answer) == [("a.py", "function", 1, "tree-sitter")]
    answer = find(here, Said(None), "run")
    assert answer.facts["unparsed"] == ["a.py"]
    assert rows(answer) == [("a.py", "function", 1, "pattern")]


def test_without_grammars_patterns_answer_and_a_note_says_so(here: Served) -> None:
    here.put("a.py", "def run(): pass\n")
    answer = find(here, Missing(), "run")
    assert rows(answer) == [("a.py", "function", 1, "pattern")]
    assert "No grammar could be used" in answer.notes[0]
    assert answer.facts["unparsed"] == []


@pytest.mark.threat("T14")
@pytest.mark.parametrize(
    ("first", "last", "name"), [(1, 1, "run"), (3, 3, "run"), (500, 900, "run"), (2, 2, "ran"), (2, 99, "run")]
)
def test_what_the_child_says_is_believed_where_the_name_stands_only(
    here: Served, first: int, last: int, name: str
) -> None:
    here.put("a.py", "x\ndef run(): pass\ny\n")
    forged = Definition(name=name, kind="function", first_line=first, last_line=last)
    assert (rows(find(here, Said([forged]), "run")) != []) is (first == 2 and name == "run")


@pytest.mark.threat("T3")
@pytest.mark.threat("T2")
def test_what_may_not_be_served_is_never_handed_to_a_grammar(here: Served) -> None:
    outside = here.root.parent / "outside.py"
    outside.write_text("def run(): pass\n")
    os.link(outside, here.root / "hard.py")
    (here.root / "link.py").symlink_to(outside)
    here.put(".git/hook.py", "def run(): pass\n")
    here.put("node_modules/a.py", "def run(): pass\n")
    said = Said([])
    answer = find(here, said, "run")
    assert said.asked == []
    assert answer.facts["files_read"] == 0
    assert answer.facts["complete"] is True
    assert json.dumps(find(here, said, "nothing").facts) == json.dumps(answer.facts)


def test_files_with_a_line_that_defines_are_read_first(
    here: Served, symbols: Symbols, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "SYMBOLS_FILES", 3)
    for number in range(9):
        here.put(f"a{number}.py", "run()\n")
    here.put("z.py", "def run(): pass\n")
    answer = find(here, symbols, "run")
    assert rows(answer) == [("z.py", "function", 1, "tree-sitter")]
    assert answer.facts["complete"] is False
    assert "There may be more" in answer.notes[-1]
    assert answer.facts["files_read"] == 3


def test_a_symbol_is_no_pattern(here: Served, symbols: Symbols, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SYMBOLS_FILES", 1)
    here.put("a.rb", "def run?; end\n")
    here.put("b.rb", "x.run?\n")
    here.put("c.rb", "def ru; end\n")
    assert rows(find(here, symbols, "run?")) == [("a.rb", "method", 1, "tree-sitter")]
    assert rows(find(here, symbols, "(a+)+")) == []


def test_a_reply_holds_as_much_as_it_may(serve: Callable[..., Served], symbols: Symbols) -> None:
    here = serve(WorkspaceSettings(reply_bytes=4096, results=100))
    here.put("a.py", "def run(): pass\n" * 99)
    answer = find(here, symbols, "run")
    assert 10 < len(rows(answer)) < 99
    assert answer.facts["complete"] is False
    few = serve(WorkspaceSettings(results=5))
    assert len(rows(find(few, symbols, "run"))) == 5


def test_arguments_that_do_not_fit_are_refused(here: Served) -> None:
    wrong: list[dict[str, Any]] = [{}, {"symbol": ""}, {"symbol": "a", "kind": "script"}, {"symbol": "a", "x": 1}]
    for arguments in wrong:
        with pytest.raises(InvalidArgumentsError):
            TOOL.run(arguments, here.context)


def test_the_definition_is_small_and_fit_to_be_published() -> None:
    registry.published([TOOL])
    assert len(json.dumps(registry.definition(TOOL), separators=(",", ":"))) < 1200
