"""A drawn home is plausible, its credentials have the shapes and checksums of their issuers, and no two are alike."""

import base64
import json
import random
import tomllib
from configparser import ConfigParser

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fumehood.content import secrets
from fumehood.content.credentials import checks
from fumehood.observe.canary import Budget, Finder
from fumehood.review.evidence import rooms
from fumehood.review.home import credentials, draws, keys
from fumehood.review.home.lived import home
from fumehood.review.home.model import Home
from fumehood.sandbox.spec import Identity

SEEDS = st.integers(0, 2**64)


def drawn(seed: int) -> Home:
    return home(Identity(uid=10001, user="nina", host="nina-laptop"), random.Random(seed))


def text_of(one: Home, path: str) -> str:
    return next(file.data.decode() for file in one.files if file.path == path)


EVERYTHING = {
    ".ssh/id_ed25519": "ssh_private_key",
    ".npmrc": "npm_token",
    ".aws/credentials": "aws_secret_access_key",
    ".git-credentials": "git_password",
    ".config/gh/hosts.yml": "github_cli_token",
    ".config/gcloud/application_default_credentials.json": "gcloud_refresh_token",
    ".kube/config": "kube_token",
    ".docker/config.json": "docker_token",
    ".netrc": "netrc_password",
    ".pypirc": "package_index_token",
    ".claude.json": "claude_server_key",
    ".claude/settings.json": "claude_key",
    ".cursor/mcp.json": "cursor_github_token",
    ".codex/auth.json": "codex_key",
    ".gemini/.env": "gemini_key",
}


@settings(max_examples=25)
@given(SEEDS)
def test_every_home_has_each_credential_in_its_place_and_each_variable(seed: int) -> None:
    one, other = drawn(seed), drawn(seed + 1)
    assert one.planted == EVERYTHING
    assert {name for name, _ in one.environment} == {name for name, _ in other.environment}
    assert {canary.name for canary in one.canaries} == {canary.name for canary in other.canaries}


@settings(max_examples=25)
@given(SEEDS)
def test_every_value_that_is_looked_for_stands_in_the_home_once(seed: int) -> None:
    one = drawn(seed)
    texts = [file.data for file in one.files] + [value.encode() for _, value in one.environment]
    finder = Finder(one.canaries)
    met = [seen.name for text in texts for seen in finder.look(text, Budget(left=2**20)) if seen.whole]
    assert sorted(set(met)) == sorted(canary.name for canary in one.canaries)
    assert len(met) == len(set(met))
    assert len({canary.name for canary in one.canaries}) == len(one.canaries)


@pytest.mark.threat("R13")
@settings(max_examples=25)
@given(SEEDS)
def test_no_two_homes_share_a_value_or_a_piece_of_one(seed: int) -> None:
    one, other = drawn(seed), drawn(seed + 1)
    finder = Finder(other.canaries)
    for text in [file.data for file in one.files] + [value.encode() for _, value in one.environment]:
        assert finder.look(text, Budget(left=2**20)) == frozenset()
    assert drawn(seed) == one


@settings(max_examples=25)
@given(SEEDS)
def test_files_have_the_modes_and_ages_of_their_kind(seed: int) -> None:
    one = drawn(seed)
    assert len({file.path for file in one.files}) == len(one.files)
    for file in one.files:
        assert file.age_seconds > 0
        assert file.mode in (0o600, 0o644)
        assert not file.path.startswith("/")
        assert ".." not in file.path.split("/")
        if file.path.startswith(".ssh/") and not file.path.endswith(".pub"):
            assert file.mode == 0o600
    assert len({file.age_seconds // 86_400 for file in one.files}) > 3


@settings(max_examples=25)
@given(SEEDS)
def test_tokens_have_the_checksums_of_their_issuers(seed: int) -> None:
    chance = random.Random(seed)
    for one in (credentials.npm_token(chance, "n"), credentials.github_token(chance, "g")):
        assert checks.checksum_fits(one.text.rpartition("_")[2].encode())


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        ("npm-token", lambda c: credentials.npm_token(c, "n").text),
        ("github-token", lambda c: credentials.github_token(c, "n").text),
        ("github-token", lambda c: credentials.github_token(c, "n", "gho_").text),
        ("aws-access-key", lambda c: credentials.aws_key_id(c, "n").text),
        ("assignment", lambda c: f"aws_secret_access_key = {credentials.aws_secret(c, 'n').text}"),
        ("openai-key", lambda c: credentials.openai_key(c, "n").text),
        ("anthropic-key", lambda c: credentials.anthropic_key(c, "n").text),
        ("gcp-api-key", lambda c: credentials.google_key(c, "n").text),
        ("gcp-oauth", lambda c: credentials.google_refresh_token(c, "n").text),
        ("docker-token", lambda c: credentials.docker_token(c, "n", "nina")[0].text),
        ("pypi-token", lambda c: credentials.package_index_token(c, "n").text),
        ("private-key", lambda c: credentials.ssh_key(c, "n", "nina@host")[0].private),
    ],
)
def test_our_own_rules_know_what_is_drawn(rule: str, text: object) -> None:
    assert callable(text)
    for seed in range(40):
        found = [span.rule for span in secrets.find_text(text(random.Random(seed)))]
        assert found == [rule] or (rule == "assignment" and found != []), (seed, found)


