"""`fumehood gateway`: many MCP servers as one. Thin: parse, call, render."""

from pathlib import Path

import click

from fumehood.cli.serveoptions import TRANSPORTS


@click.group(invoke_without_command=True)
@click.option("--config", metavar="FILE", type=click.Path(path_type=Path), help="The gateway.toml.")
@click.option("--transport", type=click.Choice(TRANSPORTS), default="stdio", help="stdio (the default) or http.")
@click.option("--host", metavar="H", help="The address to listen on (default 127.0.0.1).")
@click.option("--port", metavar="P", type=int, help="The port to listen on (default 8765; 0: any).")
@click.pass_context
def gateway(ctx: click.Context, config: Path | None, transport: str, host: str | None, port: int | None) -> int:
    """Put many MCP servers behind one, each confined, pinned and watched. Ends with its client, or by a signal.

    Each server of FILE runs as `fumehood guard` would run it, or is reached at its address; its tools are named
    SERVER__TOOL and withheld once they change; what they answer is redacted, fenced and marked; a model can use all of
    them through three tools.

    Exit: 0 its client is gone; 1 its client does not read; 2 refused before anything is started; 3 this host cannot
    confine a command; 4 its client went beyond a limit; 130 interrupted.
    """
    if ctx.invoked_subcommand is not None:
        if config is not None:
            typed = f"fumehood gateway {ctx.invoked_subcommand}"
            raise click.UsageError(f"--config belongs behind the command: see {typed} --help", ctx)
        return 0
    if config is None:
        raise click.UsageError("no --config: write fumehood gateway --config gateway.toml", ctx)
    from fumehood.cli import extras

    extras.need("serve")
    from fumehood.cli import gatewaying

    return gatewaying.run(gatewaying.Asked(config=config, transport=transport, host=host, port=port))


@gateway.command("accept", short_help="Accept the changed tools of a server.")
@click.argument("server", metavar="[SERVER]", required=False)
@click.option("--config", metavar="FILE", required=True, type=click.Path(path_type=Path), help="The gateway.toml.")
@click.option("--digest", metavar="DIGEST", help="Accept only what has this digest, as the gateway told it.")
@click.option("--show", is_flag=True, help="Print what waits, and accept nothing.")
def accept_command(server: str | None, config: Path, digest: str | None, *, show: bool) -> int:
    """Print how the tools of SERVER differ from those that were accepted, and accept exactly these.

    Without SERVER: of every server of which something waits. A gateway that runs takes it up within seconds.

    Exit: 2 nothing waits, or something else than what was shown.
    """
    from fumehood.cli import extras

    extras.need("serve")
    from fumehood.cli import accepting

    return accepting.run(accepting.Asked(config=config, server=server, digest=digest, only_show=show))


@gateway.command("import", short_help="Print a gateway.toml made of a client's configuration.")
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path))
def import_command(file: Path) -> None:
    """Read the servers in FILE, which a client is configured by, and print what they are in gateway.toml.

    FILE has `mcpServers` (Claude Code, Claude Desktop, Cursor, Gemini), `servers` (VS Code) or `[mcp_servers.NAME]`
    (Codex) in it. Values of variables and headers are not copied: which variables to set is said on stderr, and so is
    everything that cannot be carried over. Nothing is written or started.
    """
    from fumehood.cli import extras

    extras.need("serve")
    from fumehood.cli import render
    from fumehood.core import limits, settings
    from fumehood.gateway.topology import imports

    text = settings.owned_text(file, ascii(str(file))[1:-1], size=limits.IMPORT_BYTES)
    made = imports.convert(text, str(file))
    render.data(made.text.rstrip("\n"))
    for note in made.notes:
        render.words(note)
