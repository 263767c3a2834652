"""Wheels made in a test: files, metadata and a RECORD, zipped in memory, the same bytes every time."""

import base64
import hashlib
import io
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field

SERVER = """
import json, sys

def main():
    for line in sys.stdin:
        asked = json.loads(line)
        if asked.get("method") == "initialize":
            info = {"name": "unit", "version": "1.0.0"}
            version = asked["params"]["protocolVersion"]
            result = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}
            print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wheel:
    """One pure wheel. `files` are relative to site-packages; `raw` are entries as they stand, unrecorded."""

    name: str
    version: str = "1.0"
    files: Mapping[str, str] = field(default_factory=dict)
    scripts: Mapping[str, str] = field(default_factory=dict)  # program → module:function
    requires: tuple[str, ...] = ()
    python: str = ">=3.8"
    raw: tuple[tuple[str, bytes], ...] = ()
    links: Mapping[str, str] = field(default_factory=dict)  # entry → target, as a symbolic link

    @property
    def stem(self) -> str:
        """Name and version as files have them."""
        return f"{self.name.replace('-', '_')}-{self.version}"

    @property
    def filename(self) -> str:
        """The file's name."""
        return f"{self.stem}-py3-none-any.whl"

    @property
    def metadata(self) -> str:
        """METADATA of the core metadata specification."""
        requires = "".join(f"Requires-Dist: {one}\n" for one in self.requires)
        head = f"Metadata-Version: 2.1\nName: {self.name}\nVersion: {self.version}\nRequires-Python: {self.python}\n"
        return f"{head}{requires}"


def server(name: str = "unit-server", **changes: object) -> Wheel:
    """A server of the standard library alone, with a program of its own name."""
    module = name.replace("-", "_")
    values: dict[str, object] = {
        "name": name,
        "files": {f"{module}.py": SERVER},
        "scripts": {name: f"{module}:main"},
    }
    extra = changes.pop("more", {})
    assert isinstance(extra, dict)
    made = {**values, **changes}
    made["files"] = {**made["files"], **extra}  # type: ignore[dict-item]  # a table of keyword arguments
    return Wheel(**made)  # type: ignore[arg-type]  # the same


def pack(wheel: Wheel) -> bytes:
    """The zipped wheel."""
    info = f"{wheel.stem}.dist-info"
    everything = {
        **wheel.files,
        f"{info}/METADATA": wheel.metadata,
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: unit\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    if wheel.scripts:
        lines = "".join(f"{name} = {place}\n" for name, place in wheel.scripts.items())
        everything[f"{info}/entry_points.txt"] = f"[console_scripts]\n{lines}"
    record = "".join(f"{name},sha256={_digest(text)},{len(text.encode())}\n" for name, text in everything.items())
    everything[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n"
    raw = io.BytesIO()
    with zipfile.ZipFile(raw, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in everything.items():
            archive.writestr(_entry(name, 0o644), text)
        for name, data in wheel.raw:
            archive.writestr(_entry(name, 0o755), data)
        for name, target in wheel.links.items():
            archive.writestr(_entry(name, 0o120777), target)
    return raw.getvalue()


def _entry(name: str, mode: int) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0))
    entry.external_attr = mode << 16
    entry.compress_type = zipfile.ZIP_DEFLATED
    return entry


def _digest(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).decode().rstrip("=")
