import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumehood.core import limits
from fumehood.wire import httpchecks
from fumehood.wire.httpchecks import CHECKS, Head, Headers, Policy, Refusal, bearer, host_key, judge, origin_key

HOST = (b"host", b"127.0.0.1:8765")
JSON = (b"content-type", b"application/json")
POLICY = Policy(
    hosts=frozenset({"127.0.0.1:8765", "localhost:8765", "[::1]:8765"}),
    origins=frozenset({"https://app.example", "vscode-webview://abc"}),
)


def head(*more: tuple[bytes, bytes], method: str = "POST", path: str = "/mcp", host: Headers = (HOST,)) -> Head:
    return Head(method=method, path=path, headers=(*host, *more))


def status(refused: Refusal | None) -> int:
    return refused.status if refused else 200


def test_an_ordinary_request_passes_every_check() -> None:
    assert judge(head(JSON, (b"content-length", b"17")), POLICY) is None


@pytest.mark.threat("T9")
@pytest.mark.parametrize(
    "host",
    [
        (),
        (HOST, HOST),
        ((b"host", b""),),
        ((b"host", b"evil.example"),),
        ((b"host", b"evil.example:8765"),),
        ((b"host", b"127.0.0.1"),),
        ((b"host", b"127.0.0.1:80"),),
        ((b"host", b"127.0.0.1:08765"),),
        ((b"host", b"127.0.0.1:8765@evil.example"),),
        ((b"host", b"evil.example@127.0.0.1:8765"),),
        ((b"host", b"127.0.0.1:8765.evil.example"),),
        ((b"host", b"127.0.0.1:8765/"),),
        ((b"host", b"0x7f.1:8765"),),
        ((b"host", b"127.1:8765"),),
        ((b"host", b"2130706433:8765"),),
        ((b"host", b"0.0.0.0:8765"),),
        ((b"host", b"local\xc3\xb6host:8765"),),
        ((b"host", b"127.0.0.1:8765\x00"),),
    ],
)
def test_a_host_that_is_not_ours_is_misdirected(host: Headers) -> None:
    assert status(judge(head(JSON, host=host), POLICY)) == 421


@pytest.mark.threat("T9")
@pytest.mark.parametrize("host", [b"localhost:8765", b"LOCALHOST:8765", b"[::1]:8765", b"[0:0::1]:8765"])
def test_each_spelling_of_our_own_name_is_ours(host: bytes) -> None:
    assert judge(head(JSON, host=((b"host", host),)), POLICY) is None


@pytest.mark.threat("T9")
@pytest.mark.parametrize(
    "origin",
    [
        b"null",
        b"",
        b"http://evil.example",
        b"http://app.example",
        b"https://app.example.evil.example",
        b"https://app.example@evil.example",
        b"https://app.example/",
        b"https://app.example:8443",
        b"https://app.example, https://evil.example",
        b"file://",
        b"vscode-webview://other",
        b"javascript:alert(1)",
        b"\xff",
    ],
)
def test_an_origin_that_nobody_listed_is_forbidden(origin: bytes) -> None:
    assert status(judge(head(JSON, (b"origin", origin)), POLICY)) == 403


@pytest.mark.parametrize("origin", [b"https://app.example", b"https://APP.example:443", b"vscode-webview://abc"])
def test_a_listed_origin_passes(origin: bytes) -> None:
    assert judge(head(JSON, (b"origin", origin)), POLICY) is None


@pytest.mark.threat("T9")
def test_two_origins_are_none() -> None:
    listed = (b"origin", b"https://app.example")
    assert status(judge(head(JSON, listed, listed), POLICY)) == 403


@pytest.mark.threat("T9")
def test_host_and_origin_are_judged_before_route_body_and_size_of_it() -> None:
    names = [check.__name__ for check in CHECKS]
    assert names == ["check_size", "check_host", "check_origin", "check_route", "check_body_kind", "check_body_size"]
    wrong_everywhere = head(
        (b"origin", b"https://evil.example"), method="PUT", path="/x", host=((b"host", b"evil.example"),)
    )
    assert status(judge(wrong_everywhere, POLICY)) == 421


@pytest.mark.parametrize(
    ("method", "path", "expected"),
    [
        ("POST", "/", 404),
        ("POST", "/mcp/", 404),
        ("POST", "//mcp", 404),
        ("POST", "/MCP", 404),
        ("POST", "/mcp/../mcp", 404),
        ("GET", "/healthz/x", 404),
        ("GET", "/mcp", 405),
        ("DELETE", "/mcp", 405),
        ("OPTIONS", "/mcp", 405),
        ("TRACE", "/mcp", 405),
        ("post", "/mcp", 405),
        ("POST", "/healthz", 405),
        ("GET", "/healthz", 200),
        ("HEAD", "/readyz", 200),
    ],
)
def test_only_our_paths_and_methods_are_answered(method: str, path: str, expected: int) -> None:
    assert status(judge(head(JSON, method=method, path=path), POLICY)) == expected


def test_a_server_with_sessions_takes_get_and_delete_too() -> None:
    policy = Policy(hosts=POLICY.hosts, methods=frozenset({"POST", "GET", "DELETE"}))
    assert judge(head(method="GET"), policy) is None
    refused = judge(head(method="PUT"), policy)
    assert refused
    assert refused.headers == ((b"allow", b"DELETE, GET, POST"),)


