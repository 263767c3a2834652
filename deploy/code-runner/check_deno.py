"""Refuse a Deno that is not the one whose version and SHA-256 stand in the Containerfile.

`DENO` in the environment is `VERSION@sha256:HEX`. Usage: check_deno.py FOLDER, where wheels were installed into FOLDER.
Standard library only: it runs while the image is built, where nothing else is.
"""

import hashlib
import os
import re
import sys
from pathlib import Path

_PIN = re.compile(r"(?P<version>[0-9]+\.[0-9]+\.[0-9]+)@sha256:(?P<digest>[0-9a-f]{64})")


def problem(pin: str, folder: Path) -> str:
    """Why the Deno in `folder` is not the pinned one, or nothing."""
    wanted = _PIN.fullmatch(pin)
    if wanted is None:
        return f"not VERSION@sha256:HEX: {pin!r}"
    if not (folder / f"deno-{wanted['version']}.dist-info").is_dir():
        found = sorted(path.name for path in folder.glob("deno-*.dist-info"))
        return f"the image is to have Deno {wanted['version']}; installed: {', '.join(found) or 'none'}"
    with (folder / "bin/deno").open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest != wanted["digest"]:
        return f"Deno's SHA-256 is {digest}, pinned is {wanted['digest']}"
    return ""


if __name__ == "__main__":
    sys.exit(problem(os.environ.get("DENO", ""), Path(sys.argv[1])) or None)
