"""serve.overview.languages and survey: what names tell, summed up."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumehood.core import limits
from fumehood.serve.overview import languages
from fumehood.serve.overview.survey import Survey


@pytest.mark.parametrize(
    ("name", "language"),
    [
        ("a.py", "Python"),
        ("A.PY", "Python"),
        ("a.d.ts", "TypeScript"),
        ("Makefile", "Makefile"),
        ("Dockerfile.dev", "Dockerfile"),
        ("CMakeLists.txt", "CMake"),
        (".py", None),
        ("py", None),
        ("a.unknown", None),
        ("a.", None),
    ],
)
def test_a_language_is_known_by_the_ending(name: str, language: str | None) -> None:
    assert languages.language(name) == language


@pytest.mark.parametrize(
    ("path", "tested"),
    [
        ("test_a.py", True),
        ("src/a_test.go", True),
        ("src/a.test.tsx", True),
        ("src/a.spec.js", True),
        ("src/ATest.java", True),
        ("tests/unit/a.py", True),
        ("__tests__/a.js", True),
        ("tests/data.json", False),
        ("tests/README.md", False),
        ("src/a.py", False),
        ("src/latest.py", False),
        ("contest/a.py", False),
    ],
)
def test_a_test_is_told_from_what_is_none(path: str, *, tested: bool) -> None:
    *folders, name = path.split("/")
    assert languages.is_test(tuple(folders), name) is tested


def test_files_are_summed_up() -> None:
    survey = Survey()
    for path, counted in [
        ("main.py", (10, 100)),
        ("b.py", None),
        ("tests/test_x.py", (5, 50)),
        ("deep/a/b/c/d/main.py", (1, 1)),
        ("odd/test_y.py", (1, 1)),
        ("go/main.go", (40, 1)),
        ("README", None),
        ("sub/package.json", (1, 1)),
        ("package.json", (1, 1)),
    ]:
        *folders, name = path.split("/")
        assert survey.reads(name) is (name != "README")
        survey.add(tuple(folders), name, counted)
    assert survey.files == 9
    assert [(name, one.files, one.lines, one.uncounted) for name, one in survey.ranked()] == [
        ("Go", 1, 40, 0),
        ("Python", 5, 17, 1),
        ("JSON", 2, 2, 0),
    ]
    assert survey.entries == ["main.py", "go/main.go"]
    assert survey.test_files == 2
    assert survey.test_folders == {"tests": 1, "odd": 1}
    assert survey.nearest() == [("package.json", "package.json"), ("sub/package.json", "package.json")]


def test_what_is_read_is_bounded() -> None:
    survey = Survey()
    survey.add((), "a.py", (1, limits.OVERVIEW_READ_BYTES))
    assert not survey.reads("b.py")
    for number in range(limits.OVERVIEW_MANIFESTS + 5):
        survey.add((f"p{number}",), "go.mod", None)
    assert len(survey.nearest()) == limits.OVERVIEW_MANIFESTS


@given(st.lists(st.text(max_size=10), max_size=3), st.text(max_size=20))
def test_no_name_is_too_odd(folders: list[str], name: str) -> None:
    survey = Survey()
    survey.add(tuple(folders), name, None)
    assert survey.files == 1
    assert (languages.test_folder(tuple(folders)) or "") in "/".join(folders)
