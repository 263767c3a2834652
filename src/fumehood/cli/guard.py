"""`fumehood guard`: one MCP server, confined, between its client and itself. Thin: parse, call."""

import click


@click.command(context_settings={"ignore_unknown_options": False, "allow_interspersed_args": False})
@click.option("--policy", metavar="FILE", help="What the server may do, as TOML; the other options add to it.")
@click.option("--allow-read", multiple=True, metavar="PATH", help="A file or folder that the server may read.")
@click.option("--allow-write", multiple=True, metavar="PATH", help="One that it may read and change.")
@click.option("--allow-net", multiple=True, metavar="HOST:PORT", help="A host that it may reach, at one port.")
@click.option("--env", multiple=True, metavar="NAME", help="A variable that it is given, by its name.")
@click.option(
    "--accept", is_flag=True, help="Start nothing: accept the server's changed tools, and print how they changed."
)
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- COMMAND ARGS…")
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
