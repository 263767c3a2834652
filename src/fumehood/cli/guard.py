"""`fumehood guard`: one MCP server, confined, between its client and itself. Thin: parse, call."""

import click

from fumehood.cli.guardoptions import guard_options, guard_settings


@click.command(context_settings=guard_settings())
@guard_options
@click.option(
    "--accept", is_flag=True, help="Start nothing: accept the server's changed tools, and print how they changed."
)
def guard(command: tuple[str, ...], policy: str | None, *, accept: bool, **flags: tuple[str, ...]) -> int:
    """Run the MCP server that COMMAND starts behind walls, over standard input and output.

    Without a policy it reads the system and nothing else of this host, has a home of its own that is gone afterwards,
    no network, and no variable of yours. Its tools are pinned when they are first seen.

    Exit: the server's own status; 2 refused; 3 a wall cannot stand here; 4 a limit.
    """
    from fumehood.cli import extras

    extras.need("serve")
    from fumehood.cli import guarding

    if accept:
        return guarding.accept(command)
    return guarding.run(guarding.Asked(command=command, policy=policy, flags=flags))
