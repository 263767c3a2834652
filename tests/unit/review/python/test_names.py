"""review.python.names: names and small files of packages, of hostile bytes."""

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumehood.review.python import names


@pytest.mark.parametrize("name", ["Foo.Bar", "foo--bar", "FOO_bar", "foo-_.bar"])
def test_a_name_has_one_normal_form(name: str) -> None:
    assert names.normal(name) == "foo-bar"


@given(st.text(alphabet=string.ascii_letters + "-_.", max_size=40))
def test_the_normal_form_of_a_normal_form_is_itself(name: str) -> None:
    assert names.normal(names.normal(name)) == names.normal(name)


@pytest.mark.threat("R31")
@pytest.mark.parametrize(
    "name", ["../x", "a/b", "a\nb", "", ".", "..", ".hidden", "-c", "a b", "a\x00", "ä", "x" * 101]
)
def test_a_program_is_one_plain_word(name: str) -> None:
    assert not names.is_program(name)
    assert names.console_scripts(f"[console_scripts]\n{name} = a:b\ngood = a:b\n".encode())[-1:] in {("good",), ()}
    assert name not in names.console_scripts(f"[console_scripts]\n{name} = a:b\n".encode())


def test_the_programs_of_a_package_are_those_that_it_declares_and_those_that_it_brings() -> None:
    points = b"[gui_scripts]\nwindow = a:b\n[console_scripts]\nServer = a:main\nother=a:b [extra]\n"
    assert names.console_scripts(points) == ("Server", "other")
    record = b'../../../bin/server,sha256=x,1\n../../../bin/../../x,,\n"../../../bin/two",,\n../../bin/no,,\na/b.py,,\n'
    assert names.recorded_scripts(record) == ("server", "two")


def test_entry_points_that_are_no_sections_declare_nothing() -> None:
    assert names.console_scripts(b"no section = here\n") == ()
    assert names.console_scripts(b"[other]\na = b:c\n") == ()


@given(st.binary(max_size=300))
def test_any_bytes_are_some_programs_or_none(data: bytes) -> None:
    found = [*names.console_scripts(b"[console_scripts]\n" + data), *names.recorded_scripts(data)]
    assert all(names.is_program(name) and "/" not in name for name in found)
    assert isinstance(names.runs_code(data), bool)


def test_the_metadata_of_a_project_is_found_by_its_name_and_then_by_its_version() -> None:
    folders = [b"Foo.Bar-1.0.dist-info", b"foo_bar-2.0.dist-info", b"foo-1.0.dist-info", b"foo_bar.egg-info"]
    assert names.info_folder(folders, "foo-bar", "2.0") == b"foo_bar-2.0.dist-info"
    assert names.info_folder(folders, "foo-bar", "3.0") == b"Foo.Bar-1.0.dist-info"
    assert names.info_folder(folders, "bar", "1.0") is None


SITE = b".venv/lib/python3.11/site-packages/"


@pytest.mark.parametrize(
    ("path", "starts"),
    [
        (SITE + b"x.pth", True),
        (SITE + b"sitecustomize.py", True),
        (SITE + b"usercustomize/__init__.py", True),
        (SITE + b"sitecustomize.cpython-311-x86_64-linux-gnu.so", True),
        (SITE + b"package/x.pth", False),
        (SITE + b"customize.py", False),
        (b"x.pth", False),
        (b".venv/x.pth", False),
    ],
)
def test_what_python_reads_at_every_start_is_told_by_its_place(path: bytes, *, starts: bool) -> None:
    assert names.is_start_file(path) is starts


@pytest.mark.parametrize(
    ("data", "runs"),
    [
        (b"/some/path\n", False),
        (b"import os; os.system('x')\n", True),
        (b"# x\nimport\tx", True),
        (b"importlib\n", False),
    ],
)
def test_a_pth_runs_code_where_a_line_begins_with_import(data: bytes, *, runs: bool) -> None:
    assert names.runs_code(data) is runs
