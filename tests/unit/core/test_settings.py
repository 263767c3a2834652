"""core.settings: one typed tree, and nothing unknown in it."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumehood.core import limits, settings
from fumehood.core.sections import Settings
from fumehood.core.settings import SettingsError


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def refused(text: str, tmp_path: Path) -> SettingsError:
    with pytest.raises(SettingsError) as error:
        settings.load(write(tmp_path / "f.toml", text), environ={})
    assert error.value.exit_status == 2
    assert error.value.remedy
    return error.value


def test_without_any_source_the_defaults_are_the_limits() -> None:
    made = settings.load(environ={})
    assert made == Settings()
    assert made.sandbox.memory_bytes == limits.MEMORY_BYTES
    assert made.review.step_seconds("install") == limits.INSTALL_SECONDS
    assert made.sandbox.tools == {}
    assert made.weakened() == ()


def test_the_later_source_wins(tmp_path: Path) -> None:
    path = write(tmp_path / "f.toml", "[sandbox]\nprocesses = 100\nopen_files = 100\nmemory_bytes = 67108864\n")
    environ = {"FUMEHOOD_SANDBOX__OPEN_FILES": "200", "FUMEHOOD_SANDBOX__MEMORY_BYTES": "67108865"}
    made = settings.load(path, environ=environ, flags={"sandbox.memory_bytes": 67108866, "log.level": None})
    assert (made.sandbox.processes, made.sandbox.open_files, made.sandbox.memory_bytes) == (100, 200, 67108866)
    assert made.log.level == "warning"


def test_the_users_own_file_is_read_when_no_other_is_named(tmp_path: Path) -> None:
    write(tmp_path / ".config/fumehood/fumehood.toml", '[log]\nlevel = "debug"\n')
    write(tmp_path / "xdg/fumehood/fumehood.toml", '[log]\nlevel = "error"\n')
    assert settings.load(environ={"HOME": str(tmp_path)}).log.level == "debug"
    assert settings.load(environ={"HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path / "xdg")}).log.level == "error"
    assert settings.load(environ={"HOME": str(tmp_path), "XDG_CONFIG_HOME": "xdg"}).log.level == "debug"


@pytest.mark.threat("R16")
def test_nothing_is_read_from_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("fumehood.toml", "fumehood/fumehood.toml", ".config/fumehood/fumehood.toml", ".fumehood.toml"):
        write(tmp_path / name, '[log]\nlevel = "debug"\n')
    monkeypatch.chdir(tmp_path)
    for environ in ({}, {"HOME": "."}, {"HOME": ""}, {"XDG_CONFIG_HOME": "."}, {"XDG_CONFIG_HOME": ""}):
        assert settings.load(environ=environ).log.level == "warning"


def test_an_operator_names_programs_and_places(tmp_path: Path) -> None:
    text = '[sandbox]\nbwrap = "/opt/b"\nrun_root = "/r"\n[review]\nnpm_registry = "http://127.0.0.1:4873/"\n'
    made = settings.load(write(tmp_path / "f.toml", text), environ={"FUMEHOOD_REVIEW__CA_FILE": "/etc/ca.pem"})
    assert made.sandbox.tools == {"bwrap": Path("/opt/b")}
    assert made.review.npm_registry == "http://127.0.0.1:4873/"
    assert made.review.ca_file == "/etc/ca.pem"


@pytest.mark.parametrize(
    ("text", "key", "line", "words"),
    [
        ("[sandbox]\n\nmemory = 1\n", "sandbox.memory", 3, "did you mean memory_bytes?"),
        ("colour = 1\n", "colour", 1, "known here"),
        ("[log]\nlevel='info'\n[sandbx]\nx = 1\n", "sandbx", 3, "did you mean sandbox?"),
        ("[review]\n'npm-registry' = 'x'\n", "review.npm-registry", 2, "npm_registry"),
        ("log.colour = 1\n", "log.colour", None, "known here"),
        (f"[sandbox]\nmemory_bytes = {limits.MEMORY_BYTES + 1}\n", "sandbox.memory_bytes", 2, "not raised"),
        ("[sandbox]\nprocesses = 1\n", "sandbox.processes", 2, ">= 16"),
        ("[sandbox]\nprocesses = true\n", "sandbox.processes", 2, "expected int"),
        ("[sandbox]\nprocesses = '100'\n", "sandbox.processes", 2, "expected int"),
        ("[sandbox]\nbwrap = 'bin/bwrap'\n", "sandbox.bwrap", 2, "absolute path"),
        ("[code]\nrunner_url = 'http://a:1'\n", "code.runner_url", 2, "must be ws://HOST:PORT"),
        ("[code]\nrunner_url = 'ws://a:1/run'\n", "code.runner_url", 2, "without a path"),
        ('[sandbox]\nbwrap = "/bin/x\\n"\n', "sandbox.bwrap", 2, "absolute path"),
        ("[review]\nnpm_registry = 'ftp://x'\n", "review.npm_registry", 2, "http or https URL"),
        ("[review]\nnpm_registry = 'https://user:secret@x.example/'\n", "review.npm_registry", 2, "without user"),
        ("[review]\njob_seconds = nan\n", "review.job_seconds", 2, "expected float"),
        ("[review]\njob_seconds = 601\n", "review.job_seconds", 2, "not raised"),
        ("environment = 'staging'\n", "environment", 1, "invalid enum value"),
        ("log = 1\n", "log", 1, "expected"),
        ("[sandbox\n", "", None, "not TOML"),
        ("[log]\nlevel = 'info'\nlevel = 'debug'\n", "", None, "not TOML"),
    ],
)
def test_a_wrong_file_stops_the_start_and_says_where(
    text: str, key: str, line: int | None, words: str, tmp_path: Path
) -> None:
    error = refused(text, tmp_path)
    assert (error.key, error.line) == (key, line)
    assert words in str(error)
    assert "f.toml" in str(error)
    assert "secret" not in str(error)


def test_a_named_file_that_is_missing_stops_the_start_and_an_own_one_does_not(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="cannot be read"):
        settings.load(tmp_path / "none.toml", environ={})
    assert settings.load(environ={"HOME": str(tmp_path)}) == Settings()


def test_an_own_file_that_is_a_dangling_link_stops_the_start(tmp_path: Path) -> None:
    path = tmp_path / ".config/fumehood/fumehood.toml"
    path.parent.mkdir(parents=True)
    path.symlink_to(tmp_path / "none")
    with pytest.raises(SettingsError, match="cannot be read"):
        settings.load(environ={"HOME": str(tmp_path)})


@pytest.mark.threat("R16")
def test_a_file_that_others_may_write_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "f.toml", "")
    path.chmod(0o646)
    with pytest.raises(SettingsError, match="others may write it"):
        settings.load(path, environ={})
    path.chmod(0o644)
    assert settings.load(path, environ={}) == Settings()


@pytest.mark.root
def test_a_file_of_another_user_is_refused(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root")
    path = write(tmp_path / "f.toml", "")
    os.chown(path, 10001, 10001)
    with pytest.raises(SettingsError, match="others may write it"):
        settings.load(path, environ={})


def test_what_is_no_ordinary_small_text_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "large").write_bytes(b"#" * (limits.SETTINGS_BYTES + 1))
    (tmp_path / "latin").write_bytes(b"# \xff")
    for name in ("fifo", "large", "latin", ".", "nul\0"):
        with pytest.raises(SettingsError):
            settings.load(tmp_path / name, environ={})


@pytest.mark.parametrize(
    "name",
    ["SANDBOX__MEMORY", "SANDBOX_MEMORY_BYTES", "COLOUR", "SANDBOX", "SANDBOX__", "__ENVIRONMENT", "X__Y", "LOG__A__B"],
)
def test_an_unknown_variable_with_our_prefix_stops_the_start(name: str) -> None:
    with pytest.raises(SettingsError, match=name):
        settings.load(environ={f"FUMEHOOD_{name}": "1"})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("SANDBOX__PROCESSES", "many"),
        ("SANDBOX__PROCESSES", "100000"),
        ("SANDBOX__BWRAP", "bwrap"),
        ("SANDBOX__BWRAP", ""),
        ("REVIEW__FORGE", ""),
        ("LOG__LEVEL", "DEBUG"),
        ("ENVIRONMENT", "prod"),
        ("REVIEW__JOB_SECONDS", "nan"),
        ("REVIEW__JOB_SECONDS", "-1"),
    ],
)
def test_a_variable_with_a_wrong_value_stops_the_start(name: str, value: str) -> None:
    with pytest.raises(SettingsError, match=f"FUMEHOOD_{name}"):
        settings.load(environ={f"FUMEHOOD_{name}": value})


def test_variables_set_numbers_words_and_the_environment() -> None:
    environ = {
        "FUMEHOOD_ENVIRONMENT": "production",
        "FUMEHOOD_LOG__LEVEL": "info",
        "FUMEHOOD_REVIEW__INSTALL_SECONDS": "1.5",
        "OTHER": "x",
    }
    made = settings.load(environ=environ)
    assert (made.environment, made.log.level, made.review.install_seconds) == ("production", "info", 1.5)


def test_no_setting_raises_a_limit() -> None:
    for name, value in {"sandbox.layer_bytes": limits.LAYER_BYTES + 1, "review.stop_seconds": 31}.items():
        with pytest.raises(SettingsError, match=name):
            settings.load(environ={}, flags={name: value})


@given(st.text(max_size=80).map(lambda text: text.replace("x", "[log]\n").replace("y", "sandbox.")))
def test_any_file_is_settings_or_a_refusal(text: str) -> None:
    try:
        settings._convert(text, "f.toml")
    except SettingsError as error:
        shown = str(error)
    else:
        shown = ""
    assert shown.isprintable()
