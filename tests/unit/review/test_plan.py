import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumehood.observe.model import Phase
from fumehood.review import identity as identities
from fumehood.review import plan
from fumehood.review.node import plan as nodeplan
from fumehood.sandbox.egress import Mode, Policy
from fumehood.sandbox.spec import Identity, Overlay, Profile, TraceMode

REGISTRY = plan.Remote.parse("https://registry.example/npm/")
COMMIT = plan.Commit("a" * 40)
FORGE = plan.Remote.parse("https://forge.example/")


def bench(**changes: object) -> plan.Bench:
    values: dict[str, object] = {
        "identity": Identity(uid=10001, user="nina", host="nina-pc"),
        "folder": "app",
        "node": Path("/usr/bin/node"),
        "node_library": Path("/usr/lib/node_modules"),
        "registry": REGISTRY,
        "forge": FORGE,
    }
    return plan.Bench(**(values | changes))  # type: ignore[arg-type]  # a table of keyword arguments


def overlay() -> Overlay:
    return Overlay(lowers=(Path("/l0"),), upper=Path("/u"), work=Path("/w"))


def test_a_registry_of_the_settings_is_reached_by_its_own_name() -> None:
    assert REGISTRY.rule.host == "registry.example"
    assert REGISTRY.rule.port == 443
    assert REGISTRY.rule.operator
    assert REGISTRY.url == "https://registry.example/npm/"
    assert not REGISTRY.plain_http


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "127.1.2.3", "[::1]"])
def test_a_loopback_registry_is_given_another_name_and_pinned(host: str) -> None:
    remote = plan.Remote.parse(f"http://{host}:4873/")
    assert remote.rule.host == plan.HIDDEN_HOST
    assert remote.rule.pins
    assert remote.url == f"http://{plan.HIDDEN_HOST}:4873/"
    assert remote.plain_http


@pytest.mark.parametrize(
    ("url", "named"),
    [
        ("http://127.0.0.1:4873", "http://127.0.0.1:4873/"),
        ("http://[::1]:4873/npm", "http://[::1]:4873/npm/"),
        ("https://somebody:password@Registry.Example/npm/", "https://registry.example/npm/"),
        ("https://[2001:db8::1]/", "https://[2001:db8::1]/"),
    ],
)
def test_a_host_of_the_settings_is_named_as_they_name_it_and_without_a_user(url: str, named: str) -> None:
    assert plan.Remote.parse(url).named == named


def test_an_address_of_the_settings_keeps_its_brackets_inside() -> None:
    remote = plan.Remote.parse("https://[2001:db8::1]:8443/npm")
    assert remote.url == "https://[2001:db8::1]:8443/npm/"
    assert (remote.rule.host, remote.rule.port) == ("2001:db8::1", 8443)


def test_install_runs_exactly_npm_ci_offline_with_the_network_of_the_request() -> None:
    open_network = Policy(mode=Mode.OPEN)
    step = nodeplan.install(bench(), open_network, 2.0)
    assert step.argv[2:] == ("ci", "--offline")
    assert step.network is open_network
    assert step.phase is Phase.INSTALL
    assert step.trace is TraceMode.FAST


@pytest.mark.threat("R7")
def test_no_program_of_a_repositorys_choice_is_its_git_where_scripts_are_off() -> None:
    for step in (nodeplan.lock(bench()), nodeplan.fetch(bench())):
        assert dict(step.environment)["npm_config_git"] == "/bin/false"
    assert "npm_config_git" not in dict(nodeplan.install(bench(), Policy(), 2.0).environment)


@pytest.mark.parametrize(
    ("path", "package"),
    [
        (b"home/nina/app/node_modules", True),
        (b"home/nina/app/node_modules/a/index.js", True),
        (b"home/nina/app/packages/one/node_modules/a", True),
        (b"home/nina/app/not_node_modules/a", False),
        (b"home/nina/app", False),
        (b"home/nina/node_modules/a", False),
        (b"home/nina/.ssh/node_modules", False),
        (b"home/nina/application/node_modules/a", False),
    ],
)
def test_npm_unpacks_below_the_workspace_only(path: bytes, *, package: bool) -> None:
    assert bench().is_package(path) is package


