"""`fumehood config`: print what a client's configuration needs to start, or to reach, one of our servers."""

import os
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fumehood.cli import clients, render
from fumehood.cli.guardoptions import guard_options, guard_settings
from fumehood.cli.serveoptions import serve_options, the_workspace, transport_options
from fumehood.core.errors import UnsupportedError
from fumehood.core.settings import PREFIX

if TYPE_CHECKING:
    from fumehood.core.sections import HttpSettings


@click.group()
@click.option("--client", type=click.Choice(list(clients.CLIENTS)), required=True, help="Whose configuration.")
def config(client: str) -> None:
    """Print the configuration that makes a client use fumehood. Nothing is written anywhere."""
    del client  # the subcommand reads it from its parent's context


@config.command("serve", short_help="For the workspace server.")
@serve_options
def serve_command(workspace: tuple[str, ...], **options: Any) -> None:  # noqa: ANN401 - click's options
    """Print the configuration for `fumehood serve` with these options."""
    from fumehood.cli.start import start

    context = click.get_current_context()
    client = str(context.parent.params["client"]) if context.parent else ""
    settings = start({"http.host": options["host"], "http.port": options["port"]})
    if options["transport"] == "http":
        server: clients.Started | clients.Listening = _listening(settings.http)
    else:
        folder = Path(the_workspace(workspace, settings.workspace.root)).absolute()
        server = clients.Started(argv=[*_program(), *_settings(context), "serve", "--workspace", str(folder)])
    made = clients.snippet(client, server)
    _show(made)
    if isinstance(server, clients.Started):
        if not Path(server.argv[-1]).is_dir():
            render.words(f"there is no folder {server.argv[-1]} yet: the server will not start")
        for warning in _lost(server.argv, os.environ):
            render.words(warning)
    else:
        _say_without_token(settings.http)


@config.command("guard", short_help="For a server behind guard.", context_settings=guard_settings())
@guard_options
@click.option("--name", metavar="NAME", help="What the client calls the server (default: a word of the command).")
def guard_command(command: tuple[str, ...], policy: str | None, name: str | None, **flags: tuple[str, ...]) -> None:
    """Print the configuration for `fumehood guard` with these options; nothing is started."""
    from fumehood.gateway.guard import command as commands
    from fumehood.gateway.guard import policy as policies

    context = click.get_current_context()
    client = str(context.parent.params["client"]) if context.parent else ""
    typed = commands.read(command)
    policies.from_flags({key: value for key, value in flags.items() if value})
    words = [
        word for key, values in flags.items() for value in values for word in (f"--{key.replace('_', '-')}", value)
    ]
    kept = [] if policy is None else ["--policy", str(Path(policy).absolute())]
    argv = [*_program(), *_settings(context), "guard", *kept, *words, "--", *command]
    made = clients.snippet(client, clients.Started(argv=argv, name=name or commands.word(typed)))
    _show(made)
    if flags["env"]:
        render.words(
            f"the client has to give it: {', '.join(flags['env'])}; values belong into the `env` of this entry"
        )
    for warning in _lost(argv, os.environ):
        render.words(warning)


@config.command("gateway", short_help="For a gateway of many servers.")
@click.option("--config", "file", metavar="FILE", required=True, help="The gateway.toml.")
@transport_options
@click.option("--name", metavar="NAME", default=clients.NAME, help="What the client calls it (default: fumehood).")
def gateway_command(file: str, name: str, **options: Any) -> None:  # noqa: ANN401 - click's options
    """Print the configuration for `fumehood gateway` with these options; nothing is started.

    FILE is read first, so that what would not start is not written into a client's file.
    """
    from fumehood.cli.start import start
    from fumehood.gateway.topology import load, needs

    context = click.get_current_context()
    client = str(context.parent.params["client"]) if context.parent else ""
    settings = start({"http.host": options["host"], "http.port": options["port"]})
    loaded = load.load(Path(file))
    variables = ", ".join(needs.variables(loaded.topology))
    if options["transport"] == "http":
        made = clients.snippet(client, replace(_listening(settings.http), name=name))
        _show(made)
        _say_without_token(settings.http)
        if variables:
            render.words(f"where the gateway is started these have to be set: {variables}")
        return
    argv = [*_program(), *_settings(context), "gateway", "--config", loaded.path]
    _show(clients.snippet(client, clients.Started(argv=argv, name=name)))
    if variables:
        render.words(f"the client has to give it: {variables}; values belong into the `env` of this entry")
    for warning in _lost(argv, os.environ):
        render.words(warning)


def _show(made: clients.Snippet) -> None:
    render.data(made.text)
    render.words(f"put this into {made.where}")


def _say_without_token(http: "HttpSettings") -> None:
    if http.token_file is None and http.oauth_issuer is None:
        render.words("this server asks for no token: http.token_file makes it ask for one")


def _listening(http: "HttpSettings") -> clients.Listening:
    """Where a client finds the server. An access token of OAuth is the client's own affair: it asks for one itself."""
    if http.unix_socket is not None or http.port == 0:
        raise UnsupportedError("no client's file can name a Unix socket, or any free port", remedy="set http.port")
    scheme = "https" if http.tls_certificate else "http"
    url = f"{scheme}://{_authority(http.host)}:{http.port}/mcp"
    return clients.Listening(url=url, token=http.token_file is not None)


def _lost(argv: Sequence[str], environ: Mapping[str, str]) -> Iterator[str]:
    """What the server that a client starts may not have as it is here."""
    if named := sorted(name for name in environ if name.startswith(PREFIX)):
        yield f"not carried over: {', '.join(named)}; write settings into a file and name it with --settings"
    if any("$" in word for word in argv):
        yield "a path holds `$`, which a client may read as a variable: use a folder without one"


def _authority(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _settings(context: click.Context) -> list[str]:
    """The same `--settings`, so that the client's server has the same walls."""
    named = context.find_root().params.get("settings")
    return ["--settings", str(Path(named).absolute())] if named else []


def _program() -> list[str]:
    """How this program is started again: its script beside this interpreter, else the module."""
    script = shutil.which("fumehood", path=str(Path(sys.executable).parent))
    return [script] if script else [sys.executable, "-m", "fumehood"]
