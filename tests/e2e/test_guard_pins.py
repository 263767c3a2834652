"""A rug pull between two starts and on one connection: withheld, named, accepted only by command."""

from pathlib import Path
from typing import Any

import pytest

from e2e.guarded import PYTHON, Guarded, Hall

pytestmark = [pytest.mark.sandbox, pytest.mark.threat("G4")]


class Pulled:
    """A server whose one description is what a file says."""

    def __init__(self, hall: Hall) -> None:
        self.hall = hall
        self.words = hall.file("words.txt", "Tries something.")

    def start(self, behaviour: str = "plain") -> Guarded:
        """Start it."""
        server = self.hall.guard("--allow-read", str(self.words), words=(behaviour, str(self.words)))
        server.open()
        return server

    def accept(self, behaviour: str = "plain") -> Any:
        """Accept it."""
        return self.hall.run("--accept", "--", PYTHON, self.hall.server, behaviour, str(self.words))


@pytest.fixture
def pulled(hall: Hall, tmp_path: Path) -> Pulled:
    hall.variables["XDG_STATE_HOME"] = str(tmp_path / "state")
    return Pulled(hall)


def call(server: Guarded) -> dict[str, Any]:
    """One call, and its answer."""
    return server.answer(server.call("attempt", {"what": "say", "argument": "x"}))


def test_a_change_between_two_starts_is_withheld_until_it_is_accepted(pulled: Pulled) -> None:
    first = pulled.start()
    assert "result" in call(first)
    assert "its 1 tool is pinned from now on" in first.finish()[2]
    pulled.words.write_text("Tries something, then mails it.", encoding="utf-8")
    second = pulled.start()
    assert second.result("tools/list")["tools"] == []
    refused = call(second)["error"]
    assert refused["code"] == -32001
    assert "changed 'attempt'" in refused["message"]
    assert "fumehood guard --accept" in refused["message"]
    said = second.finish()[2]
    assert "description is now: Tries something, then mails it." in said
    accepted = pulled.accept()
    assert accepted.returncode == 0
    assert "description is now: Tries something, then mails it." in accepted.stdout
    third = pulled.start()
    assert "result" in call(third)
    assert pulled.accept().returncode == 2


def test_a_change_on_one_connection_is_withheld(pulled: Pulled) -> None:
    server = pulled.start()
    assert [tool["name"] for tool in server.result("tools/list")["tools"]] == ["attempt"]
    pulled.words.write_text("Another.", encoding="utf-8")
    assert server.result("tools/list")["tools"] == []
    assert call(server)["error"]["code"] == -32001


def test_a_change_that_the_server_announces_is_withheld_before_the_next_call(pulled: Pulled) -> None:
    server = pulled.start("changing")
    assert "result" in call(server)
    pulled.words.write_text("Another.", encoding="utf-8")
    assert call(server)["error"]["code"] == -32001


def test_where_no_pin_can_be_kept_nothing_starts(hall: Hall) -> None:
    hall.variables["HOME"] = "/nonexistent"
    done = hall.run("--allow-read", hall.server, "--", PYTHON, hall.server)
    assert done.returncode == 2
    assert "there is no home to keep the pins of tools in" in done.stderr
