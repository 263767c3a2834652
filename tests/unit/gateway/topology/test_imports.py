"""What a client's configuration becomes: whole, or named; and never with a value of a variable or a header."""

import json
import re
import tomllib
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import example, given
from hypothesis import strategies as st

from fumehood.cli.main import root
from fumehood.core.settings import SettingsError
from fumehood.gateway.guard.policy import GuardPolicy
from fumehood.gateway.topology import imports, jsonc, read
from fumehood.gateway.topology.clientfiles import ImportedError
from fumehood.gateway.topology.imports import Imported
from fumehood.gateway.topology.model import Server
from fumehood.gateway.topology.place import TopologyError

SECRET = "Zq7" + "".join(str(n) for n in range(10)) + "kLm"  # assembled, as synthetic ones are


def converted(servers: dict[str, Any], key: str = "mcpServers", **beside: Any) -> Imported:
    return imports.convert(json.dumps({key: servers, **beside}), "mcp.json")


def one(given: dict[str, Any], key: str = "mcpServers") -> tuple[Server | None, str]:
    """The server that an entry becomes, and what is said."""
    made = converted({"one": given}, key)
    assert SECRET not in made.text
    assert SECRET not in "\n".join(made.notes)
    servers = read.parse(made.text, "gateway.toml", "/etc/gw").servers
    return servers.get("one"), "\n".join(made.notes)


@pytest.mark.parametrize("key", ["mcpServers", "servers"])
def test_a_command_is_carried_over_with_the_names_of_its_variables(key: str) -> None:
    given = {"type": "stdio", "command": "npx", "args": ["-y", "x@1.2.3", "/srv"], "env": {"A_TOKEN": SECRET}}
    server, said = one(given, key)
    assert server is not None
    assert server.command == ("npx", "-y", "x@1.2.3", "/srv")
    assert server.policy.env == ("A_TOKEN",)
    assert server.enabled
    assert "one: set A_TOKEN: its value stands in your file and is not copied" in said
    assert "what it may read and write is for you to say" in said


def test_a_variable_that_is_a_path_has_to_be_allowed_and_is_not_copied() -> None:
    _, said = one({"command": "/usr/bin/x", "env": {"STORE": "/srv/store.json", "MODE": "fast"}})
    assert "one: STORE is a path: what it may read and write there is for you to say in its policy" in said
    assert "MODE is a path" not in said
    assert "/srv/store.json" not in said


def test_every_variable_that_has_to_be_set_is_named_once_at_the_end() -> None:
    text = '[mcp_servers.a]\nurl = "https://a.example/mcp"\nbearer_token_env_var = "A_TOKEN"\n'
    assert imports.convert(text, "config.toml").notes[-1].endswith("is started these have to be set: A_TOKEN")
    assert not any("have to be set" in note for note in converted({"one": {"command": "/usr/bin/x"}}).notes)


def test_a_gateways_own_file_is_not_imported() -> None:
    text = '[servers.a]\ncommand = ["/usr/bin/x"]\n'
    with pytest.raises(ImportedError, match="it is a gateway's already") as caught:
        imports.convert(text, "gateway.toml")
    assert "fumehood gateway --config gateway.toml" in caught.value.remedy


@pytest.mark.parametrize("form", ["${A}", "${env:A}", "$A", "${A:-else}"])
def test_a_variable_that_is_passed_on_is_passed_by_name(form: str) -> None:
    server, said = one({"command": "/usr/bin/x", "env": {"A": form, "B": form}})
    assert server is not None
    assert server.policy.env == ("A", "B")
    assert "set A" not in said
    assert "set B to what A holds" in said
    assert ("A had a default, which is not copied" in said) == (":-" in form)


def test_null_takes_a_variable_away_and_is_left_out() -> None:
    server, _ = one({"command": "/usr/bin/x", "env": {"A": None}})
    assert server is not None
    assert server.policy.env == ()


@pytest.mark.threat("G17")
@pytest.mark.parametrize("header", ["Authorization", "authorization", "AUTHORIZATION"])
def test_a_bearer_token_becomes_the_name_of_a_variable(header: str) -> None:
    server, said = one({"type": "http", "url": "https://mcp.example.com/mcp", "headers": {header: f"Bearer {SECRET}"}})
    assert server is not None
    assert (server.url, server.token_env) == ("https://mcp.example.com/mcp", "ONE_TOKEN")
    assert "one: set ONE_TOKEN: the token stands in your file and is not copied" in said


