"""Write the published JSON Schemas from the Structs that define them: into the package and into docs/reference."""

from pathlib import Path

import msgspec

from fumehood.code import job, messages
from fumehood.code.service import link
from fumehood.core import jsonio
from fumehood.gateway import lockfile
from fumehood.gateway.audit import record
from fumehood.gateway.topology import read
from fumehood.review import request, result
from fumehood.review.behaviour import diff

ROOT = Path(__file__).resolve().parent.parent
SCHEMAS = {
    "audit-record": record.schema,
    "code-job": job.schema,
    "code-link": link.schema,
    "code-messages": messages.schema,
    "code-result": job.result_schema,
    "gateway": read.schema,
    "lock": lockfile.schema,
    "review-diff": diff.schema,
    "review-request": request.schema,
    "review-result": result.schema,
}


def places(name: str) -> list[Path]:
    """Where one schema is published."""
    return [
        ROOT / f"src/fumehood/data/schemas/{name}.json",
        ROOT / f"docs/reference/{name}.schema.json",
    ]


def text(name: str) -> bytes:
    """The bytes of one schema file."""
    return msgspec.json.format(jsonio.dump(SCHEMAS[name]()), indent=2) + b"\n"


def main() -> None:
    """Write every file that is not current, and name it."""
    for name in SCHEMAS:
        for path in places(name):
            path.parent.mkdir(parents=True, exist_ok=True)
            if not path.exists() or path.read_bytes() != text(name):
                path.write_bytes(text(name))
                print(path.relative_to(ROOT))


if __name__ == "__main__":
    main()
