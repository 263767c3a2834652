"""Print the Markdown table of a finished batch, from its folders alone: docs/reviews.md is made by it.

python scripts/reviews.py DIR [SECOND_DIR]

With a second folder, a batch of the same list, each row says whether both digests of the behaviour are equal: as they
were written, and as this version makes them of the same results (its noise may know more than the version that ran).
"""

import sys
from pathlib import Path

from fumehood.core import limits
from fumehood.core.errors import RefusedError
from fumehood.review import files, reading
from fumehood.review.batch import facts, table
from fumehood.review.batch.place import REQUEST, Place
from fumehood.review.batch.table import Row
from fumehood.review.behaviour import canonical


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


def compared(first: Path, second: Path) -> str:
    """Which behaviours are equal in both passes, as written and as this version reads them; one line a request."""
    other = {row.digest: row for row in rows(second)}
    lines = ["| target | first | second | as written | read by this version |", "|---|---|---|---|---|"]
    for row in rows(first):
        one, two = written(row), written(other.get(row.digest))
        now = said(read(first, row), read(second, other.get(row.digest)))
        lines.append(f"| {table.cell(row.target)} | {one[:12]} | {two[:12]} | {said(one, two)} | {now} |")
    return "\n".join(lines) + "\n"


def said(one: str, two: str) -> str:
    """What two digests say of each other."""
    return "one only" if not (one and two) else "equal" if one == two else "differ"


def written(row: Row | None) -> str:
    """The digest that a row's result holds; empty without one."""
    return (row.facts.behaviour or "") if row and row.facts else ""


def read(folder: Path, row: Row | None) -> str:
    """The digest that this version makes of a row's result; empty where there is none, or it cannot be read."""
    if row is None or row.result is None:
        return ""
    try:
        data = files.read(folder / row.result, size=limits.JSON_RESULT_BYTES)
        return canonical.behaviour(reading.result(data, row.target)).sha256
    except RefusedError:
        return ""


def main() -> int:
    """Print the table, and the comparison when there are two folders."""
    if len(sys.argv) not in {2, 3}:
        print(__doc__, file=sys.stderr)
        return 2
    first = Path(sys.argv[1])
    print(table.markdown(table.summary(rows(first))).decode("utf-8"))
    if len(sys.argv) > 2:  # noqa: PLR2004 - a second folder
        print(compared(first, Path(sys.argv[2])))
    return 0


if __name__ == "__main__":
    sys.exit(main())
