import asyncio
import json
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumehood.core import jsonio, limits
from fumehood.core.untrusted import Untrusted
from fumehood.wire import frames, outcomes, stdio
from fumehood.wire.lines import Line
from fumehood.wire.stdio import Client
from fumehood.wire.transcript import Direction, FrameKind

RESULT = {
    "protocolVersion": "2025-06-18",
    "capabilities": {"tools": {}},
    "serverInfo": {"name": "fake", "version": "1"},
}
Message = dict[str, Any]
Reaction = Callable[[Message], Iterable[bytes]]


def line(message: object) -> bytes:
    return json.dumps(message).encode() + b"\n"


def answering(result: object = None, *, before: bytes = b"", after: bytes = b"", ident: object = None) -> Reaction:
    """A peer that answers initialize, with something before and after."""

    def react(message: Message) -> list[bytes]:
        if message.get("method") != "initialize":
            return []
        body = RESULT if result is None else result
        reply = {"jsonrpc": "2.0", "id": message["id"] if ident is None else ident, "result": body}
        return [before + line(reply) + after]

    return react


def refusing(code: int) -> Reaction:
    def react(message: Message) -> list[bytes]:
        error = {"code": code, "message": "no\x1b[2J", "data": {"supported": ["2026-07-28"]}}
        return [line({"jsonrpc": "2.0", "id": message["id"], "error": error})]

    return react


def saying(*chunks: bytes) -> Reaction:
    return lambda message: chunks if message.get("method") == "initialize" else ()


def test_a_valid_answer_is_confirmed_with_initialized(conversation: Any) -> None:
    talk = conversation(answering())
    assert isinstance(talk.outcome, outcomes.Initialized)
    assert talk.outcome.result.server_name == "fake"
    assert talk.peer.methods == ["initialize", "notifications/initialized"]
    assert talk.peer.heard[0]["params"]["protocolVersion"] == "2025-06-18"
    assert talk.session.ended


def test_the_client_is_who_the_caller_says(conversation: Any) -> None:
    client = Client(name="other", version="7", asks="2024-11-05", id="first")
    talk = conversation(answering(RESULT | {"protocolVersion": "2024-11-05"}), client=client)
    assert isinstance(talk.outcome, outcomes.Initialized)
    assert talk.peer.heard[0]["id"] == "first"
    assert talk.peer.heard[0]["params"]["clientInfo"] == {"name": "other", "version": "7"}


def test_a_banner_and_a_second_answer_are_counted_and_change_nothing(conversation: Any) -> None:
    talk = conversation(
        answering(before=b"ready\n\x1b[31mreally\n\n", after=line({"jsonrpc": "2.0", "id": 0, "result": 1}))
    )
    assert isinstance(talk.outcome, outcomes.Initialized)
    assert talk.session.noise == 2
    assert talk.session.splitter.blank_lines == 1
    assert talk.session.later_answers == 1
    assert talk.session.noise_sample == Untrusted(b"ready", source="stdout")


@pytest.mark.parametrize("code", [-32601, -32021, -32022])
def test_the_codes_of_another_era_are_another_era(conversation: Any, code: int) -> None:
    talk = conversation(refusing(code))
    assert isinstance(talk.outcome, outcomes.OtherEra)
    assert talk.outcome.code == code
    assert talk.outcome.data == Untrusted(b'{"supported": ["2026-07-28"]}', source="error data")
    assert talk.peer.methods == ["initialize"]


@pytest.mark.parametrize("code", [-32600, -32602, -32603, 1])
def test_another_error_is_an_error_reply(conversation: Any, code: int) -> None:
    talk = conversation(refusing(code))
    assert isinstance(talk.outcome, outcomes.ErrorReply)
    assert talk.outcome.message == Untrusted(b"no\x1b[2J", source="error message")


