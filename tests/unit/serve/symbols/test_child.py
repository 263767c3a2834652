"""What the queries find in each language, in this process; the child as a process is test_reader's."""

import importlib
import json
import os
import socket
import struct
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumehood.core import limits
from fumehood.serve.symbols import child, languages
from fumehood.serve.symbols.child import Language

LOADED = {name: Language(name) for name in languages.GRAMMARS}
# Language → a source, and what it defines: name:kind:container.
SOURCES = {
    "python": (
        (
            "X = 1\nclass A(B):\n    y = 2\n    async def f(self):\n        def g(): pass\n@d\n"
            "def h(): pass\ntype T = int\n"
        ),
        ("X:variable A:class y:variable:A f:method:A g:function:f h:function T:type"),
    ),
    "javascript": (
        (
            "function f() {}\nconst g = () => 1, k = 2;\nclass A { m() {} }\n"
            "var o = { p: function () {} };\nA.q = () => 1;\nexport const e = 1;\nfunction* gen() {}\n"
        ),
        (
            "f:function o:variable g:function k:variable A:class m:method:A p:function:o q:function "
            "e:variable gen:function"
        ),
    ),
    "typescript": (
        (
            "interface I { m(): void }\ntype T = string;\nenum E { A }\n"
            "abstract class C { abstract n(): void; x = 1 }\n"
            "namespace N { export function f(): void {} }\nfunction o(): void;\n"
        ),
        ("n:method:C f:function:N I:interface m:method:I o:function T:type E:enum C:class x:variable:C N:module"),
    ),
    "tsx": (
        ("const A = () => <b>x</b>;\nclass B {}\n"),
        ("A:function B:class"),
    ),
    "go": (
        (
            "package p\ntype S struct{}\ntype I interface{ M() }\ntype D = S\nfunc (s *S) M() {}\n"
            "func F() {}\nconst C = 1\nvar V int\n"
        ),
        ("p:module S:type I:interface M:method:S D:type F:function C:constant V:variable"),
    ),
    "rust": (
        (
            "mod m {}\nstruct S;\nenum E { A }\ntrait T { fn t(&self); }\nimpl S { fn s(&self) {} }\n"
            "fn f() {}\nconst C: u8 = 1;\nmacro_rules! r { () => {} }\ntype U = S;\n"
        ),
        ("m:module s:method:S t:method:T r:macro S:type E:enum T:interface f:function C:constant U:type"),
    ),
    "java": (
        (
            "package a.b;\nclass A { int x; A() {} void m() {} }\ninterface I { void n(); }\n"
            "enum E { ONE }\nrecord R(int z) {}\n"
        ),
        ("a.b:module A:class A:method:A n:method:I x:variable:A m:method:A I:interface E:enum ONE:constant:E R:class"),
    ),
    "c": (
        (
            "#define M 1\n#define F(x) x\nstruct s { int a; };\nenum e { ONE };\ntypedef struct s t;\n"
            "int g = 1;\nstatic int *f(void) { return 0; }\nint proto(int);\n"
        ),
        ("e:enum f:function M:macro F:macro s:type t:type ONE:constant:e g:variable proto:function"),
    ),
    "cpp": (
        (
            "namespace n { class A { public: void m() {} int k(); ~A(); }; }\n"
            "int n::A::k() { return 1; }\nusing U = int;\ntemplate <class T> T id(T t) { return t; }\n"
        ),
        ("n:module m:method:A A:class:n id:function k:method:A ~A:method:A U:type"),
    ),
    "ruby": (
        ("module M\n  class A\n    X = 1\n    def f; end\n    def self.g; end\n  end\nend\n"),
        ("M:module A:class:M X:constant:A f:method:A g:method:A"),
    ),
}


@pytest.mark.parametrize("language", list(languages.GRAMMARS))
def test_each_language_has_its_definitions(language: str) -> None:
    source, expected = SOURCES[language]
    state, rows = LOADED[language].definitions(source.encode())
    found = {":".join(filter(None, (name, kind, container))) for name, kind, _, _, container in rows}
    assert set(expected.split()) - found == set()
    assert state == child.WHOLE
    assert {kind for _, kind, _, _, _ in rows} <= set(languages.KINDS)


def test_lines_are_those_of_the_whole_definition() -> None:
    _, rows = LOADED["c"].definitions(b"\nint\nf(void)\n{\n  return 1;\n}\n")
    assert rows == [("f", "function", 2, 6, "")]


