"""Files of programs that sign in somewhere: ssh, npm, clouds, clusters, git, package indexes. Pure.

Sources of the forms: ssh_config(5), sshd(8) (authorized_keys, known_hosts), npm's npmrc(5), the AWS and Google Cloud
command lines, kubeconfig v1, Docker's config.json, GNU inetutils' netrc, git-credential-store(1), the GitHub command
line's hosts.yml, the package index's .pypirc.
"""

import json
import random
from collections.abc import Iterator

from fumehood.review.home import credentials, draws, keys
from fumehood.review.home.model import PRIVATE, Kept, Person

_REGIONS = ("eu-central-1", "eu-west-1", "us-east-1", "us-west-2", "ap-southeast-2")
_FORGE = "github.com"


def drawn(person: Person, chance: random.Random) -> Iterator[Kept]:
    """The accounts that this person has: all of them in every run, so that two runs can be compared."""
    yield from _ssh(person, chance)
    yield from _npm(person, chance)
    yield from _aws(chance)
    yield from _git(person, chance)
    for others in (_gcloud, _kubernetes, _docker, _netrc, _package_index):
        yield from others(person, chance)


def _ssh(person: Person, chance: random.Random) -> Iterator[Kept]:
    pair, canary = credentials.ssh_key(chance, "ssh_private_key", f"{person.user}@{person.host}")
    yield Kept(path=".ssh/id_ed25519", text=pair.private, canaries=(canary,), mode=PRIVATE)
    yield Kept(path=".ssh/id_ed25519.pub", text=pair.public)
    servers = [f"{what}.{person.domain}" for what in chance.sample(("build", "git", "jump", "stage", "db", "ci"), k=3)]
    known = "".join(f"{server} {_public(chance)}\n" for server in (*servers, f"10.{chance.randint(1, 99)}.0.12"))
    yield Kept(path=".ssh/known_hosts", text=known, mode=PRIVATE)
    config = "".join(
        f"Host {name.partition('.')[0]}\n    HostName {name}\n    User {person.user}\n\n" for name in servers
    )
    yield Kept(path=".ssh/config", text=config + "Host *\n    ServerAliveInterval 60\n", mode=PRIVATE)
    comment = f"{person.user}@{draws.name(chance, 2)}"
    yield Kept(path=".ssh/authorized_keys", text=f"{_public(chance)} {comment}\n", mode=PRIVATE)


def _public(chance: random.Random) -> str:
    """A public key of somebody else's."""
    return keys.key_pair(chance, "").public.rstrip()


def _npm(person: Person, chance: random.Random) -> Iterator[Kept]:
    token = credentials.npm_token(chance, "npm_token")
    host = f"npm.{person.domain}"
    lines = (f"@{person.company}:registry=https://{host}/", f"//{host}/:_authToken={token.text}")
    yield Kept(path=".npmrc", text="\n".join(lines) + "\n", canaries=(token.canary,), mode=PRIVATE)


def _aws(chance: random.Random) -> Iterator[Kept]:
    region = chance.choice(_REGIONS)
    key, secret = (
        credentials.aws_key_id(chance, "aws_access_key_id"),
        credentials.aws_secret(chance, "aws_secret_access_key"),
    )
    text = f"[default]\naws_access_key_id = {key.text}\naws_secret_access_key = {secret.text}\n"
    yield Kept(path=".aws/credentials", text=text, canaries=(secret.canary, key.canary), mode=PRIVATE)
    yield Kept(path=".aws/config", text=f"[default]\nregion = {region}\noutput = json\n", mode=PRIVATE)


def _git(person: Person, chance: random.Random) -> Iterator[Kept]:
    name = f"{person.user.capitalize()} {person.surname.capitalize()}"
    lines = ["[user]", f"\tname = {name}", f"\temail = {person.mail}", "[pull]", "\trebase = true"]
    lines += ["[init]", "\tdefaultBranch = main", "[credential]", "\thelper = store"]
    yield Kept(path=".gitconfig", text="\n".join(lines) + "\n")
    stored = credentials.password(chance, "git_password")
    text = f"https://{person.user}:{stored.text}@git.{person.domain}\n"
    yield Kept(path=".git-credentials", text=text, canaries=(stored.canary,), mode=PRIVATE)
    token = credentials.github_token(chance, "github_cli_token", "gho_")
    hosts = (
        f"{_FORGE}:\n    user: {person.user}-{person.surname}\n    oauth_token: {token.text}\n    git_protocol: ssh\n"
    )
    yield Kept(path=".config/gh/hosts.yml", text=hosts, canaries=(token.canary,), mode=PRIVATE)


def _gcloud(person: Person, chance: random.Random) -> Iterator[Kept]:
    token = credentials.google_refresh_token(chance, "gcloud_refresh_token")
    client = f"{draws.word(chance, 12, draws.DIGITS)}-{draws.word(chance, 32, draws.LOWER)}.apps.googleusercontent.com"
    secret = credentials.credential("gcloud_client_secret", "GOCSPX-", draws.word(chance, 28))
    document = {
        "account": "",
        "client_id": client,
        "client_secret": secret.text,
        "quota_project_id": f"{person.company}-{chance.choice(person.projects)}",
        "refresh_token": token.text,
        "type": "authorized_user",
        "universe_domain": "googleapis.com",
    }
    path = ".config/gcloud/application_default_credentials.json"
    yield Kept(path=path, text=json.dumps(document, indent=2), canaries=(token.canary, secret.canary), mode=PRIVATE)


def _kubernetes(person: Person, chance: random.Random) -> Iterator[Kept]:
    token = credentials.cluster_token(chance, "kube_token")
    cluster = f"{chance.choice(person.projects)}-{chance.choice(('dev', 'stage', 'prod'))}"
    text = (
        f"apiVersion: v1\nkind: Config\nclusters:\n- name: {cluster}\n  cluster:\n"
        f"    server: https://k8s.{person.domain}/k8s/clusters/c-{draws.word(chance, 5, draws.LOWER)}\n"
        f"users:\n- name: {cluster}\n  user:\n    token: {token.text}\n"
        f"contexts:\n- name: {cluster}\n  context:\n    user: {cluster}\n    cluster: {cluster}\n"
        f"current-context: {cluster}\n"
    )
    yield Kept(path=".kube/config", text=text, canaries=(token.canary,), mode=PRIVATE)


def _docker(person: Person, chance: random.Random) -> Iterator[Kept]:
    token, auth = credentials.docker_token(chance, "docker_token", person.user)
    document = {"auths": {f"docker.{person.domain}": {"auth": auth}}, "currentContext": "default"}
    yield Kept(
        path=".docker/config.json", text=json.dumps(document, indent="\t"), canaries=(token.canary,), mode=PRIVATE
    )


def _netrc(person: Person, chance: random.Random) -> Iterator[Kept]:
    secret = credentials.password(chance, "netrc_password")
    text = f"machine files.{person.domain}\n  login {person.user}\n  password {secret.text}\n"
    yield Kept(path=".netrc", text=text, canaries=(secret.canary,), mode=PRIVATE)


def _package_index(person: Person, chance: random.Random) -> Iterator[Kept]:
    del person
    token = credentials.package_index_token(chance, "package_index_token")
    text = f"[pypi]\nusername = __token__\npassword = {token.text}\n"
    yield Kept(path=".pypirc", text=text, canaries=(token.canary,), mode=PRIVATE)