@pytest.mark.threat("G17")
def test_other_headers_become_names_of_variables() -> None:
    headers = {"X-Api-Key": SECRET, "X-Team": "${env:TEAM}", "Authorization": f"Basic {SECRET}", "Accept": "a/b"}
    server, said = one({"url": "https://mcp.example.com/mcp", "headers": headers})
    assert server is not None
    assert server.token_env is None
    assert server.headers_env == {
        "X-Api-Key": "ONE_X_API_KEY",
        "X-Team": "TEAM",
        "Authorization": "ONE_AUTHORIZATION",
    }
    assert "the header Accept is not carried over" in said


def test_a_token_that_is_asked_for_becomes_a_variable_too() -> None:
    headers = {"Authorization": "Bearer ${input:token}"}
    made = converted({"one": {"url": "https://example.com/", "headers": headers}}, "servers", inputs=[{"id": "token"}])
    assert 'token_env = "ONE_TOKEN"' in made.text
    assert "mcp.json: inputs is not carried over: what was asked for becomes a variable" in made.notes


def test_a_server_called_fumehood_asks_for_no_setting() -> None:
    made = converted({"fumehood": {"url": "https://example.com/", "headers": {"Authorization": "Bearer x"}}})
    assert 'token_env = "MCP_FUMEHOOD_TOKEN"' in made.text


CODEX = f"""
model = "some"

[mcp_servers.docs]
command = "/usr/bin/docs"
args = ["--stdio"]
cwd = "/srv/docs"
env = {{ LEVEL = "{SECRET}", HOME_OF = "$HOME" }}
env_vars = ["PATHS", {{ name = "OTHER", source = "local" }}]
startup_timeout_sec = 20
tool_timeout_sec = 90

[mcp_servers.remote]
url = "https://mcp.example.com/mcp"
bearer_token_env_var = "REMOTE_TOKEN"
http_headers = {{ X-Region = "{SECRET}" }}
env_http_headers = {{ X-Team = "TEAM" }}
enabled = false
enabled_tools = ["a"]
"""


@pytest.mark.threat("G17")
def test_codex_is_carried_over() -> None:
    made = imports.convert(CODEX, "config.toml")
    found = read.parse(made.text, "gateway.toml", "/etc/gw").servers
    assert found["docs"].command == ("/usr/bin/docs", "--stdio")
    assert found["docs"].folder == "/srv/docs"
    assert found["docs"].call_seconds == 90
    assert found["docs"].policy.env == ("LEVEL", "HOME_OF", "PATHS", "OTHER")
    assert found["remote"].token_env == "REMOTE_TOKEN"
    assert found["remote"].headers_env == {"X-Team": "TEAM", "X-Region": "REMOTE_X_REGION"}
    assert not found["remote"].enabled
    said = "\n".join(made.notes)
    assert "docs: startup_timeout_sec is not carried over: there is nothing like it here" in said
    assert "remote: enabled_tools is not carried over: write [roles.NAME] to choose tools" in said
    assert "docs: set HOME_OF: " in said  # Codex expands nothing, so this is a text
    assert SECRET not in made.text + said


@pytest.mark.parametrize(
    ("given", "refused"),
    [
        (
            {"command": "npx", "args": ["-y", "x"]},
            "x: no version is named (write the exact one: npx -y x@1.2.3; npm view x version tells the newest)",
        ),
        ({"command": "uvx", "args": ["x"]}, "uvx: packages of PyPI cannot be acquired by fumehood"),
        ({"command": "docker", "args": ["run", "x"]}, "docker: a container is started by its daemon"),
    ],
)
def test_what_guard_refuses_stands_there_with_the_reason_above_it(given: dict[str, Any], refused: str) -> None:
    server, said = one(given)
    assert server is not None
    assert server.command == (given["command"], *given["args"])
    text = converted({"one": given}).text
    above = text[: text.index("[servers.one]")].splitlines()[-1]
    assert above.startswith("# refused as it stands: ")
    assert refused in above
    assert f"one: it will be refused as it stands: {refused}" in said


