"""review.operator: the settings first, then what npm and the environment say; what is named has to be there."""

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from fumehood.core.errors import HarnessError
from fumehood.core.sections import ReviewSettings, Settings
from fumehood.review import operator
from fumehood.review.work import Work
from fumehood.sandbox import launch

Say = Callable[..., None]


def settings(**review: object) -> Settings:
    return msgspec.convert({"review": review}, Settings)


@pytest.fixture
def npm_says(monkeypatch: pytest.MonkeyPatch) -> Say:
    """Let npm answer this; the environment that it was given is kept."""

    def say(*lines: str, status: int = 0) -> None:
        def run(argv: list[str], **given: object) -> launch.Completed:
            assert argv[2:] == ["config", "get", "registry", "cafile", "--logs-max=0", "--no-update-notifier"]
            assert given["environment"] == {"HOME": "/home/me", "npm_config_registry": "x"}
            return launch.Completed(status=status, stdout="\n".join(lines).encode(), stderr=b"")

        monkeypatch.setattr(launch, "run_tool", run)

    return say


ENVIRON = {"HOME": "/home/me", "npm_config_registry": "x", "GITHUB_TOKEN": "planted"}


def test_without_settings_npm_is_asked_with_no_more_than_its_own_configuration(work: Work, npm_says: Say) -> None:
    npm_says("registry=https://registry.example/npm/", "cafile=null")
    found = operator.sources(settings(), work.host, ENVIRON)
    assert found.registry is not None
    assert found.registry.named == "https://registry.example/npm/"
    assert found.ca_file is None
    assert found.forge.named == ReviewSettings().forge + "/"


@pytest.mark.parametrize("answer", [("registry=undefined",), (), ("registry=ftp://x/",)])
def test_an_npm_that_names_no_registry_is_an_error_that_names_the_setting(
    work: Work, npm_says: Say, answer: tuple[str, ...]
) -> None:
    npm_says(*answer)
    with pytest.raises(HarnessError, match=r"review\.npm_registry"):
        operator.sources(settings(), work.host, ENVIRON)


def test_the_settings_win_and_npm_is_not_asked(work: Work, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(launch, "run_tool")
    pem = tmp_path / "ca.pem"
    pem.touch()
    chosen = settings(npm_registry="http://127.0.0.1:1/", ca_file=str(pem))
    found = operator.sources(chosen, work.host, {"SSL_CERT_FILE": "/etc/passwd"})
    assert found.registry is not None
    assert found.registry.named == "http://127.0.0.1:1/"
    assert found.ca_file == pem


def test_certificates_of_npms_own_configuration_are_taken_before_those_of_the_environment(
    work: Work, tmp_path: Path, npm_says: Say
) -> None:
    first, second = tmp_path / "npm.pem", tmp_path / "environment.pem"
    second.touch()
    npm_says("registry=https://registry.example/", f"cafile={first}")
    environ = {**ENVIRON, "NODE_EXTRA_CA_CERTS": "relative.pem", "SSL_CERT_FILE": str(second)}
    assert operator.sources(settings(), work.host, environ).ca_file == second
    first.touch()
    assert operator.sources(settings(), work.host, environ).ca_file == first


def test_certificates_that_the_settings_name_and_that_are_not_there_are_refused_before_anything_runs(
    work: Work, tmp_path: Path
) -> None:
    chosen = settings(npm_registry="http://127.0.0.1:1/", ca_file=str(tmp_path / "nothing.pem"))
    with pytest.raises(operator.CertificatesError, match=r"review\.ca_file"):
        operator.sources(chosen, work.host, {})
