"""`fumehood doctor`: what this host can confine, by which route, with which programs, and what is missing.

Data goes to stdout (a table, or one JSON document with `--json`); it ends with 0, or with 3 when `--require full` is
not met or a wall did not hold under `--prove`.
"""

import importlib.metadata
import sys

import click

from fumehood.core.errors import UnsupportedError


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.option("--require", type=click.Choice(["full"]), help="End with 3 unless every wall of the route stands.")
@click.option("--prove", is_flag=True, help="Try each wall from inside, with it and with it taken away.")
def doctor(*, as_json: bool, require: str | None, prove: bool) -> int:
    """Say what this host can confine, and what is missing."""
    import msgspec

    from fumehood.cli.doctorreport import as_table, report
    from fumehood.sandbox.probe import probe_host
    from fumehood.sandbox.standing import foresee

    facts = probe_host({}, quick=False)
    containment = foresee(facts)
    proofs = None
    if prove:
        raise UnsupportedError("--prove is not built yet")
    document = report(facts, containment, proofs, importlib.metadata.version("fumehood"))
    if as_json:
        sys.stdout.write(msgspec.json.format(msgspec.json.encode(document).decode(), indent=2) + "\n")
    else:
        click.echo(as_table(document))
    if require == "full" and not document.full:
        return UnsupportedError.exit_status
    return 0