@pytest.mark.threat("G17")
@pytest.mark.parametrize(
    ("args", "kept"),
    [
        (["--api-key", SECRET], ("--api-key", "REMOVED")),
        (["--token=abc"], ("--token=REMOVED",)),
        ([f"postgres://u:{SECRET}@h/db"], ("REMOVED",)),
        (["ghp_" + "a1B2" * 9], ("REMOVED",)),
        (["--auth", "--verbose"], ("--auth", "--verbose")),
    ],
)
def test_a_credential_among_the_words_of_a_command_is_left_out(args: list[str], kept: tuple[str, ...]) -> None:
    server, said = one({"command": "/usr/bin/x", "args": args, "env": {"A": SECRET}})
    assert server is not None
    assert server.command == ("/usr/bin/x", *kept)
    assert server.enabled == (kept == tuple(args))
    assert ("switched off: argument " in said) == (kept != tuple(args))


@pytest.mark.parametrize("word", ["${workspaceFolder}", "${userHome}/x", "${env:A}", "$A", "a${input:b}c"])
def test_a_variable_among_the_words_switches_a_server_off(word: str) -> None:
    server, said = one({"command": "/usr/bin/x", "args": [word]})
    assert server is not None
    assert server.command == ("/usr/bin/x", word)
    assert not server.enabled
    assert "one: switched off: argument 1 of its command has a variable, and nothing is expanded" in said


@pytest.mark.parametrize("folder", ["${workspaceFolder}", "~/x", 3])
def test_a_folder_that_would_have_to_be_expanded_switches_a_server_off(folder: object) -> None:
    server, said = one({"command": "/usr/bin/x", "cwd": folder})
    assert server is not None
    assert server.folder == "/etc/gw"
    assert not server.enabled
    assert "cwd is not carried over: write folder, as a whole path" in said


@pytest.mark.parametrize("program", [["fumehood"], ["/opt/bin/fumehood"], ["/usr/bin/python3.11", "-m", "fumehood"]])
def test_what_is_behind_guard_already_keeps_its_policy(program: list[str]) -> None:
    flags = ["--allow-read", "/srv/a", "--allow-read=/srv/b", "--allow-net", "api.example.com:443", "--env", "KEY"]
    words = [*program, "guard", *flags, "--", "npx", "-y", "x@1.2.3", "/srv/a"]
    server, said = one({"command": words[0], "args": words[1:], "env": {"KEY": SECRET, "OTHER": SECRET}})
    assert server is not None
    assert server.command == ("npx", "-y", "x@1.2.3", "/srv/a")
    assert server.policy == GuardPolicy(
        allow_read=("/srv/a", "/srv/b"), allow_net=("api.example.com:443",), env=("KEY",)
    )
    assert server.enabled
    assert "one: it is behind guard already" in said
    assert "one: set KEY: " in said


def test_guard_that_allows_nothing_allows_nothing_here() -> None:
    words = ["guard", "--", "/usr/bin/x", "/srv/a"]
    server, said = one({"command": "fumehood", "args": words, "env": {"KEY": SECRET}})
    assert server is not None
    assert server.policy == GuardPolicy()
    assert "for you to say" not in said


def test_a_folder_that_is_served_already_is_a_workspace() -> None:
    server, _ = one({"command": "fumehood", "args": ["serve", "--workspace", "/srv/project"]})
    assert server is not None
    assert (server.workspace, server.command) == ("/srv/project", None)


