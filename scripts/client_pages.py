"""Write what `fumehood config` prints into the pages for each client, behind the commands that stand there."""

import re
import shlex
import tempfile
from pathlib import Path
from unittest import mock

from click.testing import CliRunner

from fumehood.cli import config
from fumehood.cli.clients import CLIENTS
from fumehood.cli.main import root

ROOT = Path(__file__).resolve().parent.parent
PROGRAM = "/home/me/.local/bin/fumehood"
GATEWAY = "/home/me/gateway.toml"
TOKENS = "/home/me/tokens"
BLOCK = re.compile(
    r"(?P<command>^```\nfumehood (?P<words>config [^\n]+)\n```\n\n)```(?P<kind>json|toml)\n.*?^```$",
    re.MULTILINE | re.DOTALL,
)


def page(client: str) -> Path:
    """The page for a client."""
    return ROOT / f"docs/howto/{client}.md"


def printed(words: list[str]) -> str:
    """What `fumehood WORDS` prints; over HTTP with a token file set."""
    environ = {"HOME": "/home/me"} | ({"FUMEHOOD_HTTP__TOKEN_FILE": TOKENS} if "http" in words else {})
    with tempfile.TemporaryDirectory() as folder, mock.patch.object(config, "_program", return_value=[PROGRAM]):
        file = Path(folder, "gateway.toml")
        file.touch()
        asked = [str(file) if word == GATEWAY else word for word in words]
        done = CliRunner().invoke(root, asked, env=environ)
        if done.exception is not None:
            raise done.exception
        return done.stdout.replace(str(file), GATEWAY)


def text(client: str) -> str:
    """A page as it should be."""

    def block(found: re.Match[str]) -> str:
        return f"{found['command']}```{found['kind']}\n{printed(shlex.split(found['words']))}```"

    return BLOCK.sub(block, page(client).read_text(encoding="utf-8"))


def main() -> None:
    """Write every page that is not current, and name it."""
    for client in CLIENTS:
        wanted = text(client)
        if page(client).read_text(encoding="utf-8") != wanted:
            page(client).write_text(wanted, encoding="utf-8")
            print(page(client).relative_to(ROOT))


if __name__ == "__main__":
    main()
