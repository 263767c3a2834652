"""review.python.sources: which index the operator uses, and what is no index for a review."""

from pathlib import Path

import msgspec
import pytest

from fumehood.core.errors import HarnessError, UnsupportedError
from fumehood.core.sections import Settings
from fumehood.review import operator
from fumehood.review.python import sources
from fumehood.review.work import Work
from fumehood.sandbox import launch
from fumehood.sandbox.hostfacts import Tool


@pytest.fixture
def with_uv(work: Work, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, object]]:
    """A host with uv and Python; what uv was asked, with which environment. It says a public index."""
    asked: list[dict[str, object]] = []
    for name in ("uv", "python"):
        path = Path("/usr/bin", name)
        work.host.tools[name] = Tool(name=name, path=path, version="1.0", sha256="0" * 64, origin="system")

    def run(argv: list[str], **given: object) -> launch.Completed:
        asked.append({"argv": argv, **given})
        return launch.Completed(status=0, stdout=b"\n--index-url https://public.example/simple\n", stderr=b"")

    monkeypatch.setattr(launch, "run_tool", run)
    monkeypatch.setattr(sources, "_files", lambda _: iter(()))
    return asked


def settings(**review: object) -> Settings:
    return msgspec.convert({"review": review}, Settings)


def test_without_anything_uv_is_asked_with_no_more_than_its_own_configuration(
    work: Work, with_uv: list[dict[str, object]]
) -> None:
    environ = {"HOME": "/home/me", "UV_INDEX": "x", "GITHUB_TOKEN": "planted"}
    found = sources.index(settings(), work.host, environ)
    assert found.named == "https://public.example/simple/"
    assert with_uv[0]["environment"] == {"HOME": "/home/me"}
    assert "--offline" in str(with_uv[0]["argv"])


@pytest.mark.parametrize("name", ["UV_DEFAULT_INDEX", "UV_INDEX_URL", "PIP_INDEX_URL"])
def test_a_variable_of_uv_or_pip_comes_before_what_uv_says_and_after_the_settings(
    work: Work, with_uv: list[dict[str, object]], name: str
) -> None:
    environ = {name: "https://mirror.example/simple"}
    assert sources.index(settings(), work.host, environ).named == "https://mirror.example/simple/"
    chosen = settings(index="http://127.0.0.1:8080/simple")
    assert sources.index(chosen, work.host, environ).named == "http://127.0.0.1:8080/simple/"
    assert with_uv == []


@pytest.mark.threat("R7")
@pytest.mark.parametrize("url", ["file:///srv/simple", "https://me:token@mirror.example/simple", "mirror", "https://"])
def test_an_index_on_the_disk_or_with_credentials_is_refused_and_not_shown(
    work: Work, with_uv: list[dict[str, object]], url: str
) -> None:
    with pytest.raises(sources.BadIndexError) as refused:
        sources.index(settings(), work.host, {"PIP_INDEX_URL": url})
    assert "token" not in str(refused.value)
    assert "review.index" in refused.value.remedy
    assert with_uv == []


def test_a_uv_that_names_no_index_is_an_error_that_names_the_setting(
    work: Work, with_uv: list[dict[str, object]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launch, "run_tool", lambda *_, **__: launch.Completed(status=2, stdout=b"", stderr=b""))
    with pytest.raises(HarnessError, match=r"review\.index"):
        sources.index(settings(), work.host, {})
    assert with_uv == []


def test_a_host_without_uv_says_what_brings_it(work: Work) -> None:
    with pytest.raises(UnsupportedError, match=r"fumehood\[review\]"):
        sources.index(settings(), work.host, {"PIP_CONFIG_FILE": "/dev/null"})


def test_pips_files_are_read_the_users_after_the_systems(tmp_path: Path) -> None:
    system, home = tmp_path / "xdg", tmp_path / "home"
    (system / "pip").mkdir(parents=True)
    (system / "pip/pip.conf").write_text("[global]\nindex-url = https://system.example/simple\n")
    environ = {"XDG_CONFIG_DIRS": str(system), "HOME": str(home)}
    assert sources._configured(environ) == "https://system.example/simple"
    (home / ".config/pip").mkdir(parents=True)
    (home / ".config/pip/pip.conf").write_text("[global]\nindex_url: https://mine.example/simple\n")
    assert sources._configured(environ) == "https://mine.example/simple"
    other = tmp_path / "other.conf"
    other.write_text("[global\nbroken")
    assert sources._configured({**environ, "PIP_CONFIG_FILE": str(other)}) == "https://mine.example/simple"
    other.write_text("[global]\nindex-url = https://other.example/simple\n")
    assert sources._configured({**environ, "PIP_CONFIG_FILE": str(other)}) == "https://other.example/simple"
    assert sources._configured({**environ, "PIP_CONFIG_FILE": "/dev/null"}) == ""


def test_a_python_target_needs_no_npm_and_takes_the_hosts_of_the_settings(
    work: Work, with_uv: list[dict[str, object]]
) -> None:
    chosen = settings(index="https://mirror.example/simple", index_files=("https://files.example:8443",))
    found = operator.sources(chosen, work.host, {}, "pypi")
    assert found.registry is None
    assert found.index is not None
    assert [(rule.host, rule.port, rule.operator) for rule in found.index_files] == [("files.example", 8443, True)]
    assert with_uv == []