def test_a_folder_of_guard_that_would_have_to_be_expanded_switches_a_server_off() -> None:
    words = ["guard", "--allow-read", "${workspaceFolder}", "--allow-write", "/srv", "--", "/usr/bin/x"]
    server, said = one({"command": "fumehood", "args": words})
    assert server is not None
    assert server.policy == GuardPolicy(allow_write=("/srv",))
    assert not server.enabled
    assert "switched off: a value of allow_read is not carried over: write it whole" in said


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["guard", "--policy", "/p.toml", "--", "x"], "it is behind guard with options that are not known here"),
        (["guard", "--allow-read"], "it is behind guard with options that are not known here"),
        (["guard", "--env", "A"], "it is behind guard with options that are not known here"),
        (["serve"], "it serves a folder with options that are not known here"),
        (
            ["serve", "--workspace", "/a", "--workspace", "/b"],
            "it serves a folder with options that are not known here",
        ),
        (["serve", "--workspace", "${workspaceFolder}"], "its folder is not carried over: write workspace"),
        (["--settings", "/s", "serve", "--workspace", "/a"], "it has --settings of its own"),
        (["gateway", "--config", "/g"], "it is fumehood itself, and neither serve nor guard"),
        ([], "it is fumehood itself, and neither serve nor guard"),
    ],
)
def test_what_else_is_fumehood_is_not_put_behind_itself(words: list[str], why: str) -> None:
    server, said = one({"command": "fumehood", "args": words})
    assert server is None
    assert f"one is not carried over: {why}" in said


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ("x", "it is no table"),
        ({}, "it has neither a command nor a url"),
        ({"type": "sse", "url": "https://example.com/sse"}, "it speaks the transport before Streamable HTTP (sse)"),
        ({"type": "ws", "url": "wss://example.com/"}, "its type is none that is known here"),
        ({"command": 3}, "its command is not made of texts"),
        ({"command": "~/bin/x"}, "command: ~ is not expanded (write the whole path)"),
        ({"command": "a\0b"}, "command[0]: must be a list of words"),
        ({"command": ""}, "command: names no program"),
        ({"url": 3}, "its url is no text"),
        ({"url": "https://${HOST}/mcp"}, "its url has a variable, and nothing is expanded"),
        ({"url": "http://mcp.example.com/"}, "its url is plain http, which whoever is on the way can read and change"),
        ({"url": f"https://u:{SECRET}@example.com/"}, "its url holds a user or a password"),
        ({"url": f"https://example.com/?api_key={SECRET}"}, "its url holds what looks like a credential"),
        ({"url": "https://example.com/?k=ghp_" + "a1B2" * 9}, "its url holds what looks like a credential"),
        ({"url": "ftp://example.com/"}, "its url is not https://HOST"),
    ],
)
def test_what_cannot_be_carried_over_is_named_with_the_reason(given: Any, why: str) -> None:
    server, said = one(given)
    assert server is None
    assert f"one is not carried over: {why}" in said
    assert f"# one is not carried over: {why}" in converted({"one": given}).text


@pytest.mark.parametrize(
    "key", ["envFile", "trust", "includeTools", "alwaysAllow", "timeout", "oauth", "sandboxEnabled", "\x1b[2J", "x y"]
)
def test_no_key_is_dropped_in_silence(key: str) -> None:
    server, said = one({"command": "/usr/bin/x", key: SECRET})
    assert server is not None
    assert "is not carried over: " in said
    assert said.replace("\n", "").isprintable()


@pytest.mark.parametrize("off", [{"disabled": True}, {"enabled": False}])
def test_a_server_that_was_off_is_off(off: dict[str, bool]) -> None:
    server, _ = one({"command": "/usr/bin/x", **off})
    assert server is not None
    assert not server.enabled


def test_names_are_made_fit_and_kept_apart() -> None:
    asked = {"a b": 1, "a-b": 2, "a__b": 3, "code": 4, "\u00fc": 5, "ok_name": 6, "x" * 80: 7}
    made = converted({name: {"command": f"/bin/{number}"} for name, number in asked.items()})
    found = read.parse(made.text, "gateway.toml", "/").servers
    assert [server.command for server in found.values()] == [(f"/bin/{number}",) for number in asked.values()]
    assert list(found)[:6] == ["a-b", "a-b-2", "a-b-3", "code-server", "server", "ok_name"]
    assert "code is called code-server here" in made.notes


def test_names_of_variables_that_no_server_gets_are_said() -> None:
    server, said = one({"command": "/usr/bin/x", "env": {"FUMEHOOD_LOG__LEVEL": "x", "a=b": "y"}})
    assert server is not None
    assert server.policy.env == ()
    assert "env.FUMEHOOD_LOG__LEVEL is not carried over" in said
    assert "env.a=b is not carried over" in said


def test_servers_below_mcp_in_settings_are_found() -> None:
    made = imports.convert(json.dumps({"mcp": {"servers": {"a": {"command": "/bin/x"}}}, "editor": 1}), "settings.json")
    assert "[servers.a]" in made.text


