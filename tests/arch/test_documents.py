"""The documents name only what exists: commands, options, make targets, files; and make no claim without its bounds."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import msgspec
import pytest

from fumehood.cli.main import root
from fumehood.cli.review import asked, review, wishes_of
from fumehood.core import errors
from fumehood.core.errors import FumehoodError, RefusedError
from fumehood.core.sections import SECTIONS, Settings
from fumehood.review import source

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "changes").glob("*.md")])
IDS = [str(page.relative_to(ROOT)) for page in PAGES]
CODE = re.compile(r"^```[^\n]*\n(.*?)^```$|`([^`\n]+)`", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#]+)(?:#[^)]*)?\)")
# Words that claim more than a test can hold, unless the same sentence says against what and tested by which.
CLAIM = re.compile(r"\b(?:secure|securely|safe|safely|prevents?|guarantees?|impossible|unbreakable)\b", re.IGNORECASE)
PLACEHOLDER = re.compile(r"NAME|OWNER|PATH|VERSION|…")
QUOTED = re.compile(r"[\"“][^\"”]*[\"”]|`[^`]*`")


def code(page: str) -> Iterator[str]:
    """Every line of every block, and every span."""
    for block, span in CODE.findall(page):
        yield from (line.removeprefix("$ ").strip() for line in (block or span).splitlines())


def options(command: click.Command) -> set[str]:
    return {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)} | {"--help"}


def unknown(line: str) -> str:
    """What a line with `fumehood …` names and the command line does not have; empty when it has everything."""
    words = line.partition(" -- ")[0].replace("[", " ").replace("]", " ").replace("|", " ").split()[1:]
    command: click.Command = root
    while words and isinstance(command, click.Group):
        if words[0].startswith("--"):  # an option of a group stands before its command, with its value
            if words[0] not in options(command):
                return words[0]
            words = words[2:]
            continue
        below = command.get_command(click.Context(command), words[0])
        if below is None:
            return words[0]
        command = below
        words = words[1:]
    wanted = [word.partition("=")[0] for word in words if word.startswith("--")]
    return next((word for word in wanted if word not in options(command) | options(root)), "")


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_every_command_and_option_that_a_page_names_exists(page: Path) -> None:
    lines = [line for line in code(page.read_text(encoding="utf-8")) if line.startswith("fumehood ")]
    assert {line: wrong for line in lines if (wrong := unknown(line))} == {}


def refused(line: str) -> str:
    """Why a `fumehood review run|request SOURCE …` would be refused before anything ran; empty when it would not be."""
    words = shlex.split(line)
    command = review.commands[words[2]]
    if command not in {review.commands["run"], review.commands["request"]} or not source.is_source((*words, "")[3]):
        return ""
    if PLACEHOLDER.search(words[3]):
        return ""
    try:
        given = command.make_context("", [*words[3:], *(["--out", "x"] if words[2] == "run" else [])]).params
        asked(given.pop("text" if words[2] == "run" else "source_text"), wishes_of(given))
    except (click.ClickException, RefusedError) as error:
        return str(error)
    return ""


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_every_review_that_a_page_asks_for_would_be_accepted(page: Path) -> None:
    lines = [line for line in code(page.read_text(encoding="utf-8")) if line.startswith("fumehood review ")]
    lines = [line.partition(" > ")[0] for line in lines if line.split()[2] in review.commands]
    assert {line: why for line in lines if (why := refused(line))} == {}


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_every_make_target_that_a_page_names_exists(page: Path) -> None:
    targets = set(re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    named = {
        line.split()[1]
        for line in code(page.read_text(encoding="utf-8"))
        if line.startswith("make ") and len(line.split()) > 1
    }
    assert named - targets == set()


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_every_link_between_pages_leads_somewhere(page: Path) -> None:
    targets = [t for t in LINK.findall(page.read_text(encoding="utf-8")) if "://" not in t]
    assert [target for target in targets if not (page.parent / target).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_no_page_claims_more_than_it_bounds(page: Path) -> None:
    prose = QUOTED.sub("", page.read_text(encoding="utf-8"))
    paragraphs = re.split(r"\n\s*\n", prose)
    claims = [p for p in paragraphs if CLAIM.search(p) and not ("against" in p and "tested by" in p)]
    assert claims == []


def test_every_page_below_docs_is_reached_from_the_index() -> None:
    index = (ROOT / "docs/index.md").read_text(encoding="utf-8")
    reached = {(ROOT / "docs" / target).resolve() for target in LINK.findall(index)}
    pages = {page for page in PAGES if page.is_relative_to(ROOT / "docs") and "adr" not in page.parts}
    assert pages - reached - {ROOT / "docs/index.md"} == set()


def test_every_decision_is_listed() -> None:
    folder = ROOT / "docs/adr"
    listed = LINK.findall((folder / "README.md").read_text(encoding="utf-8"))
    assert sorted(listed) == sorted(page.name for page in folder.iterdir() if page.name != "README.md")


def test_the_checks_find_what_they_look_for() -> None:
    assert unknown("fumehood nothing --at all") == "nothing"
    assert unknown("fumehood doctor --no-such-option") == "--no-such-option"
    assert unknown("fumehood doctor --json") == ""
    assert "entrypoint" in refused("fumehood review run dir:x --out y")
    assert refused("fumehood review run dir:x --entrypoint server.js") == ""
    assert "40 hex" in refused("fumehood review request github:owner/repository")
    assert CLAIM.search("this is safe")
    assert list(code("a `fumehood x`\n```\n$ make y\n```\n")) == ["fumehood x", "make y"]


def test_the_paths_in_codeowners_exist() -> None:
    lines = (ROOT / ".github/CODEOWNERS").read_text(encoding="utf-8").splitlines()
    paths = [line.split()[0] for line in lines if line and not line.startswith("#")]
    assert len(paths) > 5
    assert [path for path in paths if not (ROOT / path.strip("/")).exists()] == []


def test_the_six_bans_of_the_requirements_stand_in_contributing() -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").lower()
    bans = (
        "real credentials",
        "private source",
        "customer data",
        "automatic security verdicts",
        "self-hosted runners",
        "a general arbitrary-command interface",
    )
    assert [ban for ban in bans if f"**{ban}.**" not in page] == []


def test_change_fragments_are_named_by_their_kind() -> None:
    kinds = ("added", "changed", "fixed", "security", "removed")
    fragments = [path.name for path in (ROOT / "changes").iterdir() if path.name != "README.md"]
    assert [name for name in fragments if not re.fullmatch(rf"[a-z0-9-]+\.(?:{'|'.join(kinds)})\.md", name)] == []


def test_the_page_of_settings_lists_exactly_the_settings() -> None:
    page = (ROOT / "docs/reference/settings.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"^\| `([a-z_.]+)` \|", page, re.MULTILINE))
    fields = {f"{name}.{f.name}" for name, section in SECTIONS.items() for f in msgspec.structs.fields(section)}
    top = {f.name for f in msgspec.structs.fields(Settings)} - set(SECTIONS)
    assert listed == fields | top


def test_the_page_of_the_server_lists_exactly_the_codes_of_a_refusal() -> None:
    page = (ROOT / "docs/reference/serve.md").read_text(encoding="utf-8").partition("## A refusal")[2]
    listed = {code for row in re.findall(r"^\|(.+?)\|", page, re.MULTILINE) for code in re.findall(r"`([a-z_]+)`", row)}
    raised = {one.code for one in vars(errors).values() if isinstance(one, type) and issubclass(one, FumehoodError)}
    families = {"error", "failed", "refused", "limit"}  # only what is below them is raised by a tool
    assert listed == raised - families - {"unknown_tool"}  # which is the protocol's own error