def test_each_name_is_told_once() -> None:
    for language, (source, _) in SOURCES.items():
        _, rows = LOADED[language].definitions(source.encode())
        assert len({(name, first, container) for name, _, first, _, container in rows}) == len(rows), language


@pytest.mark.parametrize("language", list(languages.GRAMMARS))
@given(source=st.one_of(st.binary(max_size=300), st.text(max_size=300).map(lambda t: t.encode("utf-8", "replace"))))
def test_any_bytes_give_rows_that_the_reader_takes(language: str, source: bytes) -> None:
    state, rows = LOADED[language].definitions(source)
    assert state in (child.NONE, child.WHOLE, child.PARTLY)
    for name, kind, first, last, container in rows:
        assert kind in languages.KINDS
        assert 1 <= first <= last <= source.count(b"\n") + 2
        assert len(name) <= limits.SYMBOL_CHARACTERS >= len(container)


@pytest.mark.parametrize("language", list(languages.GRAMMARS))
@pytest.mark.parametrize("part", [b"(", b"{", b"[", b"a{", b"((", b"if(a){", b"class A{", b"\0", b"\xff", b"<", b"'"])
def test_deep_and_broken_source_ends(language: str, part: bytes) -> None:
    LOADED[language].definitions(part * 5_000)


def test_a_source_with_too_many_definitions_does_not_parse(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SYMBOLS_IN_SOURCE", 3)
    assert LOADED["python"].definitions(b"a = 1\n" * 5) == (child.NONE, [])


@pytest.fixture
def channel() -> Iterator[Callable[[bytes], bytes]]:
    """Hand bytes to `answer` as a worker gets them, and give back what it wrote."""
    ours, theirs = socket.socketpair()

    def ask(data: bytes) -> bytes:
        ours.sendall(data)
        ours.shutdown(socket.SHUT_WR)
        child.answer(theirs.fileno(), LOADED)
        theirs.shutdown(socket.SHUT_WR)
        return child._read(ours.fileno(), 1 << 20)

    yield ask
    ours.close()
    theirs.close()


def request(language: bytes, source: bytes) -> bytes:
    return struct.pack(">16sI", language, len(source)) + source


def test_a_worker_answers_one_request_after_the_other(channel: Callable[[bytes], bytes]) -> None:
    got = channel(request(b"python", b"def f(): pass") + request(b"c", b"int g;"))
    state, size = struct.unpack(">BI", got[:5])
    assert state == child.WHOLE
    assert json.loads(got[5 : 5 + size]) == [["f", "function", 1, 1, ""]]
    assert json.loads(got[10 + size :]) == [["g", "variable", 1, 1, ""]]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"python",
        request(b"cobol", b"x"),
        request(b"python", b"x")[:-1],
        struct.pack(">16sI", b"python", limits.SEARCHED_FILE_BYTES + 1) + b"x",
        request(b"\xff", b"x"),
    ],
)
def test_a_worker_leaves_what_is_no_request_unanswered(channel: Callable[[bytes], bytes], data: bytes) -> None:
    assert channel(data) == b""


@pytest.mark.parametrize("unread", [b"", b"x"])
def test_the_child_ends_with_its_server_whether_or_not_that_read_what_was_said(unread: bytes) -> None:
    """A socket that is closed with something unread resets the other end (unix(7))."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        if unread:
            theirs.send(unread)
        ours.close()
        child.Zygote(theirs, {}).run()


def test_a_grammar_that_is_missing_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.import_module

    def without(name: str) -> object:
        if name == "tree_sitter_ruby":
            raise ImportError(name)
        return real(name)

    monkeypatch.setattr("importlib.import_module", without)
    assert set(child.load()) == set(languages.GRAMMARS) - {"ruby"}


def test_a_pipe_of_a_worker_that_has_ended_kills_no_later_one() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    zygote = child.Zygote(theirs, {})
    reading, writing = os.pipe()
    first, later = os.open("/dev/null", os.O_RDONLY), 0
    zygote._holds[reading] = first
    zygote._poll.register(reading)
    zygote._poll.register(first)
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    zygote._pids[first] = pid
    zygote._reap(first)
    later = os.open("/dev/null", os.O_RDONLY)
    assert later == first  # the number is given again
    zygote._pids[later] = os.getpid()
    zygote._let_go(reading)  # would signal through a descriptor that is no pidfd: an error
    child._close([writing, later])
    ours.close()
    theirs.close()


def test_a_write_goes_on_where_it_was_cut() -> None:
    reading, writing = os.pipe()
    child._write(writing, b"x" * 1000)
    child._close([writing])
    assert child._read(reading, 2000) == b"x" * 1000
    child._close([reading])