def test_another_version_is_told_with_what_was_offered(conversation: Any) -> None:
    talk = conversation(answering(RESULT | {"protocolVersion": "2024-11-05"}))
    assert talk.outcome == outcomes.WrongVersion(
        offered=Untrusted(b"2024-11-05", source="protocol version"), known=True
    )
    assert talk.peer.methods == ["initialize"]


def test_a_result_of_the_wrong_shape_lists_its_errors(conversation: Any) -> None:
    talk = conversation(answering({"protocolVersion": "2025-06-18"}))
    assert isinstance(talk.outcome, outcomes.ShapeInvalid)
    assert [error.path for error in talk.outcome.errors] == ["$.capabilities", "$.serverInfo"]


def test_a_peer_that_ends_without_an_answer_has_exited(conversation: Any) -> None:
    assert conversation(saying(b"usage: server\n")).outcome == outcomes.Exited()


def test_an_answer_without_a_line_end_is_no_answer(conversation: Any) -> None:
    talk = conversation(saying(line({"jsonrpc": "2.0", "id": 0, "result": RESULT})[:-1]))
    assert talk.outcome == outcomes.Exited()
    assert talk.session.noise == 1


@pytest.mark.threat("R6")
@pytest.mark.parametrize("bad", [b"{oops}\n", b'{"jsonrpc":"2.0","id":0,"result":' + b"[" * 100_000 + b"\n"])
def test_a_malformed_or_deep_line_ends_the_handshake(conversation: Any, bad: bytes) -> None:
    talk = conversation(saying(bad, line({"jsonrpc": "2.0", "id": 0, "result": RESULT})))
    assert isinstance(talk.outcome, outcomes.BadFrame)
    assert talk.outcome.size == len(bad) - 1


@pytest.mark.threat("R6")
def test_a_frame_over_its_limit_ends_the_handshake_before_its_end_has_come(conversation: Any) -> None:
    talk = conversation(saying(b'{"a":"', *[b"a" * limits.MIB] * 5), exits=False)
    assert talk.outcome == outcomes.FrameTooLarge(limit_bytes=limits.FRAME_BYTES)


def test_a_banner_over_the_limit_of_a_frame_is_noise(conversation: Any) -> None:
    talk = conversation(answering(before=b"a" * (5 * limits.MIB) + b"\n"))
    assert isinstance(talk.outcome, outcomes.Initialized)
    assert talk.session.noise == 1


@pytest.mark.threat("R6")
def test_a_stream_over_its_limit_ends_the_handshake(conversation: Any) -> None:
    talk = conversation(saying(*[b"a" * limits.MIB + b"\n"] * 17), exits=False)
    assert isinstance(talk.outcome, outcomes.StreamTooLarge)
    assert talk.session.exhausted


@pytest.mark.parametrize("ident", [1, "0", "x"])
def test_answers_to_other_questions_only_are_told_when_the_stream_ends(conversation: Any, ident: object) -> None:
    talk = conversation(answering(ident=ident))
    assert talk.outcome == outcomes.OnlyOtherIds(answers=1)