def test_every_structure_is_what_its_program_reads() -> None:
    one = drawn(1)
    for path in (
        ".claude.json",
        ".claude/settings.json",
        ".cursor/mcp.json",
        ".codex/auth.json",
        ".docker/config.json",
    ):
        assert isinstance(json.loads(text_of(one, path)), dict)
    assert tomllib.loads(text_of(one, ".codex/config.toml"))["mcp_servers"] != {}
    assert json.loads(text_of(one, ".config/gcloud/application_default_credentials.json"))["type"] == "authorized_user"
    parser = ConfigParser()
    parser.read_string(text_of(one, ".aws/credentials"))
    assert set(parser["default"]) == {"aws_access_key_id", "aws_secret_access_key"}
    auths = json.loads(text_of(one, ".docker/config.json"))["auths"]
    assert base64.b64decode(next(iter(auths.values()))["auth"]).startswith(b"nina:dckr_pat_")
    assert len({name for name, _ in one.environment}) == len(one.environment) >= 5


@settings(max_examples=25)
@given(SEEDS)
def test_a_key_pair_is_one_and_lies_in_its_block_as_openssh_writes_it(seed: int) -> None:
    pair = keys.key_pair(random.Random(seed), "nina@host")
    lines = pair.private.splitlines()
    assert all(len(line) == 70 for line in lines[1:-2])
    block = base64.b64decode("".join(lines[1:-1]))
    public = base64.b64decode(pair.public.split()[1])
    head, private = block[:98], block[98:]
    assert head == b"openssh-key-v1\0" + b"\0\0\0\4none" * 2 + b"\0\0\0\0\0\0\0\1\0\0\0\x33" + public + len(
        private
    ).to_bytes(4, "big")
    seed_bytes = private[8 + len(public) + 4 :][:32]
    assert private[:4] == private[4:8]
    assert keys.public_of(seed_bytes) == public[-32:]
    assert len(private) % 8 == 0
    assert sum(line.count(pair.secret) for line in lines) == 1
    assert pair.secret.encode() in base64.b64encode(bytes(161) + seed_bytes)
    assert pair.secret not in pair.public


def test_a_known_seed_gives_the_public_key_of_the_standard() -> None:
    seed = bytes.fromhex(
        "9d61b19deffd5a60ba844af492ec2cc4" + "4449c5697b326919703bac031cae7f60"
    )  # RFC 8032, 7.1, test 1
    public = "d75a980182b10ab7d54bfed3c964073a" + "0ee172f3daa62325af021a68f707511a"
    assert keys.public_of(seed).hex() == public


def test_what_is_planted_has_a_room_in_every_result() -> None:
    where = "/home/nina"
    for path in EVERYTHING:
        assert rooms.of_path(f"{where}/{path}", where, f"{where}/app") != ""


def test_a_uuid_and_a_word_have_their_forms() -> None:
    chance = random.Random(3)
    first, second, third, fourth, fifth = draws.uuid(chance).split("-")
    assert [len(part) for part in (first, second, third, fourth, fifth)] == [8, 4, 4, 4, 12]
    assert (third[0], fourth[0] in "89ab") == ("4", True)
    assert draws.word(chance, 12, draws.DIGITS).isdigit()
