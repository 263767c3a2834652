"""review.exercise.entrypoint: the words that a server is started with."""

from typing import Any

from fumehood.review import request
from fumehood.review.exercise import entrypoint

ARGV = ["--root={workspace}/data", "{workspace}{workspace}", "{Workspace}", ""]


def asked(version: int, **changes: Any) -> request.ReviewRequest:
    fields = {
        "schema_version": version,
        "target": {"kind": "git", "repository": "owner/repository", "ref": "0" * 40},
        "adapter": "node_stdio",
        "action_profile": "mcp_initialize",
        "network_mode": "OPEN",
        "credentials": "NONE",
        "question": "what does it do?",
        "entrypoint": "server.js",
        "argv": ARGV,
        "evidence": ["process"],
        "timeout_seconds": 60,
        **changes,
    }
    return request.convert(fields)


def test_a_request_of_version_2_may_name_the_workspace() -> None:
    assert entrypoint.arguments(asked(2), "/home/x/app") == (
        "--root=/home/x/app/data",
        "/home/x/app/home/x/app",
        "{Workspace}",
        "",
    )


def test_a_request_of_version_1_is_taken_word_for_word() -> None:
    assert entrypoint.arguments(asked(1), "/home/x/app") == tuple(ARGV)