def test_fetch_reaches_the_registry_only_and_runs_no_script() -> None:
    step = nodeplan.fetch(bench())
    assert step.argv[2:] == ("ci", "--ignore-scripts")
    assert step.network == Policy(mode=Mode.ALLOWLIST, rules=(REGISTRY.rule,))


def test_the_build_step_runs_exactly_npm_run_build() -> None:
    assert nodeplan.build(bench(), Policy(), 0.0).argv[2:] == ("run", "build")


def test_git_is_confined_to_the_forge_and_its_protocol() -> None:
    step = plan.clone(bench(), "owner/repository", COMMIT)
    environment = dict(step.environment)
    assert environment["GIT_ALLOW_PROTOCOL"] == "https"
    assert environment["GIT_CONFIG_GLOBAL"] == "/dev/null"
    assert step.profile is Profile.REVIEW  # git forks, and speaks to the forge
    assert step.network.rules == (FORGE.rule,)
    assert "https://forge.example/owner/repository.git" in step.argv
    counted = int(environment["GIT_CONFIG_COUNT"])
    keys = {environment[f"GIT_CONFIG_KEY_{n}"] for n in range(counted)}
    assert {"transfer.fsckObjects", "core.hooksPath", "credential.helper"} <= keys


def test_a_git_target_without_a_forge_is_a_mistake_of_ours() -> None:
    with pytest.raises(ValueError, match="forge"):
        plan.clone(bench(forge=None), "owner/repository", COMMIT)


@given(st.sampled_from(["clone", "lock", "fetch", "install", "build", "exercise"]))
def test_the_environment_of_every_step_is_built_and_taken_from_nowhere(name: str) -> None:
    shared = bench(ca_file=Path("/etc/ssl/ca.pem"))
    steps = {
        "clone": plan.clone(shared, "o/r", COMMIT),
        "lock": nodeplan.lock(shared),
        "fetch": nodeplan.fetch(shared),
        "install": nodeplan.install(shared, Policy(), 0),
        "build": nodeplan.build(shared, Policy(), 0),
        "exercise": plan.exercise(shared, "index.js", ("x",), Policy(), 5),
    }
    spec = plan.spec(shared, steps[name], overlay(), Path("/cache"))
    keys = [key for key, _ in spec.environment]
    assert len(keys) == len(set(keys))
    assert not [key for key in keys if key.startswith(("GITHUB_", "ACTIONS_", "RUNNER_"))]
    assert dict(spec.environment)["HOME"] == "/home/nina"
    assert spec.workdir == "/home/nina/app"
    assert spec == plan.spec(shared, steps[name], overlay(), Path("/cache"))


def test_nothing_inside_bears_a_telling_name() -> None:
    spec = plan.spec(bench(), plan.exercise(bench(), "index.js", (), Policy(), 5), overlay(), None)
    shown = [*spec.argv, spec.workdir, *(b.target for b in spec.binds), *(f.target for f in spec.files)]
    shown += [part for pair in spec.environment for part in pair]
    assert not [text for text in shown if any(w in text.lower() for w in ("fume", "sandbox", "review", "node_options"))]


@given(st.integers())
def test_names_differ_by_chance_and_look_like_people(seed: int) -> None:
    chance = random.Random(seed)
    who = identities.identity(10001, chance)
    assert who.user.isalpha()
    assert who.host.startswith(who.user)
    assert who.home == f"/home/{who.user}"
    assert "/" not in identities.folder(chance)


def test_two_runs_have_different_names() -> None:
    drawn = {identities.identity(10001, random.Random(seed)).host for seed in range(50)}
    assert len(drawn) > 40


def test_only_the_loopback_registrys_own_address_is_replaced_in_tarballs() -> None:
    hidden = bench(registry=plan.Remote.parse("http://127.0.0.1:4873/"))
    assert dict(nodeplan.fetch(hidden).environment)["npm_config_replace_registry_host"] == "127.0.0.1"
    assert "npm_config_replace_registry_host" not in dict(nodeplan.fetch(bench()).environment)