def test_an_error_without_an_id_is_no_answer_of_ours(conversation: Any) -> None:
    talk = conversation(saying(line({"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "?"}})))
    assert talk.outcome == outcomes.OnlyOtherIds(answers=1)


def test_a_deadline_leaves_behind_what_had_been_seen(conversation: Any) -> None:
    silent = conversation(saying(), exits=False)
    assert silent.outcome is None
    assert silent.session.undecided() == outcomes.NoAnswer()
    other = conversation(answering(ident=5), exits=False)
    assert other.outcome is None
    assert other.session.undecided() == outcomes.OnlyOtherIds(answers=1)


def test_a_ping_is_answered_and_every_other_request_is_refused(conversation: Any) -> None:
    asks = line({"jsonrpc": "2.0", "id": "p", "method": "ping"}) + line(
        {"jsonrpc": "2.0", "id": 9, "method": "roots/list"}
    )
    talk = conversation(answering(after=asks), exits=False)
    assert isinstance(talk.outcome, outcomes.Initialized)
    assert talk.peer.heard[2:] == [
        {"jsonrpc": "2.0", "id": "p", "result": {}},
        {"jsonrpc": "2.0", "id": 9, "error": {"code": -32601, "message": "Method not found"}},
    ]


@pytest.mark.threat("R6")
def test_a_flood_before_the_answer_is_counted_and_the_answer_still_seen(conversation: Any) -> None:
    note = line({"jsonrpc": "2.0", "method": "n"})
    talk = conversation(answering(before=note * 20_000))
    assert isinstance(talk.outcome, outcomes.Initialized)
    transcript = talk.session.transcript
    assert transcript.received(FrameKind.NOTIFICATION) == 20_000
    assert transcript.received(FrameKind.RESPONSE) == 1
    assert transcript.lost == 20_000 - limits.FRAMES_RECORDED
    kinds = [record.kind for record in transcript.records if record.direction is Direction.RECEIVED]
    assert kinds.count(FrameKind.NOTIFICATION) == limits.FRAMES_RECORDED
    assert kinds.count(FrameKind.RESPONSE) == 1


def test_what_is_recorded_of_every_kind_fits_the_list_of_a_result() -> None:
    received = len(FrameKind) * limits.FRAMES_RECORDED
    replies, asked_and_confirmed = 2 * limits.FRAMES_RECORDED, 2
    assert received + replies + asked_and_confirmed <= limits.LIST_ITEMS


@pytest.mark.threat("R6")
def test_a_peer_that_asks_without_end_gets_a_bounded_number_of_replies(conversation: Any) -> None:
    ping = line({"jsonrpc": "2.0", "id": 1, "method": "ping"})
    talk = conversation(answering(after=b"".join([ping] * 3000)), exits=False)
    assert isinstance(talk.outcome, outcomes.Initialized)
    replies = talk.session.transcript.counts[Direction.SENT, FrameKind.RESPONSE]
    assert 0 < replies <= limits.REPLIES
    assert replies + talk.session.replies_dropped == talk.session.transcript.received(FrameKind.REQUEST)


def test_a_peer_that_reads_nothing_does_not_make_its_own_answer_invisible() -> None:
    async def run() -> tuple[outcomes.Outcome, int]:
        chunks = [
            line({"jsonrpc": "2.0", "id": 1, "method": "ping"}) * 200,
            line({"jsonrpc": "2.0", "id": 0, "result": RESULT}),
        ]
        never = asyncio.Event()

        async def read() -> bytes:
            return chunks.pop(0) if chunks else b""

        async def write(_: bytes) -> None:
            await never.wait()

        async with stdio.session(read, write) as session:
            return await stdio.initialize(session, Client(name="c", version="1")), session.replies_dropped

    outcome, dropped = asyncio.run(run())
    assert isinstance(outcome, outcomes.Initialized)
    assert dropped >= 200 - limits.REPLIES_QUEUED


def test_a_peer_that_closed_its_input_is_still_read() -> None:
    async def run() -> tuple[outcomes.Outcome, bool]:
        chunks = [b"", line({"jsonrpc": "2.0", "id": 0, "result": RESULT})]

        async def read() -> bytes:
            await asyncio.sleep(0)
            return chunks.pop()

        async def write(_: bytes) -> None:
            raise BrokenPipeError

        async with stdio.session(read, write) as session:
            outcome = await stdio.initialize(session, Client(name="c", version="1"))
            await session.flushed()
            return outcome, session.deaf and not session.send(b"{}\n")

    outcome, deaf = asyncio.run(run())
    assert isinstance(outcome, outcomes.Initialized)
    assert deaf


def test_a_fault_that_is_not_the_peers_is_not_taken_for_one() -> None:
    async def read() -> bytes:
        raise OSError(5, "Input/output error")

    async def write(_: bytes) -> None:
        return None

    async def run() -> None:
        async with stdio.session(read, write) as session:
            await stdio.initialize(session, Client(name="c", version="1"))

    with pytest.raises(OSError, match="Input/output"):
        asyncio.run(run())


@pytest.mark.threat("R6")
def test_a_large_frame_is_read_beside_the_loop_and_a_small_one_at_once(
    conversation: Any, handed_to_threads: list[Any]
) -> None:
    large = line({"jsonrpc": "2.0", "method": "x", "params": ["y" * limits.FRAME_INLINE_BYTES]})
    talk = conversation(answering(before=large))
    assert isinstance(talk.outcome, outcomes.Initialized)
    assert handed_to_threads == [(Line(data=large[:-1]),)]


@pytest.mark.threat("R6")
@pytest.mark.parametrize(
    "refused",
    [
        b'{"a": 1, "b": [{"c": 0, "c": 1}]}',
        b'{"a": NaN}',
        b'{"a": 99999999999999999999}',
        b'{"a": ' + b"[" * 99,
        b'{"a": 1e999}',
        b'{"a": "\\ud800"}',
    ],
)
def test_no_refusal_of_a_frame_looks_for_its_place(refused: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    def slow(_: str) -> Any:
        raise AssertionError("the slow search for a place")

    monkeypatch.setattr(jsonio, "_tokens", slow)
    monkeypatch.setattr(jsonio, "_half_pair_offset", slow)
    assert isinstance(frames.classify(Line(data=refused)), frames.Malformed)
    with pytest.raises(AssertionError):
        jsonio.parse(refused)


def test_the_writing_task_ends_with_the_session() -> None:
    async def run() -> int:
        async def read() -> bytes:
            return b""

        async def write(_: bytes) -> None:
            return None

        async with stdio.session(read, write) as session:
            await stdio.initialize(session, Client(name="c", version="1"))
        return len(asyncio.all_tasks())

    assert asyncio.run(run()) == 1


def test_the_transcript_says_who_said_what_and_keeps_the_peers_words_closed(conversation: Any) -> None:
    talk = conversation(answering(after=line({"jsonrpc": "2.0", "id": "\x1b", "method": "a" * 9000}) + b"{x\n"))
    records = [record for record in talk.session.transcript.records if record.direction is Direction.RECEIVED]
    assert [record.kind for record in records] == [FrameKind.RESPONSE, FrameKind.REQUEST, FrameKind.MALFORMED]
    method = records[1].method
    assert method is not None
    assert len(method) == limits.TEXT_BYTES
    assert records[1].id == Untrusted(b'"\\u001b"', source="id")
    assert len(records[0].digest) == 64
    assert records[2].problem


_pieces = st.sampled_from(
    [
        b"banner\n",
        b"\n",
        b"{bad\n",
        line({"jsonrpc": "2.0", "method": "n"}),
        line({"jsonrpc": "2.0", "id": 3, "method": "ping"}),
        line({"jsonrpc": "2.0", "id": 0, "result": RESULT}),
        line({"jsonrpc": "2.0", "id": 0, "result": 7}),
        line({"jsonrpc": "2.0", "id": 4, "result": {}}),
        line({"jsonrpc": "2.0", "id": 0, "error": {"code": -32601, "message": ""}}),
        b'{"jsonrpc":"2.0","id":0',
    ]
)


@given(st.lists(_pieces, max_size=8), st.integers(1, 30))
def test_the_first_deciding_line_decides_however_the_stream_is_cut(lines: list[bytes], width: int) -> None:
    stream = b"".join(lines)
    whole = _outcome([stream])
    assert _outcome([stream[i : i + width] for i in range(0, len(stream), width)]) == whole


def _outcome(chunks: list[bytes]) -> outcomes.Outcome:
    async def run() -> outcomes.Outcome:
        left = [chunk for chunk in chunks if chunk]

        async def read() -> bytes:
            return left.pop(0) if left else b""

        async def write(_: bytes) -> None:
            return None

        async with stdio.session(read, write) as session:
            return await stdio.initialize(session, Client(name="c", version="1"))

    return asyncio.run(run())
