"""review.report.facts: what is said of each topic, and what it rests on."""

import msgspec

import reported
from fumehood.observe.model import Kind
from fumehood.review import result
from fumehood.review.report import facts


def topics(shown: result.ReviewResult) -> dict[str, facts.Fact]:
    return {fact.topic: fact for fact in facts.facts(shown)}


def said(topic: str, **changes: object) -> str:
    return " ".join(topics(reported.sample(**changes))[topic].said)


def test_each_topic_tells_what_was_recorded() -> None:
    assert said("Protocol") == (
        "Speaks 2025-06-18 as server 1.0.0, and offers tools. Asked of the client: sampling/createMessage; declined. "
        "1 line on standard output were no frame."
    )
    assert said("Tools and prompts") == (
        "Listed: 1 tool. Invisible characters in send_mail. References to the network in the schemas of send_mail. "
        "1 call of 1 tools: result. 1 difference between the two eras. 1 difference between two starts."
    )
    assert said("Install scripts") == "12 packages locked; 2 with install scripts; 1 script ran."
    assert said("Programs") == (
        "Started /opt/node/bin/node, /bin/sh. Tried and not started: sudo ENOENT. Calls refused: ptrace."
    )
    assert said("Network") == (
        "Connections: mail.example:443 answered. Names asked for: mail.example. At least 1 HTTP request recorded."
    )
    assert said("Files") == "EXERCISE: 1 created, 1 changed, 1 deleted. 1 path outside the workspace looked at."
    assert said("Planted credentials") == "Read: npm token. Given away: npm token in body."
    assert (
        said("Output")
        == "0 bytes of text captured; 5 bytes beyond the bound were dropped. Of the target: exercise/initialize stderr."
    )


def test_a_sensor_that_lost_something_or_did_not_work_stands_beside_its_topic() -> None:
    found = topics(reported.sample())
    assert found["Programs"].sensors == ("strace active in EXERCISE", "strace lost 3 in EXERCISE")
    assert "layer degraded in EXERCISE: a folder could not be read" in found["Files"].sensors
    assert found["Output"].sensors == ("output unavailable in EXERCISE: closed",)


def test_where_no_sensor_ran_nothing_is_said_to_be_absent_without_saying_so() -> None:
    found = topics(reported.sample(observations=result.Observations(), collectors=()))
    assert found["Programs"].said == ("No program was seen to start.",)
    assert found["Programs"].sensors == ("no sensor of this ran",)
    assert found["Planted credentials"].said == (
        "None was seen to be read.",
        "None was found in what the target gave away.",
    )
    assert found["Planted credentials"].sensors == ("no sensor of this ran",)
    assert found["Files"].said == ("None written.",)
    assert found["Protocol"].said == ("No valid answer to the first request was recorded.",)


def test_a_target_without_a_lock_says_nothing_of_install_scripts() -> None:
    shown = reported.sample()
    without = msgspec.structs.replace(shown, provenance=msgspec.structs.replace(shown.provenance, lockfile=None))
    assert "Install scripts" not in topics(without)


def test_counts_of_lists_that_lost_rows_are_at_least() -> None:
    rows = facts.Rows(reported.sample())
    assert rows.least(Kind.NETWORK_HTTP) == "at least "
    assert rows.least(Kind.NETWORK_DNS) == ""


def test_names_are_counted_and_bounded() -> None:
    assert facts.listed(["a", "b", "a"]) == "a (2 times), b"
    assert facts.listed(str(number) for number in range(10)).endswith("7 and 2 more")
    assert [facts.plural(n, "entry") for n in (1, 2000)] == ["1 entry", "2,000 entries"]


def test_a_call_that_is_usual_is_not_told_and_planted_credentials_that_stayed_are() -> None:
    shown = reported.sample()
    usual = [row for row in shown.observations.items if row.type is Kind.PROCESS_REFUSED]
    told = msgspec.structs.replace(usual[0], detail={**usual[0].detail, "usual": "Node tries it at each start"})
    read = next(row for row in shown.observations.items if row.type is Kind.CANARY_READ)
    found = topics(reported.sample(observations=result.Observations(items=(told, read), total=2)))
    assert found["Programs"].said == ("No program was seen to start.",)
    assert found["Planted credentials"].said == (
        "Read: npm token.",
        "None was found in what the target gave away.",
    )
