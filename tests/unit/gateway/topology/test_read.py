"""A `gateway.toml` is read whole, or refused by file, line, key, rule and next step."""

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fumehood.core.errors import RefusedError
from fumehood.core.settings import SettingsError
from fumehood.gateway.guard.policy import GuardPolicy
from fumehood.gateway.topology import load, read
from fumehood.gateway.topology.model import Gateway, Role, Saved, Server, Topology
from fumehood.gateway.topology.place import Place, TopologyError
from fumehood.wire import schema as wire_schema

FIXTURES = Path(__file__).parents[3] / "fixtures/topology"
VALID = sorted((FIXTURES / "valid").glob("*.toml"))
INVALID = sorted((FIXTURES / "invalid").glob("*.toml"))
EVERYTHING = (FIXTURES / "valid/everything.toml").read_text(encoding="utf-8")


def parsed(text: str) -> Topology:
    return read.parse(text, "gateway.toml", "/etc/gw")


@pytest.mark.parametrize("file", VALID, ids=lambda file: file.stem)
def test_a_valid_file_is_read(file: Path) -> None:
    assert isinstance(parsed(file.read_text(encoding="utf-8")), Topology)


@pytest.mark.threat("G14")
@pytest.mark.parametrize("file", INVALID, ids=lambda file: file.stem)
def test_an_invalid_file_is_refused_by_its_place(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    said = text.partition("\n")[0].removeprefix("# refused: ")
    with pytest.raises(TopologyError) as refused:
        parsed(text)
    assert str(refused.value).startswith("gateway.toml")
    assert said in str(refused.value)
    assert refused.value.remedy


def test_every_key_is_read() -> None:
    found = parsed(EVERYTHING)
    assert found.gateway == Gateway(
        local_role="reader", lock_file="/etc/gw/pins/fumehood.lock", audit_file="/var/log/gateway.jsonl"
    )
    assert found.servers["files"] == Server(
        command=("npx", "-y", "@modelcontextprotocol/server-filesystem@2025.8.21", "/srv/docs"),
        folder="/etc/gw/work",
        trust="trusted",
        reads=("read_*", "list_*", "search_files"),
        egress=(),
        call_seconds=30.0,
        policy=GuardPolicy(
            allow_read=("/etc/gw/docs", "/srv/docs"),
            allow_write=("/etc/gw/out",),
            allow_net=("api.example.com:443",),
            allow_private_net=("git.corp.example:443",),
            env=("API_KEY",),
            memory_bytes=268435456,
            processes=64,
        ),
    )
    assert found.servers["issues"].headers_env == {"X-Team": "ISSUES_TEAM"}
    assert found.servers["inside"].token_file == "/etc/gw/secrets/inside"
    assert found.servers["project"].workspace == "/etc/gw/../project"
    assert found.roles["everything"] == Role(access="write")
    assert found.tools["count_words"].program == "/etc/gw/programs/count_words.ts"


@pytest.mark.parametrize("page", ["howto/gateway.md"])
def test_every_file_that_a_page_shows_is_one(page: str) -> None:
    text = (FIXTURES.parents[2] / "docs" / page).read_text(encoding="utf-8")
    blocks = re.findall(r"^```toml\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert blocks
    for block in blocks:
        assert parsed(block) != parsed("")


def test_what_is_not_said_lies_beside_the_file() -> None:
    found = parsed('[servers.a]\ncommand = ["x"]\n[servers.b]\nworkspace = "."\n')
    assert found.gateway.lock_file == "/etc/gw/fumehood.lock"
    assert found.servers["a"].folder == "/etc/gw"
    assert found.servers["b"].workspace == "/etc/gw"
    assert found.servers["b"].folder is None
    assert found.servers["a"].policy == GuardPolicy()


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.8.9.1", "[::1]", "mcp.localhost", "LOCALHOST."])
def test_plain_http_is_for_this_machine(host: str) -> None:
    text = f'[servers.a]\nurl = "http://{host}:80/mcp"\n'
    assert parsed(text).servers["a"].url == f"http://{host}:80/mcp"


@pytest.mark.threat("G14")
@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1.example.com/",
        "http://localhost.example.com/",
        "http://10.0.0.1/",
        "http://2130706433/",
        "https://2130706433/",
        "https://exa mple.com/",
        "https://example.com\\@localhost/",
        "https://example.com:0/",
        "https://example.com:99999/",
        "https://[::1%25eth0]/",
        "https:///mcp",
        "https://:pass@example.com/",
        "HTTP://example.com/",
        "file:///etc/passwd",
        "https://ex\u00e4mple.com/",
        "",
    ],
)
def test_other_urls_are_refused(url: str) -> None:
    with pytest.raises(TopologyError, match=r"line 2: servers\.a\.url: "):
        parsed(f"[servers.a]\nurl = {json.dumps(url)}\n")


def test_without_prefixes_names_of_tools_are_not_held_against_servers() -> None:
    text = """
        [gateway]
        names = "plain"
        [servers.a]
        command = ["x"]
        [roles.r]
        tools = ["other__tool"]
    """
    assert parsed(text).roles["r"].tools == ("other__tool",)