@pytest.mark.threat("T9")
@pytest.mark.parametrize(
    "kinds",
    [
        (),
        (b"text/plain",),
        (b"text/plain; application/json",),
        (b"application/x-www-form-urlencoded",),
        (b"multipart/form-data; boundary=x",),
        (b"application/json+x",),
        (b"application/json, text/plain",),
        (b"application/json; charset=utf-16",),
        (b"application/json", b"application/json"),
    ],
)
def test_what_a_page_may_post_without_asking_is_no_json(kinds: tuple[bytes, ...]) -> None:
    assert status(judge(head(*((b"content-type", kind) for kind in kinds)), POLICY)) == 415


@pytest.mark.parametrize("kind", [b"application/json", b"Application/JSON", b"application/json; charset=utf-8"])
def test_json_is_json_in_each_spelling(kind: bytes) -> None:
    assert judge(head((b"content-type", kind)), POLICY) is None


def test_a_compressed_body_is_not_taken() -> None:
    assert status(judge(head(JSON, (b"content-encoding", b"gzip")), POLICY)) == 415


@pytest.mark.threat("T8")
@pytest.mark.parametrize(
    ("length", "expected"),
    [(b"1048576", 200), (b"1048577", 413), (b"9" * 16, 413), (b"9" * 17, 400), (b"-1", 400), (b"1e3", 400), (b"", 400)],
)
def test_an_announced_body_is_bounded(length: bytes, expected: int) -> None:
    assert status(judge(head(JSON, (b"content-length", length)), POLICY)) == expected


@pytest.mark.threat("T9")
def test_a_body_has_one_framing() -> None:
    length, chunked = (b"content-length", b"17"), (b"transfer-encoding", b"chunked")
    assert judge(head(JSON, length), POLICY) is None
    assert judge(head(JSON, chunked), POLICY) is None
    assert status(judge(head(JSON, length, chunked), POLICY)) == 400
    assert status(judge(head(JSON, chunked, length), POLICY)) == 400


@pytest.mark.threat("T8")
def test_a_head_is_bounded_in_number_and_size() -> None:
    assert status(judge(head(JSON, *[(b"x", b"")] * (limits.HTTP_HEADERS - 2)), POLICY)) == 200
    assert status(judge(head(JSON, *[(b"x", b"")] * (limits.HTTP_HEADERS - 1)), POLICY)) == 431
    assert status(judge(head(JSON, (b"x", b"y" * limits.HTTP_HEAD_BYTES)), POLICY)) == 431
    assert status(judge(head(JSON, path="/" + "x" * limits.HTTP_TARGET_CHARACTERS), POLICY)) == 414


@pytest.mark.parametrize(
    ("values", "token"),
    [
        ((b"Bearer abc.DEF-_~+/==",), "abc.DEF-_~+/=="),
        ((b"bearer   abc",), "abc"),
        ((b"Bearer abc def",), None),
        ((b"Bearer ",), None),
        ((b"Bearer",), None),
        ((b"Basic abc",), None),
        ((b"Bearer a,b",), None),
        ((b"Bearer \xff",), None),
        ((b"Bearer a=b",), None),
        ((b"Bearer abc", b"Bearer abc"), None),
        ((), None),
        ((b"Bearer " + b"a" * limits.HTTP_TOKEN_CHARACTERS,), None),
    ],
)
def test_a_bearer_token_is_read_exactly(values: tuple[bytes, ...], token: str | None) -> None:
    assert bearer(head(*((b"authorization", value) for value in values))) == token


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("example.com", "example.com"),
        ("Example.com:443", "example.com"),
        ("example.com:80", "example.com"),
        ("example.com:8080", "example.com:8080"),
        ("example.com:", None),
        ("example.com:0", None),
        ("example.com:65536", None),
        ("[::1]", "[::1]"),
        ("::1", None),
        ("[::1", None),
        ("[fe80::1%eth0]:1", None),
        ("a b", None),
        ("", None),
    ],
)
def test_a_host_has_one_canonical_form(text: str, key: str | None) -> None:
    assert host_key(text) == key


@given(st.text())
def test_any_host_is_canonical_or_none(text: str) -> None:
    key = host_key(text)
    assert key is None or (key.isascii() and host_key(key) == key and not set(key) & set(" /@?#\\%,"))


@given(st.one_of(st.text(), st.text().map("https://{}".format)))
def test_any_origin_is_canonical_or_none(text: str) -> None:
    key = origin_key(text)
    assert key is None or (origin_key(key) == key and not set(key) & set(" /@?#\\%,") - set("/"))


@given(st.binary(max_size=300))
def test_no_other_host_than_a_listed_one_passes(value: bytes) -> None:
    refused = httpchecks.check_host(head(host=((b"host", value),)), POLICY)
    assert status(refused) == 421 or host_key(value.decode("ascii")) in POLICY.hosts


@given(st.binary(max_size=300).map(b"Bearer ".__add__))
def test_a_token_holds_only_what_a_token_may(value: bytes) -> None:
    token = bearer(head((b"authorization", value)))
    assert token is None or (token.isascii() and token.isprintable() and not set(token) & set(' ,;"\\'))


def test_a_listener_answers_to_its_addresses_and_to_loopbacks_names() -> None:
    assert httpchecks.hosts_of([("127.0.0.1", 8765)]) == POLICY.hosts
    assert httpchecks.hosts_of([("192.0.2.7", 443)]) == {"192.0.2.7"}
    assert httpchecks.hosts_of([("2001:db8::7", 8443)]) == {"[2001:db8::7]:8443"}
    assert httpchecks.hosts_of([("0.0.0.0", 1)]) == {"localhost:1", "127.0.0.1:1", "[::1]:1"}
    assert httpchecks.hosts_of([]) == set()
