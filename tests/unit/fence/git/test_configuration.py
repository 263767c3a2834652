"""fence.git.configuration: every key that git sees is found and closed, or the file is refused."""

import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fumehood.core import limits
from fumehood.fence.git import configuration
from fumehood.fence.git.configuration import ConfigurationError, Setting

ENVIRONMENT = {"HOME": "/dev/null", "PATH": "/usr/bin:/bin", "GIT_CONFIG_NOSYSTEM": "1", "LC_ALL": "C"}


def by_git(folder: Path, data: bytes) -> list[tuple[bytes, bytes | None]] | None:
    """What real git finds in the same file; None when it refuses it."""
    (folder / "config").write_bytes(data)
    done = subprocess.run(
        ["git", "config", "--list", "-z", "--no-includes", "--file", "config"],
        cwd=folder,
        env=ENVIRONMENT,
        capture_output=True,
        check=False,
        timeout=20,
    )
    if done.returncode:
        return None
    pairs = [entry.partition(b"\n") for entry in done.stdout.split(b"\0")[:-1]]
    return [(key, value if line_end else None) for key, line_end, value in pairs]


def ours(data: bytes) -> list[tuple[bytes, bytes | None]] | None:
    try:
        return [(setting.key, setting.value) for setting in configuration.parse(data)]
    except ConfigurationError:
        return None


EXAMPLES = [
    b"",
    b"\n\n# c\n; d\n",
    b'[core]\n\trepositoryformatversion = 0\n\tbare\n[remote "origin"]\n\turl = x\n',
    b"[filter.Foo]\nclean=x\n",
    b'[filter "A \\"b\\\\ c.d"] clean = "x y" ; comment\n',
    b'[a]\nb = one\\\n  two # c\n c = "q # ; q" t\\tt \n',
    b"[a] b=1\n[c] d\n",
    b"\xef\xbb\xbf[a]\r\nb = 1\r\n",
    b"[a]\nb = 1",
    b"[a]\nb=  spaced   out  \n",
    b'[a]\nb = "" x\n',
    b'[a ""]\nb = 1\n',
    b"[a]\nKey-Name = X\n",
    b'[a]\nb = "open\n',
    b"[a]\nb = \\q\n",
    b"[a]\n1b = x\n",
    b"[a]\nb # c\n",
    b"[a\nb]\nc=1\n",
    b'[a "b]\nc=1\n',
    b'[a "b" ]\nc=1\n',
    b"[a] ]\n",
    b"no section\n",
    b"[a]\nb = c \\\n",
    b"[a]\rb = 1\r\n",
    b'[a "x\\ny"]\nb=1\n',
    b"[a]\nb = x\\\n# no comment\n",
    b"[a]\nb = x # comment \\\nc = 1\n",
]


@pytest.mark.parametrize("data", EXAMPLES, ids=repr)
def test_a_file_is_read_as_git_reads_it(data: bytes, tmp_path: Path) -> None:
    assert ours(data) == by_git(tmp_path, data)


_WORDS = [b"[filter", b"[a.B", b"x", b"clean", b"K", b"[core]\n", b'[f "x"]\n', b"k = v\n", b"\xc3\xa9", b"\xff", b"1"]
_MARKS = [b' "', b'"', b"]", b"\n", b"\r\n", b" ", b"\t", b"=", b"\\", b"\\\n", b"#", b";", b".", b"-", b"\\n", b"\r"]
PIECES = st.sampled_from([*_WORDS, *_MARKS])


@pytest.mark.threat("T6")
@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(PIECES, max_size=14).map(b"".join))
def test_no_key_that_git_sees_is_missed(tmp_path: Path, data: bytes) -> None:
    found, seen = ours(data), by_git(tmp_path, data)
    if found is None:
        return  # refused: nothing is served, whatever git thinks of it
    assert seen is not None
    assert {key for key, _ in found} == {key for key, _ in seen}


@given(st.binary(max_size=80))
def test_any_bytes_give_settings_or_a_refusal(data: bytes) -> None:
    for key, _ in ours(data) or []:
        assert b"." in key
        assert b"\n" not in key.rpartition(b".")[2]


def test_a_nul_byte_is_refused_since_git_would_stop_there() -> None:
    with pytest.raises(ConfigurationError, match="NUL"):
        configuration.parse(b'[filter "a\0b"]\nclean = x\n')


@pytest.mark.threat("T6")
def test_whatever_is_not_known_to_be_harmless_is_blanked() -> None:
    keys = [b"filter.x.clean", b"diff.a b.command", b"core.fsmonitor", b"something.new", b"core.filemode", b"user.name"]
    keys += [b"branch.main.merge", b"include.path", b"includeif.gitdir:x.path", b"gpg.ssh.program", b"diff.renames"]
    assert configuration.closing(keys) == (
        *(b"-c", b"core.fsmonitor="),
        *(b"-c", b"diff.a b.command="),
        *(b"-c", b"filter.x.clean="),
        *(b"-c", b"gpg.ssh.program="),
        *(b"-c", b"something.new="),
    )


@pytest.mark.threat("T6")
@pytest.mark.parametrize("section", ["core", "diff", "log", "i18n", "merge"])
def test_a_key_of_a_section_that_is_partly_kept_is_blanked_unless_it_is_named(section: str) -> None:
    assert configuration.closing([f"{section}.new-in-a-later-git".encode()])
    assert configuration.closing([f"{section}.sub.algorithm".encode()])


def test_a_key_that_cannot_be_named_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="`=`"):
        configuration.closing([b"filter.a=b.clean"])
    with pytest.raises(ConfigurationError, match="too many"):
        configuration.closing(b"filter.%d.clean" % n for n in range(limits.GIT_BLANKED_BYTES // 10))


def test_an_include_is_told_from_other_keys() -> None:
    assert Setting(key=b"include.path", value=b"x").includes
    assert Setting(key=b"includeif.onbranch:x.path", value=b"x").includes
    assert not Setting(key=b"includeif.onbranch:x.other", value=b"x").includes
    assert not Setting(key=b"a.path", value=b"x").includes