def test_projects_of_claude_code_are_said() -> None:
    made = converted({"a": {"command": "/bin/x"}}, projects={"/p": {"mcpServers": {}}})
    assert any("servers of single projects are not imported" in note for note in made.notes)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "f: it names no servers"),
        ("{}", "f: it names no servers"),
        ("[]", "f: not TOML: "),
        ("// x\n[1]", "f: neither JSON nor TOML"),
        ("{", "f: not JSON: line 1, column 2: "),
        ('{"mcpServers": {"a": 1, "a": 2}}', "f: not JSON: line 1, column 25: the key 'a' occurs twice"),
        ("x = ", "f: not TOML: "),
        ('mcpServers = "x"', "f: it names no servers"),
        ("/* {", "f: not JSON: "),
    ],
)
def test_what_is_no_configuration_is_refused(text: str, said: str) -> None:
    with pytest.raises(ImportedError) as refused:
        imports.convert(text, "f")
    assert said in str(refused.value)
    assert refused.value.remedy


def test_more_than_a_gateway_has_is_refused() -> None:
    with pytest.raises(ImportedError, match="more than 200 servers"):
        converted({f"s{number}": {} for number in range(201)})
    with pytest.raises(ImportedError, match="more than a gateway reads"):
        converted({f"s{number}": {"command": "/bin/x", "args": ["y" * 3000]} for number in range(100)})


# --- comments and trailing commas


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": 1, // b\n}', {"a": 1}),
        ('{"a": /* , } */ [1, 2,], }', {"a": [1, 2]}),
        ('{"a": "// no", "b": "/* no */", "c": ",}"}', {"a": "// no", "b": "/* no */", "c": ",}"}),
        (r'{"a": "\"//", "b": "\\"} // x', {"a": '"//', "b": "\\"}),
        ("// first\n/**/ [1]", [1]),
        ("[1 /* */ , // x\n ]", [1]),
    ],
)
def test_comments_and_trailing_commas_are_taken_out(text: str, value: object) -> None:
    assert json.loads(jsonc.strict(text)) == value
    assert len(jsonc.strict(text)) == len(text)


@pytest.mark.parametrize("text", ["[1,,]", "[1 2]", '{"a": 1} /', "[1] /* x", '["a\n"]', "[1,]]"])
def test_nothing_else_becomes_json(text: str) -> None:
    with pytest.raises(json.JSONDecodeError):
        json.loads(jsonc.strict(text))


INTEGERS = st.integers(-(2**63), 2**63)  # as our own reader of JSON has them
JSON = st.recursive(
    st.none() | st.booleans() | INTEGERS | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=12,
)


@given(JSON)
def test_json_stays_as_it_is(value: Any) -> None:
    text = json.dumps(value)
    assert jsonc.strict(text) == text


def test_a_hostile_text_takes_no_time() -> None:
    for text in ("/*" * 200_000, "/" * 400_000, '"\\' * 200_000, "," * 400_000, '"\n' * 200_000):
        assert len(jsonc.strict(text)) == len(text)


# --- whatever the input

LOST = re.compile(r"^# [A-Za-z0-9_-]+ is not carried over: ", re.MULTILINE)
HELD = st.text(st.sampled_from("ghjkqvwxz"), min_size=14, max_size=20)  # no word of ours, and no name below
WORD = st.sampled_from(
    [
        "npx",
        "-y",
        "x@1.2.3",
        "fumehood",
        "guard",
        "serve",
        "--workspace",
        "--allow-read",
        "--env",
        "--",
        "--token",
        "/srv",
        "${A}",
        "~",
        "",
        "\0",
        "\n",
        "a b",
        "https://h/",
    ]
)
NAME = st.sampled_from(["A", "B_TOKEN", "a-b", "", "FUMEHOOD_X", "\x1b", "Authorization", "Accept", "X-Key", "é"])
VALUE = st.one_of(
    HELD, HELD.map("Bearer {}".format), HELD.map("${{input:{}}}".format), HELD.map("${{A:-{}}}".format), WORD
)
VALUES = st.dictionaries(NAME, VALUE | st.none() | INTEGERS, max_size=4)
URL = st.sampled_from(
    ["https://example.com/", "http://localhost/x", "http://10.0.0.1/", "https://a@b/", "x", "https://${H}/", 3]
)
ENTRY = st.one_of(
    st.fixed_dictionaries(
        {},
        optional={
            "type": st.sampled_from(["stdio", "http", "sse", "", None, 3]),
            "command": WORD | st.none() | INTEGERS,
            "args": st.lists(WORD | VALUE, max_size=5) | WORD,
            "cwd": WORD | st.none(),
            "env": VALUES | WORD,
            "env_vars": st.lists(NAME | INTEGERS, max_size=3),
            "url": URL,
            "httpUrl": URL,
            "headers": VALUES | WORD,
            "http_headers": VALUES,
            "env_http_headers": st.dictionaries(NAME, NAME | INTEGERS, max_size=3),
            "bearer_token_env_var": NAME | st.none(),
            "enabled": st.booleans() | st.none(),
            "tool_timeout_sec": INTEGERS | st.floats(allow_nan=False, allow_infinity=False) | st.none(),
            "x": JSON,
        },
    ),
    JSON,
)


