"""`fumehood gateway`: many MCP servers as one. Thin: parse, call, render."""

from pathlib import Path

import click


@click.group()
def gateway() -> None:
    """Put many MCP servers behind one, each confined, pinned and watched."""


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
