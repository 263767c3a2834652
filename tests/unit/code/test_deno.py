import json
import re
from importlib import resources
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumehood.code.child import deno
from fumehood.code.job import JobLimits
from fumehood.core import limits
from fumehood.sandbox import bubblewrap
from fumehood.sandbox.egress import Mode
from fumehood.sandbox.spec import Profile, Root, Route

PARTS = deno.Parts(
    deno=Path("/venv/bin/deno"),
    libraries={"/lib64/ld.so.2": Path("/usr/lib/ld.so.2"), "libc.so.6": Path("/usr/lib/libc.so.6")},
    harness=b"harness",
    import_map=b"{}",
    programs={"/usr/bin/setpriv": Path("/usr/bin/setpriv")},
)
BOUNDS = st.builds(
    JobLimits,
    cpu_seconds=st.floats(0.1, limits.CODE_CPU_SECONDS_MAX),
    memory_bytes=st.integers(limits.CODE_MEMORY_BYTES_MIN, limits.CODE_MEMORY_BYTES_MAX),
)
FOLDER = resources.files("fumehood.code.child")


def words(job: JobLimits | None = None) -> list[str]:
    made = deno.spec(PARTS, job or JobLimits(), 10001, "a" * 32)
    numbers = bubblewrap.Descriptors(files=(7, 8), seccomp=4, info=5, block=6)
    return bubblewrap.options(made, Route.DROPPED, numbers)


@pytest.mark.parametrize("kind", ["read", "write", "net", "env", "run", "ffi", "sys", "import"])
def test_every_permission_is_denied_and_none_is_given(kind: str) -> None:
    argv = deno.argv(JobLimits(), "a")
    assert f"--deny-{kind}" in argv
    assert not [word for word in argv if word.startswith("--allow") or word == "-A"]


@given(job=BOUNDS)
def test_what_is_asked_of_the_kernel_follows_the_job(job: JobLimits) -> None:
    made = deno.spec(PARTS, job, 10001, "a" * 32)
    assert made.limits.memory_bytes == job.memory_bytes
    assert job.cpu_seconds < made.limits.cpu_seconds <= job.cpu_seconds + 1 + limits.CODE_CPU_SLACK_SECONDS
    heap = next(re.findall(r"--max-old-space-size=(\d+)", word)[0] for word in made.argv if "--v8-flags" in word)
    assert 0 < int(heap) * limits.MIB <= job.memory_bytes


def test_a_child_has_no_network_and_the_strictest_profile() -> None:
    made = deno.spec(PARTS, JobLimits(), 10001, "a")
    assert (made.network.mode, made.profile, made.root) == (Mode.NONE, Profile.CODE, Root.FILES)
    assert made.silent
    assert (made.overlay, made.trace, made.identity.uid) == (None, None, 10001)
    assert not [bind for bind in made.binds if bind.writable]


def test_the_root_is_a_few_files() -> None:
    options = words()
    targets = [options[at + 2] for at, word in enumerate(options) if word in {"--ro-bind", "--ro-bind-data"}]
    assert targets == [
        "/deno",
        "/lib64/ld.so.2",
        "/lib/libc.so.6",
        "/usr/bin/setpriv",
        "/harness.js",
        "/import_map.json",
    ]
    mounted = {"--proc", "--dev", "--bind", "--dev-bind", "--overlay", "--bind-data", "--symlink"}
    assert not mounted & set(options)
    assert options[options.index("--remount-ro") + 1] == "/"
    assert [options[at + 1] for at, word in enumerate(options) if word == "--tmpfs"] == ["/deno_dir/gen"]


def test_nothing_of_the_environment_comes_from_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DENO_AUTH_TOKENS", "planted")
    assert "planted" not in str(words())


def test_each_run_has_a_location_of_its_own() -> None:
    assert "--location=http://one.invalid/" in deno.argv(JobLimits(), "one")
    assert "--location=http://two.invalid/" in deno.argv(JobLimits(), "two")


def test_the_import_map_lets_nothing_but_the_harness_through() -> None:
    document = json.loads((FOLDER / "import_map.json").read_bytes())
    assert set(document) == {"imports"}
    imports = document["imports"]
    assert imports.pop("file:///harness.js") == "file:///harness.js"
    assert all(str(place).startswith("https://blocked.invalid/") for place in imports.values())
    assert {"file:///", "http://", "https://", "node:fs", "fs", "node:child_process", "node:process"} <= set(imports)


def test_the_harness_imports_nothing() -> None:
    harness = (FOLDER / "harness.js").read_text(encoding="utf-8")
    assert not re.search(r"^\s*(import|export)\b", harness, re.MULTILINE)
    assert re.findall(r"\bimport\(([^)]*)\)", harness) == ["source"]
