"""`fumehood config`: print what a client's configuration needs to start, or to reach, one of our servers."""

import shutil
import sys
from pathlib import Path
from typing import Any

import click

from fumehood.cli import clients, render
from fumehood.cli.serveoptions import serve_options, the_workspace


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
        scheme = "https" if settings.http.tls_certificate else "http"
        token = settings.http.token_file is not None or settings.http.oauth_issuer is not None
        url = f"{scheme}://{_authority(settings.http.host)}:{settings.http.port}/mcp"
        server: clients.Started | clients.Listening = clients.Listening(url=url, token=token)
    else:
        folder = Path(the_workspace(workspace, settings.workspace.root)).absolute()
        server = clients.Started(argv=[*_program(), *_settings(context), "serve", "--workspace", str(folder)])
    made = clients.snippet(client, server)
    render.data(made.text)
    render.words(f"put this into {made.where}")


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
