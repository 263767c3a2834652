"""review.behaviour.noise: what two runs of one program differ in becomes the same, and nothing else does."""

import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumehood.review.behaviour import noise
from fumehood.review.behaviour.noise import Noise
from fumehood.review.home.model import Person

PAGE = Path(__file__).parents[4] / "docs/reference/behaviour.md"
RUN = Noise(
    user="max",
    host="max-laptop",
    workspace="/home/max/app",
    uid=10156,
    addresses={"198.18.1.0": "mail.example"},
    places={"registry.example": "<registry>"},
)


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("/home/max/app/dist/index.js", "<workspace>/dist/index.js"),
        ("/home/max/.npmrc", "<home>/.npmrc"),
        ("--dir=%2Fhome%2Fmax%2Fapp", "--dir=<workspace>"),
        ("<home>/.claude/projects/-home-max-app/a.jsonl", "<home>/.claude/projects/<workspace>/a.jsonl"),
        ("/home/maxim/x", "/home/maxim/x"),
        ("/var/home/max/app/node_modules/.bin/tool", "<workspace>/node_modules/.bin/tool"),
        ("file:/var/home/max/.cache", "file:<home>/.cache"),
        ("max-laptop", "<host>"),
        ("max", "<user>"),
        ("10156", "<uid>"),
        ("10157", "10157"),
        ("--max", "--max"),
        ("/var/mail/max", "/var/mail/<user>"),
        ("/run/user/10156/bus", "/run/user/<uid>/bus"),
        ("/home/max/.npm/_logs/2026-11-30T07_45_18_940Z-debug-0.log", "<home>/.npm/_logs/<time>-debug-0.log"),
        ("at 2026-11-30 07:45:18", "at <time>"),
        ("/a/2f1a7c3e-1111-4222-8333-0123456789ab", "/a/<uuid>"),
        ("{child_tid=0x7fa0bb3e4990}", "{child_tid=<address>}"),
        ("/proc/4711/task/4712/comm", "/proc/<pid>/task/<pid>/comm"),
        ("/tmp/node-compile-cache/v24-x64-1/a/b", "/tmp/node-compile-cache/<cache>"),
        ("/home/max/.npm/_cacache/tmp/9a8b7c6d", "<home>/.npm/_cacache/tmp/<random>"),
        ("/tmp/server-AbC123/x", "/tmp/server-<random>/x"),
        ("/tmp/tmp.K3jd82jsAA", "/tmp/tmp.<random>"),
        ("/tmp/tmpab12cd_4", "/tmp/tmp<random>"),
        ("/tmp/settings", "/tmp/settings"),
        ("node_modules/.left-pad-Xy12Zw34/a", "node_modules/.left-pad-<random>/a"),
        ("node_modules/.hidden-settings", "node_modules/.hidden-settings"),
        ("/x/0123456789abcdef0123", "/x/<hex>"),
        ("config.json.2.1764488718.8b45c123456d78.tmp", "config.json.<random>.tmp"),
        ("config.json.k3jd82jsaa.tmp", "config.json.<random>.tmp"),
        ("my.settings.tmp", "my.settings.tmp"),
        ("/x/deadbeefdeadbeef", "/x/deadbeefdeadbeef"),
        (".cache/browser/profile-5d8f922", ".cache/browser/profile-<hex>"),
        (".cache/browser/profile-5d8f922b/x", ".cache/browser/profile-<hex>/x"),
        (".cache/browser/profile-defaced", ".cache/browser/profile-defaced"),
        ("E1130 09:09:00.123456      32 cache.go:265] no", "<logged> cache.go:265] no"),
        ("fail\\nE1130 09:09:00.123456      32 x", "fail\\n<logged> x"),
        ("k8s.haltenlor.internal", "k8s.<company>.internal"),
        ("metadata.google.internal", "metadata.google.internal"),
        ("host.docker.internal", "host.docker.internal"),
        ("/k8s/clusters/c-q5u90/api", "/k8s/clusters/c-<random>/api"),
        ("/k8s/clusters/c_3c9tn/groups.json", "/k8s/clusters/c-<random>/groups.json"),
        ("/x/QWxhZGRpbjpvcGVuIHNlc2FtZQ1x", "/x/<token>"),
        ("AKIA2B3C4D5E6F7G8H9I", "<token>"),
        ("qwxhzgrpbjpvcgvu3hnlc2ftzq1x.mail.example", "<token>.mail.example"),
        ("dc-telemetry-proxy-8384735-west1.example", "dc-telemetry-proxy-<number>-west1.example"),
        ("internationalization4u", "internationalization4u"),
        ("http://127.0.0.1:43211/a", "http://127.0.0.1:<port>/a"),
        ("http://127.0.0.1:8080/a", "http://127.0.0.1:8080/a"),
        ("settings.json.1764488718", "settings.json.<number>"),
        ("connect 198.18.1.0", "connect mail.example"),
        ("connect 198.19.7.7", "connect <named>"),
        ("connect 198.20.7.7", "connect 198.20.7.7"),
    ],
)
def test_a_text_keeps_what_the_target_chose_and_loses_what_the_run_drew(text: str, clean: str) -> None:
    assert RUN.text(text) == clean


def test_a_host_of_the_operators_is_a_placeholder_and_a_port_of_the_kernels_none() -> None:
    assert RUN.name("registry.example") == "<registry>"
    assert RUN.name("other.example") == "other.example"
    assert (RUN.port(443), RUN.port(40000)) == (443, "<port>")


def test_the_home_is_where_the_workspace_lies_when_it_is_not_below_the_users_own() -> None:
    assert Noise(user="max", workspace="/srv/x/app").home == "/srv/x"
    assert Noise().home == ""


def test_an_address_is_pooled_or_not_whatever_it_is() -> None:
    assert [noise.is_pooled(a) for a in ("198.19.255.255", "198.20.0.0", "::1", "x", None)] == [True, *[False] * 4]


@given(st.text(st.sampled_from("/tmp.-_<>:abcABC0123456789 xT\u20ac"), max_size=80))
def test_a_text_without_noise_has_none_the_second_time(text: str) -> None:
    once = RUN.text(text)
    assert RUN.text(once) == once


@given(st.sampled_from(["alex", "will", "tim"]), st.sampled_from(["app", "tools", "x"]), st.text("abz-./", max_size=20))
def test_two_runs_of_one_program_say_the_same(user: str, folder: str, rest: str) -> None:
    other = Noise(user=user, host=f"{user}-pc", workspace=f"/home/{user}/{folder}")
    assert other.text(f"/home/{user}/{folder}/{rest}") == RUN.text(f"/home/max/app/{rest}")


def test_each_rule_stands_with_its_reason_in_the_documents() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert [rule.name for rule in noise.TABLE if rule.name not in page or rule.reason not in page] == []


@given(st.randoms(use_true_random=False))
def test_a_host_of_a_planted_home_says_the_same_in_every_run(chance: random.Random) -> None:
    assert RUN.text(f"k8s.{Person.drawn('max', 'max-laptop', chance).domain}") == "k8s.<company>.internal"
