import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumehood.serve.symbols import languages


@pytest.mark.parametrize(
    ("path", "language"),
    [
        (b"a/b.py", "python"),
        (b"A.PY", "python"),
        (b"x.d.ts", "typescript"),
        (b"x.tsx", "tsx"),
        (b"x.h", "cpp"),
        (b"x.c", "c"),
        (b"x.rs", "rust"),
        (b"Rakefile", "ruby"),
        (b"x.java/README", None),
        (b".py", None),
        (b"py", None),
        (b"x.php", None),
        (b"caf\xe9.go", "go"),
    ],
)
def test_a_language_is_known_by_the_name(path: bytes, language: str | None) -> None:
    assert languages.language(path) == language


@given(st.binary(max_size=50))
def test_any_name_has_a_language_with_a_grammar_or_none(path: bytes) -> None:
    found = languages.language(path)
    assert found is None or found in languages.GRAMMARS
