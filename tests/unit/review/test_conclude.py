"""review.conclude: what a result says of the request, of the operator's hosts and of what every step was given."""

import dataclasses
import datetime as dt
from typing import Any

import pytest

from fumehood.core import jsonio
from fumehood.observe.model import Collector, CollectorState, Phase
from fumehood.review import conclude, plan, request, result
from fumehood.review.behaviour import canonical
from fumehood.review.node import plan as nodeplan
from fumehood.review.states import State
from fumehood.review.work import Work
from fumehood.wire import schema

PUBLIC = "https://registry.example/"
TOKEN = "ghp_" + "a1B2" * 9
NPM = {"kind": "npm", "name": "package", "version": "1.2.3"}
GIT = {"kind": "git", "repository": "owner/repository", "ref": "0" * 40}


def concluded(work: Work, target: dict[str, Any] = NPM, **changes: Any) -> result.ReviewResult:
    fields = {
        "schema_version": 2,
        "target": target,
        "adapter": "node_stdio",
        "action_profile": "mcp_initialize",
        "network_mode": "NONE",
        "credentials": "NONE",
        "question": "what does it do?",
        "entrypoint": "server.js",
        "evidence": ["process"],
        "timeout_seconds": 60,
        **changes,
    }
    moment = dt.datetime(2026, 11, 29, tzinfo=dt.UTC)
    made = conclude.result(request.convert(fields), work, State.COMPLETED, started=moment, ended=moment)
    assert schema.problems(result.schema(), jsonio.parse(result.encode(made), size=10**6)) == []
    return made


def reached_by(work: Work, *, registry: str = PUBLIC, forge: str = "https://forge.example/") -> None:
    remotes = (plan.Remote.parse(registry), plan.Remote.parse(forge))
    work.bench = dataclasses.replace(work.bench, registry=remotes[0], forge=remotes[1])


def test_a_credential_in_the_words_of_a_request_is_not_in_its_result(work: Work) -> None:
    made = concluded(work, argv=["--token", TOKEN, "--root", "{workspace}"], question=f"does {TOKEN} leave?")
    assert TOKEN.encode() not in result.encode(made)
    assert made.request.argv[0] == "--token"
    assert made.request.argv[1].startswith("[redacted:github-token")
    assert made.request.argv[2:] == ("--root", "{workspace}")


def test_words_without_a_credential_are_echoed_as_they_are(work: Work) -> None:
    assert concluded(work, argv=["--port", "8080", "\u00e9"]).request.argv == ("--port", "8080", "\u00e9")


def test_a_placeholder_that_is_longer_than_its_secret_keeps_the_request_valid(work: Work) -> None:
    secret = "https://u:p4ssw0rd@h"
    word = (secret + " ") * 47 + "x" * (1000 - 47 * (len(secret) + 1))
    assert len(concluded(work, argv=[word]).request.argv[0]) <= 1000


def test_what_is_public_and_protected_is_no_limitation(work: Work) -> None:
    reached_by(work)
    made = concluded(work, GIT)
    assert (made.environment.registry, made.environment.forge) == (
        "https://registry.example/",
        "https://forge.example/",
    )
    assert [text for text in made.limitations if "registry" in text or "forge" in text] == []


@pytest.mark.threat("R7")
def test_a_registry_over_plain_http_on_loopback_is_named_as_it_is_and_said_to_be_so(work: Work) -> None:
    reached_by(work, registry="http://127.0.0.1:4873/npm/")
    made = concluded(work)
    assert made.environment.registry == "http://127.0.0.1:4873/npm/"
    said = [text for text in made.limitations if "http://127.0.0.1:4873/npm/" in text]
    assert len(said) == 2
    assert "plain http" in said[0]
    assert plan.HIDDEN_HOST in said[1]


def test_a_forge_is_spoken_of_only_where_the_target_comes_from_it(work: Work) -> None:
    reached_by(work, forge="http://forge.example/")
    assert [text for text in concluded(work).limitations if "forge" in text] == []
    assert len([text for text in concluded(work, GIT).limitations if "forge" in text]) == 1


def test_the_search_path_of_every_step_is_in_the_result(work: Work) -> None:
    step = nodeplan.fetch(work.bench)
    assert dict(plan.environment(work.bench, step))["PATH"] == ":".join(concluded(work).environment.search_path)


def test_calls_are_counted_where_something_was_traced_and_else_not_known(work: Work) -> None:
    untold = concluded(work).coverage
    assert (untold.calls_traced, untold.calls_lost, untold.tools_listed, untold.prompts_listed) == (None,) * 4
    for phase, state in ((Phase.FETCH, CollectorState.UNAVAILABLE), (Phase.INSTALL, CollectorState.ACTIVE)):
        work.ledger.collector(Collector(name="strace", phase=phase, state=state, lost=2, counts={"calls": 7}))
    told = concluded(work).coverage
    assert (told.calls_traced, told.calls_lost) == (7, 2)


def test_a_result_carries_the_digest_of_its_own_behaviour(work: Work) -> None:
    made = concluded(work)
    assert made.behaviour == canonical.behaviour(made)
