"""What no committed file may hold: a registry's name, a path of somebody's machine, an outside address in a fixture."""

import ipaddress
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# Written in two halves, so that this file does not hold what it looks for.
REGISTRIES = tuple(
    first + second
    for first, second in (
        ("registry.npm", "js.org"),
        ("npm", "js.com"),
        ("registry.yarn", "pkg.com"),
        ("py", "pi.org"),
        ("files.python", "hosted.org"),
        ("npm", "mirror.com"),
        ("pkg.git", "hub.com"),
    )
)
MACHINE = re.compile(r"(?<![\w.$}])/(?:work|home/runner|Users)/|\.\./" + r"shared\b|/tmp/" + r"bash_jobs")
ADDRESS = re.compile(r"(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?![\w.])")
# Loopback, unspecified, the documentation blocks of RFC 5737, the benchmarking block of RFC 2544.
ALLOWED = tuple(
    map(
        ipaddress.IPv4Network,
        ("127.0.0.0/8", "0.0.0.0/32", "192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24", "198.18.0.0/15"),
    )
)


def committed() -> list[Path]:
    """Every file that git tracks, or would after `git add`."""
    argv = ["git", "-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, check=True, timeout=60)
    return [path for name in done.stdout.split(b"\0") if name and (path := ROOT / name.decode()).is_file()]


def text(path: Path) -> str:
    return path.read_bytes().decode("utf-8", "replace")


def registries(content: str) -> list[str]:
    return [name for name in REGISTRIES if name in content]


def outside_addresses(content: str) -> list[str]:
    found = []
    for match in ADDRESS.findall(content):
        try:
            address = ipaddress.IPv4Address(match)
        except ValueError:
            continue  # a version with four parts
        if not any(address in network for network in ALLOWED):
            found.append(match)
    return found


@pytest.mark.threat("R15")
def test_no_committed_file_names_a_registry() -> None:
    assert {str(path): names for path in committed() if (names := registries(text(path)))} == {}


def test_no_committed_file_holds_a_path_of_a_machine() -> None:
    assert [str(path) for path in committed() if MACHINE.search(text(path))] == []


def test_fixtures_hold_no_outside_address() -> None:
    fixtures = [path for path in committed() if "fixtures" in path.parts]
    assert {str(path): found for path in fixtures if (found := outside_addresses(text(path)))} == {}


@pytest.mark.threat("R15")
def test_every_locked_package_has_hashes_and_an_exact_version() -> None:
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    packages = re.split(r"\n(?=[a-z0-9])", lock.strip())
    assert len(packages) > 20
    assert [p.splitlines()[0] for p in packages if "--hash=sha256:" not in p or "==" not in p.splitlines()[0]] == []


def test_what_must_not_be_committed_is_found() -> None:
    assert registries("see https://registry." + "npmjs.org/x") == ["registry." + "npmjs.org"]
    assert MACHINE.search("open('/work" + "/main/x')")
    assert MACHINE.search("see ../" + "shared/x")
    assert not MACHINE.search("src/work/x and $HOME/work/")
    assert outside_addresses("8.8.8.8 127.0.0.1 1.2.3.4.5 192.0.2.7 999.1.1.1") == ["8.8.8.8"]