def held(entry: Any) -> set[str]:
    """The values of an entry that nobody may see again."""
    if not isinstance(entry, dict):
        return set()
    tables = [entry.get(key) for key in ("env", "headers", "http_headers")]
    values = [value for table in tables if isinstance(table, dict) for value in table.values()]
    return {
        word
        for value in values
        if isinstance(value, str)
        for word in [value.removeprefix("Bearer ").removeprefix("${A:-").removesuffix("}")]
        if len(word) >= 14 and word.isalpha()
    }


@pytest.mark.threat("G17")
@given(
    st.dictionaries(st.text(max_size=8), ENTRY, max_size=4), st.sampled_from(["mcpServers", "servers", "mcp_servers"])
)
@example(
    {"a": {"command": "npx", "args": ["Bearer ghjkqvwxzghjkqvwxz"], "env": {"A": "ghjkqvwxzghjkqvwxz"}}}, "servers"
)
@example({"a": {"command": "/x", "args": ["${A:-ghjkqvwxzghjkqvwxz}"], "env": {"A": "ghjkqvwxzghjkqvwxz"}}}, "servers")
@example({"a": {"url": "https://ghjkqvwxzghjkqvwxz/", "headers": {"A": "ghjkqvwxzghjkqvwxz"}}}, "servers")
def test_the_output_is_a_topology_and_holds_no_value(servers: dict[str, Any], key: str) -> None:
    made = imports.convert(json.dumps({key: servers}), "mcp.json")
    found = read.parse(made.text, "gateway.toml", "/etc/gw")
    everything = made.text + "\n".join(made.notes)
    assert everything.isascii()
    assert everything.replace("\n", "").isprintable()
    assert not [value for entry in servers.values() for value in held(entry) if value in everything]
    assert len(found.servers) + len(LOST.findall(made.text)) == len(servers)


@given(st.text(max_size=200))
@example('mcp_servers.a.command = "x"')
@example("{'mcpServers': {}}")
def test_any_text_is_converted_or_refused_in_one_inert_line(text: str) -> None:
    refused = ""
    try:
        imports.convert(text, "f")
    except ImportedError as error:
        refused = str(error)
    assert refused.isprintable()


# --- the command


def test_the_command_prints_a_file_and_says_the_rest(tmp_path: Any) -> None:
    file = tmp_path / "mcp.json"
    file.write_text(json.dumps({"mcpServers": {"one": {"command": "/bin/x", "env": {"A": SECRET}}}}))
    done = CliRunner().invoke(root, ["gateway", "import", str(file)], env={"HOME": str(tmp_path)})
    assert done.exception is None, done.exception
    assert tomllib.loads(done.stdout)["servers"]["one"] == {"command": ["/bin/x"], "policy": {"env": ["A"]}}
    assert "one: set A: its value stands in your file and is not copied" in done.stderr
    assert SECRET not in done.output


def test_a_file_that_others_may_write_is_not_imported(tmp_path: Any) -> None:
    file = tmp_path / "mcp.json"
    file.write_text("{}")
    file.chmod(0o666)
    done = CliRunner().invoke(root, ["gateway", "import", str(file)], env={"HOME": str(tmp_path)})
    assert isinstance(done.exception, SettingsError | TopologyError)