def test_private_addresses_are_for_who_says_so() -> None:
    text = '[servers.a]\nurl = "http://10.0.0.1/"\nallow_private = true\n'
    assert parsed(text).servers["a"].allow_private


def test_a_number_of_too_many_digits_is_refused() -> None:
    with pytest.raises(TopologyError, match="not TOML: Exceeds the limit"):
        parsed(f"x = {'9' * 5000}")


def test_deep_tables_are_refused_before_anything_recurses() -> None:
    with pytest.raises(TopologyError, match="nested deeper than 64"):
        parsed(f"[{'.'.join('a' * 400)}]")
    with pytest.raises(TopologyError):
        parsed(f"x = {'[' * 100_000}")


def test_a_key_whose_reading_would_take_hours_is_refused() -> None:
    with pytest.raises(TopologyError, match="not TOML: more than 500 dots in one line"):
        parsed("a." * 100_000 + "a = 1")
    with pytest.raises(TopologyError, match="not TOML: more than 262144 characters"):
        parsed("#" * 300_000)


def test_more_servers_than_a_lock_can_pin_are_refused() -> None:
    text = "".join(f"[servers.s{number}]\ncommand = ['x']\n" for number in range(201))
    with pytest.raises(TopologyError, match="line 1: servers: more than 200"):
        parsed(text)


@pytest.mark.parametrize(
    ("keys", "line"),
    [
        (("a",), 1),
        (("a", "b"), 2),
        (("a", "c", "d"), 3),
        (("x y", "z"), 5),
        (("x y", "none"), 4),
        (("a", "b[3]"), 2),
        (("none",), None),
        (("deep", "er"), 6),
        (("deep",), 6),
    ],
)
def test_a_key_is_found_where_it_stands(keys: tuple[str, ...], line: int | None) -> None:
    text = "[a]\nb = 1\nc.d = 2\n[\"x y\"]\n'z' = 1\n[deep.er.est]\n"
    assert Place(text, "f").line(keys) == line


@given(st.text(max_size=300))
@example("[servers]\n\u2028 = 1")
@example("servers = 1")
@example("[[servers]]")
@example("[servers.a.policy]\n[servers.a]\ncommand=['']")
def test_any_text_is_a_topology_or_is_refused_in_one_inert_line(text: str) -> None:
    refused = ""
    try:
        parsed(text)
    except TopologyError as error:
        refused = str(error)
    assert refused.isprintable()


LINES = st.sampled_from([line for file in (*VALID, *INVALID) for line in file.read_text().splitlines() if line])


@given(st.lists(LINES, max_size=12), st.lists(st.sampled_from(list("\"'[]{}=.,\n#\\1ax~$")), max_size=3))
def test_any_mixture_of_lines_is_a_topology_or_is_refused(lines: list[str], noise: list[str]) -> None:
    refused = ""
    try:
        parsed("\n".join([*lines, "".join(noise)]))
    except TopologyError as error:
        refused = str(error)
    assert refused.isprintable()


# --- the published schema


@pytest.fixture(scope="module")
def checker() -> wire_schema.Checker:
    return wire_schema.Checker(read.schema())


@pytest.mark.parametrize("file", VALID, ids=lambda file: file.stem)
def test_the_published_schema_takes_a_valid_file(file: Path, checker: wire_schema.Checker) -> None:
    value: dict[str, Any] = tomllib.loads(file.read_text(encoding="utf-8"))
    assert list(checker.iter_problems(value)) == []


@pytest.mark.parametrize(
    "name", ["unknown_key", "unknown_policy_key", "policy_audit", "server_name", "command_text", "path_line"]
)
def test_the_published_schema_refuses_what_a_schema_can(name: str, checker: wire_schema.Checker) -> None:
    value: dict[str, Any] = tomllib.loads((FIXTURES / f"invalid/{name}.toml").read_text(encoding="utf-8"))
    assert list(checker.iter_problems(value))


# --- from the disk


def test_a_file_is_loaded_with_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gateway.toml").write_text('[tools.a]\nprogram = "a.js"\ndescription = "x"\n')
    monkeypatch.chdir(tmp_path)
    found = load.load(Path("gateway.toml"))
    assert (found.path, found.folder) == (f"{tmp_path}/gateway.toml", str(tmp_path))
    assert found.topology.tools["a"] == Saved(program=f"{tmp_path}/a.js", description="x")


@pytest.mark.threat("G14")
def test_a_file_that_others_may_write_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "gateway.toml"
    file.write_text("")
    assert load.load(file).topology.servers == {}
    file.chmod(0o666)
    with pytest.raises(SettingsError, match="others may write it"):
        load.load(file)


def test_a_file_that_is_not_there_is_refused_by_its_name(tmp_path: Path) -> None:
    with pytest.raises(RefusedError, match=r"gateway\.toml: cannot be read"):
        load.load(tmp_path / "gateway.toml")
