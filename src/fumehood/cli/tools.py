"""`fumehood tools`: what a client of `fumehood serve` is offered."""

import click

from fumehood.cli import render


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print the definitions as `tools/list` gives them.")
def tools(*, as_json: bool) -> None:
    """List the published tools. Every one of them only reads."""
    from fumehood.cli import extras

    extras.need("serve")
    from fumehood.serve import registry
    from fumehood.serve.catalogue import TOOLS

    if as_json:
        render.document([registry.definition(tool) for tool in TOOLS])
        return
    width = max(len(tool.name) for tool in TOOLS)
    for tool in TOOLS:
        render.data(f"{tool.name:{width}}  {tool.description.partition('. ')[0].rstrip('.')}.")
