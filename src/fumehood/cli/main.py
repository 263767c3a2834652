"""The `fumehood` command: a group that imports a command only when it is asked for.

Holds: `--help` imports neither pydantic, asyncio, mcp, msgspec nor jsonschema_rs. Exit statuses are those of
`core.errors`; an error that is not one of ours ends with 5 and its traceback in the log.
"""

import sys

import click

from fumehood.core.errors import FumehoodError

# name → (module:attribute, one line for --help)
COMMANDS: dict[str, tuple[str, str]] = {
    "audit": ("fumehood.cli.audit:audit", "Check an audit log."),
    "call": ("fumehood.cli.call:call", "Call one tool of the workspace server from the shell."),
    "code": ("fumehood.cli.code:code", "Run a program that a model wrote."),
    "config": ("fumehood.cli.config:config", "Print what a client's configuration needs."),
    "demo": ("fumehood.cli.demo:demo", "Show a review, a served folder and a program, bundled, without a network."),
    "doctor": ("fumehood.cli.doctor:doctor", "Say what this host can confine, and what is missing."),
    "gateway": ("fumehood.cli.gateway:gateway", "Put many MCP servers behind one."),
    "guard": ("fumehood.cli.guard:guard", "Run one MCP server behind walls, between its client and itself."),
    "serve": ("fumehood.cli.serve:serve", "Serve one directory to a model, over MCP."),
    "tools": ("fumehood.cli.tools:tools", "List the tools of the workspace server."),
    "review": ("fumehood.cli.review:review", "Run an MCP server once, bounded, and write what it did."),
}


class LazyGroup(click.Group):
    """A group whose commands are imported when they are run, and whose help is known beforehand."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Every command, sorted."""
        del ctx
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the command's module, or nothing when there is none of that name."""
        del ctx
        if cmd_name not in COMMANDS:
            return None
        import importlib

        module, _, attribute = COMMANDS[cmd_name][0].partition(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands without importing them."""
        del ctx
        if not COMMANDS:
            return
        with formatter.section("Commands"):
            formatter.write_dl([(name, COMMANDS[name][1]) for name in sorted(COMMANDS)])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="fumehood", prog_name="fumehood")
@click.option("--settings", metavar="FILE", help="Read settings from FILE instead of the user's own.")
def root(settings: str | None) -> None:
    """Handle untrusted MCP servers, clients, content and code behind glass."""
    del settings  # cli.start reads it from the context


def main() -> None:
    """Run the command line and end the process with the status of `core.errors`."""
    try:
        status = root.main(standalone_mode=False)
        sys.exit(status if isinstance(status, int) else 0)
    except click.ClickException as error:
        error.show()
        sys.exit(2)
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        sys.exit(130)
    except FumehoodError as error:
        click.echo(f"fumehood: {error}", err=True)
        sys.exit(error.exit_status)
    except Exception:  # the rim: whatever else happens is our own fault, and says so
        import logging

        from fumehood.core import logs

        logs.ensure()
        logging.getLogger("fumehood").exception("unexpected error")
        click.echo("fumehood: an error of its own; the log has the traceback", err=True)
        sys.exit(5)
