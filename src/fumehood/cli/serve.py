"""`fumehood serve`: one directory for a model. Thin: parse, open, serve."""

from pathlib import Path
from typing import Any

import click

from fumehood.cli.serveoptions import serve_options, the_workspace


@click.command()
@serve_options
@click.option("--audited-by-caller", is_flag=True, help="Keep no audit log: who starts this server records its calls.")
def serve(workspace: tuple[str, ...], *, audited_by_caller: bool, **options: Any) -> int:  # noqa: ANN401 - click's options
    """Serve one directory to a model: contained, redacted, marked, bounded; read-only. Ends with its client."""
    from fumehood.cli import auditing, extras
    from fumehood.cli.start import start

    extras.need("serve")
    from fumehood.serve import server

    settings = start({"http.host": options["host"], "http.port": options["port"]})
    folder = Path(the_workspace(workspace, settings.workspace.root))
    serving = server.over_http if options["transport"] == "http" else server.over_stdio
    with auditing.served(settings, folder, audited=audited_by_caller) as records:
        return serving(settings, folder, records)
