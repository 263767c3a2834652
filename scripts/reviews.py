"""Print the Markdown table of a finished batch, from its folders alone: docs/reviews.md is made by it.

python scripts/reviews.py DIR [SECOND_DIR]

With a second folder, a batch of the same list, each row says whether both digests of the behaviour are equal.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from fumehood.core import limits
from fumehood.review import files
from fumehood.review.batch import facts, table
from fumehood.review.batch.place import REQUEST, Place
from fumehood.review.batch.table import Row


def rows(folder: Path) -> list[Row]:
    """A row for each request that has a folder, by target."""
    found = []
    with Place(folder) as place:
        for digest in place.digests():
            standing = place.standing(digest)
            target = facts.target(files.read(folder / digest / REQUEST, size=limits.JSON_REQUEST_BYTES))
            found.append(
                Row(
                    target=target,
                    digest=digest,
                    attempts=standing.attempts,
                    result=f"{digest}/{standing.last}/result.json" if standing.last else None,
                    facts=standing.facts,
                    words=standing.words,
                )
            )
    return sorted(found, key=lambda row: (row.target, row.digest))


def compared(first: Sequence[Row], second: Sequence[Row]) -> str:
    """Which behaviours are equal in both passes, one line a request."""
    other = {row.digest: row for row in second}
    lines = ["| target | first | second | digests |", "|---|---|---|---|"]
    for row in first:
        one, two = behaviour(row), behaviour(other.get(row.digest))
        said = "one only" if not (one and two) else "equal" if one == two else "differ"
        lines.append(f"| {table.cell(row.target)} | {one[:12]} | {two[:12]} | {said} |")
    return "\n".join(lines) + "\n"


def behaviour(row: Row | None) -> str:
    """The digest of a row's behaviour; empty without one."""
    return (row.facts.behaviour or "") if row and row.facts else ""


def main() -> int:
    """Print the table, and the comparison when there are two folders."""
    if len(sys.argv) not in {2, 3}:
        print(__doc__, file=sys.stderr)
        return 2
    first = rows(Path(sys.argv[1]))
    print(table.markdown(table.summary(first)).decode("utf-8"))
    if len(sys.argv) > 2:  # noqa: PLR2004 - a second folder
        print(compared(first, rows(Path(sys.argv[2]))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
