"""review.python.plan: uv and Python are told constants, and reach the index and its files alone."""

from pathlib import Path

import pytest

from fumehood.observe.model import Phase
from fumehood.review import plan as shared
from fumehood.review.python import plan
from fumehood.sandbox.egress import Mode, Policy, Rule
from fumehood.sandbox.spec import Identity, Overlay

INDEX = shared.Remote.parse("https://index.example/simple")


def bench(**changes: object) -> shared.Bench:
    values: dict[str, object] = {
        "identity": Identity(uid=10001, user="nina", host="nina-pc"),
        "folder": "app",
        "uv": Path("/wheel/uv"),
        "python": Path("/usr/bin/python3"),
        "index": INDEX,
    }
    return shared.Bench(**(values | changes))  # type: ignore[arg-type]  # a table of keyword arguments


STEPS = {
    "index": plan.index(bench(), "print()", "unit-server", "1.0"),
    "lock": plan.lock(bench(), "unit-server==1.0", "2026-06-01T00:00:00Z", plan.policy(bench())),
    "fetch": plan.fetch(bench(), plan.policy(bench())),
    "install": plan.install(bench(), Policy(), 2.0),
}
BUILD_STEPS = {
    "fetch-sources": plan.fetch_sources(bench(), "print()", "https://index.example/x", "a" * 64, plan.policy(bench())),
    "lock-build": plan.lock_build(bench(), ("leaf>=1",), "2026-06-01T00:00:00Z", plan.policy(bench())),
    "fetch-build": plan.fetch_build(bench(), plan.policy(bench())),
    "build": plan.build(bench(), Policy(), 2.0),
    "lock": plan.lock_built(bench(), "unit-server @ file:///x", None, plan.policy(bench())),
}


@pytest.mark.threat("R30")
def test_only_the_index_and_hosts_that_were_named_are_reached_and_no_request_opens_them_twice() -> None:
    named = Rule(host="files.example", port=443, operator=True)
    made = plan.policy(bench(index_files=(named,)), (("files.example", 443), ("cdn.example", 443)))
    assert made.mode is Mode.ALLOWLIST
    assert made.rules == (INDEX.rule, named, Rule(host="cdn.example", port=443))
    assert not made.rules[2].operator
    assert plan.policy(bench(index=None)).rules == ()


@pytest.mark.threat("R31")
def test_nothing_is_built_and_every_hash_is_required() -> None:
    for name in ("fetch", "install"):
        words = STEPS[name].argv
        assert "--require-hashes" in words
        assert words[words.index("--only-binary") + 1] == ":all:"
    assert "--only-binary :all: --generate-hashes" in plan.LOCK
    assert "--compile-bytecode" not in str(STEPS)
    assert "--offline" in STEPS["install"].argv


def test_a_resolution_is_bounded_by_its_moment() -> None:
    words = STEPS["lock"].argv
    assert words[words.index("--exclude-newer") + 1] == "2026-06-01T00:00:00Z"
    assert "--exclude-newer" not in plan.lock(bench(), "x==1", None, Policy()).argv


@pytest.mark.threat("R7")
@pytest.mark.parametrize("name", ["lock", "fetch", "install"])
def test_uv_reads_no_configuration_and_downloads_no_python(name: str) -> None:
    given = dict(STEPS[name].environment)
    assert given["UV_NO_CONFIG"] == given["UV_NO_ENV_FILE"] == "1"
    assert given["UV_PYTHON_DOWNLOADS"] == "never"
    assert given["UV_DEFAULT_INDEX"] == INDEX.url
    assert not [key for key in given if not key.startswith(("UV_", "NO_COLOR"))]
    assert ("UV_CACHE_DIR" in given) is (name != "install")


def test_install_has_the_network_of_the_request_and_the_others_that_of_the_index() -> None:
    assert STEPS["install"].network == Policy()
    assert (STEPS["install"].phase, STEPS["fetch"].phase) == (Phase.INSTALL, Phase.FETCH)


@pytest.mark.parametrize("name", [*STEPS, "exercise"])
def test_nothing_of_node_and_nothing_telling_is_inside(name: str) -> None:
    exercised = shared.exercise(bench(), ".venv/bin/unit-server", ("x",), Policy(), 5)
    overlay = Overlay(lowers=(Path("/bottom"),), upper=Path("/upper"), work=Path("/work"))
    spec = shared.spec(bench(), {**STEPS, "exercise": exercised}[name], overlay, None)
    assert [bind.target for bind in spec.binds] == ["/opt/uv/bin/uv"]
    assert dict(spec.environment)["PATH"] == "/opt/uv/bin:/usr/bin:/bin"
    shown = [*spec.argv[:2], spec.workdir, *(f.target for f in spec.files), *(k for k, _ in spec.environment)]
    assert not [text for text in shown if any(w in text.lower() for w in ("fume", "sandbox", "review"))]
    if name == "exercise":
        assert spec.argv == ("/home/nina/app/.venv/bin/unit-server", "x")
        assert not [key for key, _ in spec.environment if key.startswith("UV_")]


def test_only_the_environment_is_a_package_folder() -> None:
    assert bench().is_package(b"home/nina/app/.venv/lib/x")
    assert not bench().is_package(b"home/nina/app/.venvs/x")
    assert not bench().is_package(b"home/nina/app/node_modules/x")


@pytest.mark.threat("R34")
def test_sources_are_built_in_one_step_alone_offline_with_the_network_of_the_request() -> None:
    for name, step in BUILD_STEPS.items():
        assert step.name == name
        assert (step.phase is Phase.PREPARE) is (name == "build")
        assert (step.network == plan.policy(bench())) is (name != "build")
    words = BUILD_STEPS["build"].argv
    assert {"--offline", "--no-build-isolation", "--no-sources"} <= set(words)
    assert BUILD_STEPS["build"].linger_seconds == 2.0
    assert BUILD_STEPS["build"].trace is BUILD_STEPS["lock"].trace is not None


@pytest.mark.threat("R34")
def test_what_a_build_requires_comes_as_wheels_by_their_hashes() -> None:
    assert "--only-binary :all: --generate-hashes" in plan.LOCK_BUILD
    words = BUILD_STEPS["fetch-build"].argv
    assert "--require-hashes" in words
    assert words[words.index("--only-binary") + 1] == ":all:"
    assert BUILD_STEPS["lock-build"].argv[-4:] == ("1", "leaf>=1", "--exclude-newer", "2026-06-01T00:00:00Z")
